"""Reads the entries of a trash from their manifests, which the trash's owner may have forged."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.trash import contents
from ckptd.checkpoints.trash.contents import MoveRequirements
from ckptd.checkpoints.trash.descriptors import FileOperations, closing, exists, open_below, read_mount
from ckptd.checkpoints.trash.entry_limit import MAX_ENTRIES, WHOLE, TurnLimits, TurnProgress, list_names
from ckptd.checkpoints.trash.manifest import MOVED, Manifest, MovedItem, Origin, find_release, read_manifest
from ckptd.checkpoints.trash.move_aside import OpenEntry
from ckptd.checkpoints.trash.outcome import RefusedError, explain
from ckptd.checkpoints.trash.trash_location import DELETING, OpenTrash, check_act_id, check_actor, open_place
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import RunKey, Unknown


class EntryState(StrEnum):
    """State of an entry of the trash."""

    HELD = "held"
    MOVING = "moving"  # or its move was cut off: recover() finishes or undoes it
    DELETING = "deleting"  # or its deletion was cut off: recover() finishes it


@dataclass(frozen=True, kw_only=True, slots=True)
class TrashEntry:
    """One checkpoint in the trash."""

    act_id: str
    place: PurePosixPath
    path: str  # where it was
    state: EntryState
    uid: int
    size_bytes: int
    moved_at: datetime
    reasons: tuple[str, ...]
    run: RunKey  # where it would come back to; without a cluster where its manifest names none
    origin: Origin = field(default_factory=Origin)

    def find_release(self, *, is_short_of_space: bool = False) -> datetime:
        """Return the end of the hold that was set when the checkpoint was moved."""
        return find_release(self.moved_at, self.origin, is_short_of_space=is_short_of_space)


class RequestedEntries(NamedTuple):
    """The requested entries of a trash, and the number of all its names."""

    entries: tuple[TrashEntry, ...]
    name_count: int


class ListedEntries(NamedTuple):
    """The entries of a trash, oldest first; anything else in it is Unknown."""

    found: tuple[TrashEntry | Unknown, ...]
    is_whole: bool = True  # whether a turn was long enough for all of them


def list_trash(place: PurePosixPath, *, is_measured: bool = False) -> tuple[TrashEntry | Unknown, ...]:
    """Return all entries of one trash; see `list_others`."""
    return list_others(place, (), WHOLE, is_measured=is_measured).found


def list_others(
    place: PurePosixPath, known: Collection[str], turn: TurnLimits, *, is_measured: bool = False
) -> ListedEntries:
    """Return the entries of one trash without the known ones, as many as one turn permits. Without a trash: nothing.

    If sizes are measured, they are those of the existing files, and a held entry without any file is Unknown.
    """
    try:
        with open_place(place, is_locked=False) as opened:
            if opened is None:
                return ListedEntries(())
            progress = TurnProgress(list_names(opened.trash, frozenset(known)), turn)
            found = [_read_entry(place, opened, name, is_measured=is_measured) for name in progress]
    except (OSError, RefusedError) as error:
        return ListedEntries((Unknown(what=str(place), reason=explain(error)),))
    entries = sorted(
        (one for one in found if isinstance(one, TrashEntry)), key=lambda entry: (entry.moved_at, entry.act_id)
    )
    return ListedEntries((*entries, *(one for one in found if isinstance(one, Unknown))), progress.reached is None)


def list_known(place: PurePosixPath, act_ids: Collection[str]) -> RequestedEntries | Unknown:
    """Return the entries with these ids; other names in the trash are only counted."""
    try:
        with open_place(place, is_locked=False) as opened:
            if opened is None:
                return RequestedEntries((), 0)
            names = list_names(opened.trash)
            asked = {*act_ids, *(act_id + DELETING for act_id in act_ids)}
            there = asked.intersection(names) if len(names) < MAX_ENTRIES else asked
            found = [_read_entry(place, opened, name) for name in sorted(there) if exists(name, opened.trash)]
    except (OSError, RefusedError) as error:
        return Unknown(what=str(place), reason=explain(error))
    return RequestedEntries(tuple(one for one in found if isinstance(one, TrashEntry)), len(names))


def look_up(place: PurePosixPath, act_id: str) -> EntryState | Unknown | None:
    """Return the state of one entry, to find the outcome of an interrupted operation. None: there is no such entry."""
    try:
        check_act_id(act_id)
        with open_place(place, is_locked=False) as opened:
            for name in (act_id, act_id + DELETING):
                if opened and exists(name, opened.trash):
                    found = _read_entry(place, opened, name)
                    return found if isinstance(found, Unknown) else found.state
    except (OSError, RefusedError) as error:
        return Unknown(what=str(place / act_id), reason=explain(error))
    return None


def _read_entry(
    place: PurePosixPath, opened: OpenTrash, name: str, *, is_measured: bool = False
) -> TrashEntry | Unknown:
    act_id = name.removesuffix(DELETING)
    try:
        check_act_id(act_id)
        with closing(open_below(opened.trash, name)) as entry:
            manifest = read_manifest(entry)
            disk = os.statvfs(entry)
            state = EntryState.HELD if exists(MOVED, entry) else EntryState.MOVING
            is_counted = is_measured and state is EntryState.HELD and name == act_id
            size_bytes = _measure(manifest, entry) if is_counted else manifest.size_bytes
    except (OSError, RefusedError) as error:
        return Unknown(what=str(place / name), reason=explain(error))
    return TrashEntry(
        act_id=act_id,
        place=place,
        path=manifest.path,
        state=EntryState.DELETING if name.endswith(DELETING) else state,
        uid=manifest.uid,
        size_bytes=min(size_bytes, disk.f_blocks * disk.f_frsize),  # its owner can write any size there
        moved_at=manifest.moved_at,
        reasons=manifest.reasons,
        run=find_run(place, manifest, opened),
        origin=manifest.origin,
    )


def find_run(place: PurePosixPath, manifest: Manifest, opened: OpenTrash) -> RunKey:
    """Return the run of an entry: the directory that it would be restored to, and the trash's owner."""
    return RunKey(manifest.origin.cluster, os.fstat(opened.trash).st_uid, str(place.parent / manifest.directory))


