"""Deletes entries whose hold has ended, never before the end of the hold in their own manifest.

Files are deleted one by one, and only those that the manifest names and that match it.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.trash import contents
from ckptd.checkpoints.trash.descriptors import FileOperations, Step, closing, exists, open_below
from ckptd.checkpoints.trash.entries import find_missing, find_run, rules_of
from ckptd.checkpoints.trash.entry_limit import WHOLE, TurnLimits, TurnProgress, list_names
from ckptd.checkpoints.trash.manifest import MOVED, Manifest, Origin, find_release, read_changes, read_manifest
from ckptd.checkpoints.trash.move_aside import OpenEntry, drop_entry
from ckptd.checkpoints.trash.outcome import RefusedError, TrashOutcome, TrashResult
from ckptd.checkpoints.trash.restoration import make_outcome, on_place
from ckptd.checkpoints.trash.trash_location import (
    DELETING,
    OpenTrash,
    check_act_id,
    check_actor,
    is_act_id,
    is_begun,
    open_place,
)
from ckptd.core.fleet.prune_totals import FailureCause

NOTHING_LEFT = "nothing of it was left in the trash"


class ReleaseRule(NamedTuple):
    """Which entries may be deleted: moved before an instant (from the site's hold), and with an ended own hold."""

    held_before: datetime
    now: datetime | None  # None: a person deletes at once what the manifest would hold longer
    is_short_of_space: bool = False
    clock_tolerance: timedelta | None = None  # None: whatever the clock of the file system says

    def is_over(self, moved_at: datetime, origin: Origin) -> bool:
        """Whether the hold of an entry has ended."""
        if moved_at >= self.held_before:
            return False
        until = find_release(moved_at, origin, is_short_of_space=self.is_short_of_space)
        return self.now is None or until < self.now


class UnrecordedEntries(NamedTuple):
    """The unrecorded entries from one turn through a trash whose hold has ended."""

    act_ids: tuple[str, ...] = ()
    reached: str | None = None  # where the next turn goes on; None: the trash was gone through


def empty(
    place: PurePosixPath,
    act_ids: Collection[str],
    release: ReleaseRule,
    *,
    turn: TurnLimits = WHOLE,
    step: Step | None = None,
) -> tuple[TrashOutcome, ...]:
    """Delete those of these entries of a trash whose hold has ended; the others are REFUSED.

    Entries that were not reached in this turn have no outcome.
    """

    def act_on(act_id: str) -> Callable[[OpenTrash], TrashOutcome]:
        def act(opened: OpenTrash) -> TrashOutcome:
            check_act_id(act_id)
            _check_clock(opened, release.clock_tolerance)
            return _delete(opened, act_id, release, FileOperations(step))

        return act

    until = time.monotonic() + turn.seconds
    outcomes: list[TrashOutcome] = []
    for act_id in act_ids:
        outcomes.append(on_place(place, act_id, act_on(act_id)))
        if time.monotonic() >= until:
            break
    return tuple(outcomes)


def list_unrecorded(
    place: PurePosixPath, known: Collection[str], directories: Collection[str], release: ReleaseRule, turn: TurnLimits
) -> UnrecordedEntries:
    """Return the deletable entries that came from one of these directories, except those of known operations.

    Raises:
        RefusedError: the trash is not the user's.
        OSError: it cannot be opened.

    """
    with open_place(place, is_locked=False) as opened:
        if opened is None:
            return UnrecordedEntries()
        strange = [name for name in list_names(opened.trash) if is_act_id(name) and name not in known]
        progress = TurnProgress(strange, turn)
        found = tuple(name for name in progress if _is_released(place, opened, name, directories, release))
        return UnrecordedEntries(found, progress.reached)


def _is_released(
    place: PurePosixPath, opened: OpenTrash, name: str, directories: Collection[str], release: ReleaseRule
) -> bool:
    try:
        with closing(open_below(opened.trash, name)) as itself:
            if not exists(MOVED, itself):
                return False
            manifest = read_manifest(itself)
    except (OSError, RefusedError):
        return False  # no entry of ckptd: it is its owner's
    is_over = release.is_over(manifest.moved_at, manifest.origin)
    return is_over and find_run(place, manifest, opened).directory in directories


def _check_clock(opened: OpenTrash, tolerance: timedelta | None) -> None:
    """Refuse to delete while the file system's clock differs from this host's by more than the tolerance."""
    if tolerance is None:
        return
    os.utime(opened.trash)  # on a network file system it is the server that says when that was
    difference = abs(os.fstat(opened.trash).st_mtime - time.time())
    if difference > tolerance.total_seconds():
        raise RefusedError(
            f"the clocks of its file system and of this host differ by {difference:.0f} s", FailureCause.HELD
        )


def _delete(opened: OpenTrash, act_id: str, release: ReleaseRule, hands: FileOperations) -> TrashOutcome:
    if is_begun(opened, act_id):
        return finish_deletion(opened, act_id, hands)
    with closing(open_below(opened.trash, act_id)) as itself:
        manifest = read_manifest(itself)
        check_actor(manifest.uid)
        _check_deletable(opened, manifest, itself, release)
        try:
            sizes = list(_check_unchanged(manifest, itself, is_by_person=release.now is None))
        except PermissionError:
            open_up(manifest, itself, hands)
            sizes = list(_check_unchanged(manifest, itself, is_by_person=release.now is None))
        hands.rename(act_id, opened.trash, act_id + DELETING, opened.trash)
        hands.sync(opened.trash)
        delete_things(manifest, itself, hands)
        drop_entry(OpenEntry(act_id + DELETING, opened.trash, itself, itself, hands))
    outcome = make_outcome(manifest, act_id, TrashResult.DELETED, None if sizes else NOTHING_LEFT)
    return replace(outcome, size_bytes=sum(sizes))


def _check_deletable(opened: OpenTrash, manifest: Manifest, itself: int, release: ReleaseRule) -> None:
    """Refuse an entry whose move is not finished, that is still held, or of which a part is elsewhere.

    A part that recovery could not put back is a person's to delete: the others may be in a directory that was renamed.
    """
    is_left = bool(manifest.directory) and not exists(manifest.directory, opened.base)
    if not exists(MOVED, itself) and not (release.now is None and is_left and opened.is_locked):
        raise RefusedError("its move is not finished", FailureCause.HELD)
    if not release.is_over(manifest.moved_at, manifest.origin):
        raise RefusedError("it is still held", FailureCause.HELD)
    missing = find_missing(manifest, itself)
    if release.now is not None and 0 < len(missing) < len(manifest.items):
        raise RefusedError(
            f"{missing[0]!r} of it is not in the trash: restore it, or delete it with `ckptd trash empty`",
            FailureCause.GONE,
        )


def _check_unchanged(manifest: Manifest, itself: int, *, is_by_person: bool) -> Iterator[int]:
    """Return the size of each existing item, after checking that it is the moved one.

    If a person requested the deletion, a different change time alone, as after chmod, is accepted.
    """
    changes = (0,) * len(manifest.items) if is_by_person else read_changes(itself, manifest)
    rules = rules_of(manifest, itself)
    for number, (item, changed_ns) in enumerate(zip(manifest.items, changes, strict=True)):
        if not exists(str(number), itself):
            continue
        written = item.as_moved(changed_ns)
        if is_by_person:
            written = tuple(thing._replace(changed_ns=0) for thing in written)
        if not contents.is_match(contents.examine(str(number), itself, rules), written):
            raise RefusedError(f"{item.name!r} has changed in the trash", FailureCause.CHANGED)
        yield item.size_bytes


def finish_deletion(opened: OpenTrash, act_id: str, hands: FileOperations) -> TrashOutcome:
    """Delete the rest of an entry whose deletion was interrupted or failed."""
    name = act_id + DELETING
    with closing(open_below(opened.trash, name)) as itself:
        manifest = read_manifest(itself)
        check_actor(manifest.uid)
        delete_things(manifest, itself, hands)
        drop_entry(OpenEntry(name, opened.trash, itself, itself, hands))
    return make_outcome(manifest, act_id, TrashResult.DELETED, "cut off, and finished")


def delete_things(manifest: Manifest, itself: int, hands: FileOperations) -> None:
    """Delete the rest of an entry whose deletion has started."""
    open_up(manifest, itself, hands)
    for number, item in enumerate(manifest.items):
        for thing in reversed(item.things):
            path = f"{number}/{thing.path}" if thing.path else str(number)
            _delete_thing(path, thing, itself, hands)


def open_up(manifest: Manifest, itself: int, hands: FileOperations) -> None:
    """Make each directory of the manifest writable for its owner, because files in a read-only one cannot be deleted.

    Only directories of the owner with the recorded identity, and without following links.
    """
    for number, item in enumerate(manifest.items):
        for thing in item.things:
            if thing.kind == "directory":
                path = f"{number}/{thing.path}" if thing.path else str(number)
                hands.open_up(path, itself, (thing.device, thing.inode, manifest.uid))


def _delete_thing(path: str, thing: contents.ContentItem, itself: int, hands: FileOperations) -> None:
    parent, _, name = path.rpartition("/")
    try:
        with closing(open_below(itself, parent)) as at:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if (status.st_dev, status.st_ino) != (thing.device, thing.inode):
                raise RefusedError(f"{path!r} was exchanged in the trash", FailureCause.CHANGED)
            if thing.kind == "directory":
                hands.remove_directory(name, at)
            else:
                hands.unlink(name, at)
    except FileNotFoundError:
        return  # an earlier try has deleted it
