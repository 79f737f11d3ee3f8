"""What is done with the trash after something was moved there: list it, bring it back, let it go, mend it."""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from pathlib import PurePosixPath

from ckptd.checkpoints.trash import contents
from ckptd.checkpoints.trash.aside import OpenEntry, drop_entry, finish, is_same_file, move_items, put_back
from ckptd.checkpoints.trash.contents import Rules, Thing
from ckptd.checkpoints.trash.descriptors import Hands, Step, closing, exists, open_below, read_mount
from ckptd.checkpoints.trash.manifest import MANIFEST, MOVED, Manifest, read_manifest
from ckptd.checkpoints.trash.outcome import Outcome, RefusedError, Result, explain, fail
from ckptd.checkpoints.trash.place import DELETING, Place, check_act_id, check_actor, is_act_id, open_place
from ckptd.core.model import Unknown
from ckptd.core.pruned import Cause

MAX_ENTRIES = 20_000  # of one trash


class EntryState(StrEnum):
    """How far an entry of the trash has come."""

    HELD = "held"
    MOVING = "moving"  # or its move was cut off: recover() finishes or undoes it
    DELETING = "deleting"  # or its deletion was cut off: recover() finishes it


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One checkpoint in the trash."""

    act_id: str
    place: PurePosixPath
    path: str  # where it was
    state: EntryState
    uid: int
    size_bytes: int
    moved_at: datetime
    reasons: tuple[str, ...]


def list_trash(place: PurePosixPath) -> tuple[Entry | Unknown, ...]:
    """Return what one trash holds, the oldest first; what is no entry of ckptd is Unknown. No trash: nothing."""
    try:
        with open_place(place, is_locked=False) as opened:
            found = [_read_entry(place, opened, name) for name in _list_names(opened)] if opened else []
    except (OSError, RefusedError) as error:
        return (Unknown(what=str(place), reason=explain(error)),)
    entries = sorted((one for one in found if isinstance(one, Entry)), key=lambda entry: (entry.moved_at, entry.act_id))
    return (*entries, *(one for one in found if isinstance(one, Unknown)))


def _read_entry(place: PurePosixPath, opened: Place, name: str) -> Entry | Unknown:
    try:
        check_act_id(name.removesuffix(DELETING))
        with closing(open_below(opened.trash, name)) as entry:
            manifest = read_manifest(entry)
            disk = os.statvfs(entry)
            state = EntryState.HELD if exists(MOVED, entry) else EntryState.MOVING
    except (OSError, RefusedError) as error:
        return Unknown(what=str(place / name), reason=explain(error))
    return Entry(
        act_id=name.removesuffix(DELETING),
        place=place,
        path=manifest.path,
        state=EntryState.DELETING if name.endswith(DELETING) else state,
        uid=manifest.uid,
        size_bytes=min(manifest.size_bytes, disk.f_blocks * disk.f_frsize),  # its owner can write any size there
        moved_at=manifest.moved_at,
        reasons=manifest.reasons,
    )


def _list_names(opened: Place) -> list[str]:
    """Return the names of its entries: of the first so many, should somebody have filled it up."""
    with os.scandir(opened.trash) as found:
        return sorted(each.name for each in islice(found, MAX_ENTRIES))


def restore(place: PurePosixPath, act_id: str, *, step: Step | None = None) -> Outcome:
    """Put one checkpoint back where it was, if nothing is there now."""

    def act(opened: Place) -> Outcome:
        check_act_id(act_id)
        with _open_entry(opened, act_id, Hands(step)) as (entry, manifest):
            if not exists(MOVED, entry.itself):
                raise RefusedError("its move is not finished", Cause.HELD)
            _check_free(manifest, entry)
            entry.hands.unlink(MOVED, entry.itself)
            entry.hands.sync(entry.itself)
            left = put_back(manifest, entry)
            if left:
                return _settle(manifest, entry, left[0])
            drop_entry(entry)
            return _outcome(manifest, act_id, Result.RESTORED)

    return _on_place(place, act_id, act)


def _check_free(manifest: Manifest, entry: OpenEntry) -> None:
    for number, item in enumerate(manifest.items):
        parent, _, name = item.name.rpartition("/")
        if not exists(str(number), entry.itself):
            continue  # it was put back by an earlier try
        with closing(_open_again(entry.run, parent)) as at:
            if exists(name, at):
                raise RefusedError(f"{item.name!r} is there again; move it away first", Cause.TAKEN)


def empty(
    place: PurePosixPath,
    act_ids: Collection[str],
    *,
    held_before: datetime,
    clock_tolerance: timedelta | None = None,
    step: Step | None = None,
) -> tuple[Outcome, ...]:
    """Delete these entries of a trash, of those that were moved there before `held_before`. Others are REFUSED.

    Only files that the manifest names and that are as it says are unlinked, one by one. With a tolerance nothing is
    deleted while the clock of the file system, which stamps a change of the trash, is further from this host's.
    """

    def act_on(act_id: str) -> Callable[[Place], Outcome]:
        def act(opened: Place) -> Outcome:
            check_act_id(act_id)
            if clock_tolerance is not None:
                _check_clock(opened, clock_tolerance)
            return _delete(opened, act_id, held_before, Hands(step))

        return act

    return tuple(_on_place(place, act_id, act_on(act_id)) for act_id in act_ids)


def _check_clock(opened: Place, tolerance: timedelta) -> None:
    os.utime(opened.trash)  # on a network file system it is the server that says when that was
    difference = abs(os.fstat(opened.trash).st_mtime - time.time())
    if difference > tolerance.total_seconds():
        raise RefusedError(f"the clocks of its file system and of this host differ by {difference:.0f} s", Cause.HELD)


def _delete(opened: Place, act_id: str, held_before: datetime, hands: Hands) -> Outcome:
    with closing(open_below(opened.trash, act_id)) as itself:
        manifest = read_manifest(itself)
        check_actor(manifest.uid)
        if not exists(MOVED, itself):
            raise RefusedError("its move is not finished", Cause.HELD)
        if manifest.moved_at >= held_before:
            raise RefusedError("it is still held", Cause.HELD)
        rules = _rules(manifest, itself)
        size_bytes = 0
        for number, item in enumerate(manifest.items):
            if not exists(str(number), itself):
                continue
            if contents.examine(str(number), itself, rules) != item.things:
                raise RefusedError(f"{item.name!r} has changed in the trash", Cause.CHANGED)
            size_bytes += item.size_bytes
        hands.rename(act_id, opened.trash, act_id + DELETING, opened.trash)
        hands.sync(opened.trash)
        _delete_things(manifest, itself, hands)
        drop_entry(OpenEntry(act_id + DELETING, opened.trash, itself, itself, hands))
    return replace(_outcome(manifest, act_id, Result.DELETED), size_bytes=size_bytes)


def _delete_things(manifest: Manifest, itself: int, hands: Hands) -> None:
    for number, item in enumerate(manifest.items):
        for thing in reversed(item.things):
            path = f"{number}/{thing.path}" if thing.path else str(number)
            _delete_thing(path, thing, itself, hands)


def _delete_thing(path: str, thing: Thing, itself: int, hands: Hands) -> None:
    parent, _, name = path.rpartition("/")
    try:
        with closing(open_below(itself, parent)) as at:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if (status.st_dev, status.st_ino) != (thing.device, thing.inode):
                raise RefusedError(f"{path!r} was exchanged in the trash", Cause.CHANGED)
            if thing.kind == "directory":
                hands.remove_directory(name, at)
            else:
                hands.unlink(name, at)
    except FileNotFoundError:
        return  # an earlier try has deleted it


def recover(place: PurePosixPath, *, step: Step | None = None) -> tuple[Outcome, ...]:
    """Finish or undo whatever was cut off in one trash; return how each such act ended. To be called at every start."""
    outcomes: list[Outcome] = []
    try:
        with open_place(place) as opened:
            for name in _list_names(opened) if opened else ():
                assert opened is not None
                if not is_act_id(name.removesuffix(DELETING)):
                    continue  # whoever owns the trash has put it there
                outcome = _recover_one(opened, name, Hands(step))
                if outcome is not None:
                    outcomes.append(outcome)
    except (OSError, RefusedError) as error:
        outcomes.append(fail(error, "", str(place)))
    return tuple(outcomes)


def _recover_one(opened: Place, name: str, hands: Hands) -> Outcome | None:
    act_id = name.removesuffix(DELETING)
    try:
        check_act_id(act_id)
        with closing(open_below(opened.trash, name)) as itself:
            if not exists(MANIFEST, itself):
                drop_entry(OpenEntry(name, opened.trash, itself, itself, hands))
                result = Result.DELETED if name != act_id else Result.UNDONE
                return Outcome(act_id=act_id, result=result, path="", reason="cut off")
            if name != act_id:
                manifest = read_manifest(itself)
                check_actor(manifest.uid)
                _delete_things(manifest, itself, hands)
                drop_entry(OpenEntry(name, opened.trash, itself, itself, hands))
                return _outcome(manifest, act_id, Result.DELETED, "cut off, and finished")
            if exists(MOVED, itself):
                return None
            manifest = read_manifest(itself)
            check_actor(manifest.uid)
            if manifest.directory and not exists(manifest.directory, opened.base):
                return _settle(
                    manifest, OpenEntry(act_id, opened.trash, itself, itself, hands), "its directory is gone"
                )
        with _open_entry(opened, act_id, hands) as (entry, manifest):
            return _mend(manifest, entry)
    except (OSError, RefusedError) as error:
        return fail(error, act_id, "")


def _mend(manifest: Manifest, entry: OpenEntry) -> Outcome:
    """Finish a move of which nothing is missing, put back any other, and finish what cannot be put back."""
    rules = _rules(manifest, entry.itself)
    there = [exists(str(number), entry.itself) for number in range(len(manifest.items))]
    if all(there) and _is_as_written(manifest, entry, rules):
        finish(entry)
        return _outcome(manifest, entry.name, Result.MOVED, "cut off, and finished")
    if _is_any_taken(manifest, entry):
        with suppress(OSError, RefusedError):
            move_items(manifest, entry, rules)
            return _outcome(manifest, entry.name, Result.MOVED, "cut off, and finished: a name was taken again")
    left = put_back(manifest, entry)
    if left:
        return _settle(manifest, entry, left[0])
    drop_entry(entry)
    return _outcome(manifest, entry.name, Result.UNDONE, "cut off, and put back")


def _is_as_written(manifest: Manifest, entry: OpenEntry, rules: Rules) -> bool:
    with suppress(OSError, RefusedError):
        return all(
            contents.examine(str(number), entry.itself, rules) == item.things
            for number, item in enumerate(manifest.items)
        )
    return False


def _is_any_taken(manifest: Manifest, entry: OpenEntry) -> bool:
    """Whether something that was moved could not go back, since its name is someone else's now."""
    for number, item in enumerate(manifest.items):
        parent, _, name = item.name.rpartition("/")
        if not exists(str(number), entry.itself):
            continue
        with suppress(OSError, RefusedError), closing(open_below(entry.run, parent)) as at:
            if exists(name, at) and not is_same_file(str(number), entry.itself, name, at):
                return True
    return False