def _measure(manifest: Manifest, entry: int) -> int:
    """Return the size of the files of an entry that match its manifest.

    Raises:
        RefusedError: there are none.

    """
    rules = rules_of(manifest, entry)
    found = [
        item.size_bytes for number, item in enumerate(manifest.items) if _is_there(str(number), item, entry, rules)
    ]
    if not found:
        raise RefusedError("nothing of what its manifest names is in it", FailureCause.GONE)
    return sum(found)


def _is_there(number: str, item: MovedItem, entry: int, rules: MoveRequirements) -> bool:
    with suppress(OSError, RefusedError):
        return contents.is_match(contents.examine(number, entry, rules), item.as_moved())
    return False


def find_missing(manifest: Manifest, itself: int) -> tuple[str, ...]:
    """Return the earlier names of the items that are not in an open entry."""
    return tuple(item.name for number, item in enumerate(manifest.items) if not exists(str(number), itself))


def rules_of(manifest: Manifest, itself: int) -> MoveRequirements:
    """Return the rules that everything in an open entry must fulfil."""
    return MoveRequirements(manifest.uid, os.fstat(itself).st_dev, read_mount(itself), frozenset())


@contextmanager
def open_entry(opened: OpenTrash, act_id: str, hands: FileOperations) -> Iterator[tuple[OpenEntry, Manifest]]:
    """Open an entry and the directory that it would be restored to."""
    with closing(open_below(opened.trash, act_id)) as itself:
        manifest = read_manifest(itself)
        check_actor(manifest.uid)
        with closing(open_again(opened.base, manifest.directory)) as run:
            yield OpenEntry(act_id, opened.trash, itself, run, hands), manifest


def open_again(at: int, directory: str) -> int:
    """Open a directory that something is restored to."""
    try:
        return open_below(at, directory)
    except FileNotFoundError:
        raise RefusedError(
            f"the directory {directory!r} that it was in was removed or renamed: "
            "rename it back or make it again, and then restore",
            FailureCause.GONE,
        ) from None