def _settle(manifest: Manifest, entry: OpenEntry, reason: str) -> Outcome:
    finish(entry)
    return _outcome(manifest, entry.name, Result.MOVED, f"part of it stays in the trash: {reason}")


def look_up(place: PurePosixPath, act_id: str) -> EntryState | Unknown | None:
    """Return how far one act has come in a trash: what an intent without an outcome came to. None: not there."""
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


@contextmanager
def _open_entry(opened: Place, act_id: str, hands: Hands) -> Iterator[tuple[OpenEntry, Manifest]]:
    with closing(open_below(opened.trash, act_id)) as itself:
        manifest = read_manifest(itself)
        check_actor(manifest.uid)
        with closing(_open_again(opened.base, manifest.directory)) as run:
            yield OpenEntry(act_id, opened.trash, itself, run, hands), manifest


def _open_again(at: int, directory: str) -> int:
    """Open a directory to which something is to come back."""
    try:
        return open_below(at, directory)
    except FileNotFoundError:
        raise RefusedError(
            f"the directory {directory!r} that it was in was removed or renamed: make it again, and then restore",
            Cause.GONE,
        ) from None


def _rules(manifest: Manifest, itself: int) -> Rules:
    return Rules(manifest.uid, os.fstat(itself).st_dev, read_mount(itself), frozenset())


def _on_place(place: PurePosixPath, act_id: str, act: Callable[[Place], Outcome]) -> Outcome:
    try:
        with open_place(place) as opened:
            if opened is not None:
                return act(opened)
    except (OSError, RefusedError) as error:
        return fail(error, act_id, "")
    return fail(RefusedError("there is no trash here", Cause.GONE), act_id, "")


def _outcome(manifest: Manifest, act_id: str, result: Result, reason: str | None = None) -> Outcome:
    return Outcome(act_id=act_id, result=result, path=manifest.path, reason=reason, size_bytes=manifest.size_bytes)
