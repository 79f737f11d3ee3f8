"""What one scan of a directory adds to the recorded checkpoints.

A path whose content was replaced is a new checkpoint whose predecessor is gone. Absence is believed only of a scan
that read the whole directory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.checkpoint_sets import membership
from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Level, RecordedCheckpoint, Scan
from ckptd.core.model.checkpoints import UNREAD
from ckptd.core.runs import added_files
from ckptd.core.runs.ownership import Writers
from ckptd.core.runs.recordable_numbers import bound_numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointChanges:
    """What one scan changed. `changed` and `gone` keep their recorded `first_seen_at`."""

    appeared: tuple[RecordedCheckpoint, ...] = ()
    changed: tuple[RecordedCheckpoint, ...] = ()
    gone: tuple[RecordedCheckpoint, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.appeared or self.changed or self.gone)


NO_CHANGES = CheckpointChanges()
_Records = list[RecordedCheckpoint]
_Others = Iterable[RecordedCheckpoint]


def merge_scan(
    recorded: Sequence[RecordedCheckpoint], scan: Scan, writers: Writers, now: datetime, others: _Others = ()
) -> CheckpointChanges:
    """Compare the recorded checkpoints of one run with a scan of its directory.

    `recorded` holds all checkpoints that are not deleted. It may hold deleted ones, which are restored when the same
    files reappear (after a file system was not mounted). `others` are there, too, and may be missing in both, because
    they are unchanged. `now` is the end of the scan: what a clock that is ahead dated later counts as written then.
    """
    there = [known for known in recorded if known.deleted_at is None]
    present = {_name(each.checkpoint): each for each in there[::-1]}
    twice = [each for each in there if present[_name(each.checkpoint)] is not each]  # by an earlier version
    began = _list_begun(there)
    lost = _list_lost(recorded, scan)
    stayed = added_files.StayedCheckpoints(there, others, scan)
    appeared: list[RecordedCheckpoint] = []
    changed: list[RecordedCheckpoint] = []
    gone = [replace(known, deleted_at=now) for known in twice]
    for seen in scan.checkpoints:
        known = present.pop(_name(seen), None)
        if known is not None and seen is known.checkpoint and _stays(known):
            continue
        found = bound_numbers(seen)
        if known is not None and (not _is_replaced(known.checkpoint, found) or _is_same_save(known, found)):
            result = _update(known, found, writers, now)
            if result != known:
                changed.append(result)
            continue
        if known is not None:
            gone.append(replace(known, deleted_at=now))
        returned = lost.get((_name(found), _content(found)))
        if returned is not None and returned.pruned_at is None:
            changed.append(_update(stayed.bring_back(returned, found), found, writers, now))
        elif returned is not None:  # someone brought it back from the trash: it is theirs now, not ckptd's to prune
            appeared.append(replace(_appear(found, writers, now), attempt=None))
        else:
            began_at = min((began[each.inode] for each in found.identities if each.inode in began), default=None)
            record = _appear(found, writers, now)
            appeared.append(record if began_at is None else replace(record, started_writing_at=began_at))
    if scan.is_whole:
        gone.extend(replace(known, deleted_at=now) for known in present.values())
    if changed:
        appeared, changed = _mark_renamed(there, appeared, changed, now)
    return CheckpointChanges(appeared=tuple(appeared), changed=tuple(changed), gone=tuple(gone))


def apply(changes: CheckpointChanges, recorded: Iterable[RecordedCheckpoint]) -> tuple[RecordedCheckpoint, ...]:
    """Return what is on record after changes of these checkpoints."""
    altered = {identify(each): each for each in (*changes.changed, *changes.gone)}
    return (*(altered.get(identify(each), each) for each in recorded), *changes.appeared)


def identify(recorded: RecordedCheckpoint) -> tuple[object, ...]:
    """Return what tells a checkpoint on record from the others of its run."""
    return recorded.checkpoint.path, recorded.checkpoint.format, recorded.first_seen_at


def _list_lost(recorded: Sequence[RecordedCheckpoint], scan: Scan) -> dict[tuple[object, ...], RecordedCheckpoint]:
    """Return the deleted checkpoints that a scan may have found again, by name and content."""
    deleted = [known for known in recorded if known.deleted_at]
    names = {_name(each) for each in scan.checkpoints} if deleted else set()
    return {
        (_name(known.checkpoint), _content(known.checkpoint)): known
        for known in deleted
        if _name(known.checkpoint) in names
    }


def stays_as_found(
    state: CheckpointState, level: Level, first_seen_at: Any, completed_at: Any, modified_at: Any
) -> bool:
    """Whether it is certain that a scan which finds a checkpoint just as it is on record changes nothing of it.

    The times may be instants or any numbers of their order.
    """
    if state is not CheckpointState.COMPLETE or level is Level.FULL:
        return False
    return completed_at is not None and not completed_at == first_seen_at < modified_at


def _stays(known: RecordedCheckpoint) -> bool:
    found = known.checkpoint
    return stays_as_found(found.state, found.level, known.first_seen_at, known.completed_at, found.modified_at)


def _mark_renamed(
    before: Iterable[RecordedCheckpoint], appeared: _Records, changed: _Records, now: datetime
) -> tuple[_Records, _Records]:
    """Mark the checkpoints that have a file which a person took out of a complete one or renamed within it."""
    complete = {_name(known.checkpoint): known.checkpoint for known in before if known.completed_at is not None}
    taken_out: dict[added_files.FileKey, str] = {}
    for known in changed:
        if (old := complete.get(_name(known.checkpoint))) is not None:
            taken_out |= added_files.find_taken_out(old, known.checkpoint)
    if not taken_out:
        return appeared, changed

    def mark(each: RecordedCheckpoint) -> RecordedCheckpoint:
        is_new = added_files.is_renamed(each.checkpoint, taken_out) and (each.renamed_at is None or each.was_in_trash)
        return replace(each, renamed_at=max(now, each.first_seen_at)) if is_new else each  # a clock may be set back

    return [mark(known) for known in appeared], [mark(known) for known in changed]


def merge_verified(
    recorded: Iterable[RecordedCheckpoint], found: Iterable[Checkpoint], now: datetime
) -> CheckpointChanges:
    """Add what reading every byte of some of a run's checkpoints found.

    `found` are the recognised things: checkpoints that are one such thing, and the parts of all others. What changed
    meanwhile is left to the next scan, and so is what could not be read to its end.
    """
    pieces = {_name(piece): piece for piece in map(bound_numbers, found)}
    changed: list[RecordedCheckpoint] = []
    for known in recorded:
        judged = None if known.deleted_at else _judge(known.checkpoint, pieces)
        if judged is not None:
            is_complete = judged.state is CheckpointState.COMPLETE
            verified_at = now if is_complete else None
            changed.append(replace(known, checkpoint=judged, verified_full_at=verified_at, owner_damage=None))
    return CheckpointChanges(changed=tuple(changed))


def merge_owner_verified(
    recorded: Iterable[RecordedCheckpoint], found: Iterable[Checkpoint], now: datetime
) -> CheckpointChanges:
    """Add what a job of the owner says that it found in every byte of some of a run's checkpoints.

    It changes no checkpoint, and not the time of what this node verified: docs/decisions/0020.
    """
    pieces = {_name(piece): piece for piece in map(bound_numbers, found)}
    changed: list[RecordedCheckpoint] = []
    for known in recorded:
        judged = None if known.deleted_at else _judge(known.checkpoint, pieces)
        if judged is None:
            continue
        if judged.state is CheckpointState.COMPLETE:
            changed.append(replace(known, owner_verified_at=now, owner_damage=None))
        else:
            reason = judged.reason or "it gives no reason"
            changed.append(replace(known, owner_verified_at=None, owner_damage=reason))
    return CheckpointChanges(changed=tuple(changed))


def _judge(known: Checkpoint, pieces: Mapping[tuple[str, str], Checkpoint]) -> Checkpoint | None:
    """Return a checkpoint with the verdict on all of its bytes; None where that is not known."""
    if not known.parts:
        return _judge_piece(known, pieces)
    judged = tuple(_judge_piece(part, pieces) for part in known.parts)
    parts = tuple(new or old for new, old in zip(judged, known.parts, strict=True))
    damaged = next((part for part in judged if part and part.state is CheckpointState.DAMAGED), None)
    if damaged is not None:
        reason = f"{_relative(damaged.path, known.path.parent)}: {damaged.reason}"
        return replace(known, state=CheckpointState.DAMAGED, reason=reason, level=Level.FULL, parts=parts)
    if known.state is not CheckpointState.COMPLETE or None in judged:
        return None
    return replace(known, level=Level.FULL, parts=parts)


def _judge_piece(known: Checkpoint, pieces: Mapping[tuple[str, str], Checkpoint]) -> Checkpoint | None:
    """Return what was found of one thing, with what scans know of it; None where it changed or was not judged."""
    found = pieces.get(_name(known))
    if found is None or found.identities != known.identities:
        return None
    if found.state is not CheckpointState.DAMAGED and not _is_verified(found):
        return None
    return replace(
        found,
        is_best=known.is_best,
        is_newest=known.is_newest,
        is_listed=known.is_listed,
        role=known.role,
        role_evidence=known.role_evidence,
        is_result=known.is_result,
        grouping=known.grouping,
        parts=(),
    )


def _relative(path: PurePosixPath, directory: PurePosixPath) -> str:
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else path.name


def _list_begun(present: Iterable[RecordedCheckpoint]) -> dict[int, datetime]:
    """Return when the writing of each file of an unfinished save began, by inode, which a final rename keeps."""
    return {
        identity.inode: known.started_writing_at
        for known in present
        if known.checkpoint.state is CheckpointState.WRITING and known.started_writing_at is not None
        for identity in known.checkpoint.identities
    }


def _name(checkpoint: Checkpoint) -> tuple[str, str]:
    return str(checkpoint.path), checkpoint.format


def _content(checkpoint: Checkpoint) -> frozenset[tuple[str, int, int, int]]:
    """Return an identity of the content, without the device number: on network file systems, each mount changes it."""
    pairs = zip(checkpoint.files, checkpoint.identities, strict=False)
    return frozenset((name, found.inode, found.size_bytes, found.modified_ns) for name, found in pairs)


def _is_unchanged(old: Checkpoint, new: Checkpoint) -> bool:
    """Whether the content is the same; mostly the files are just as they were."""
    return (old.files == new.files and old.identities == new.identities) or _content(old) == _content(new)


def _is_untouched(old: Checkpoint, new: Checkpoint) -> bool:
    """Whether an earlier verdict still holds: nobody has written to the files, not even with their times set back.

    The change time shows it, because no user can set it. It is 0 if an earlier version of ckptd did not record it.
    """
    before, after = (
        [(found.inode, found.size_bytes, found.modified_ns, found.changed_ns) for found in each.identities]
        for each in (old, new)
    )
    return old.files == new.files and before == after


def _is_replaced(old: Checkpoint, new: Checkpoint) -> bool:
    """Whether the content is another save's, rather than the same save going on."""
    if _is_unchanged(old, new):
        return False
    if old.state is new.state is CheckpointState.COMPLETE and _content_numbers(old) != _content_numbers(new):
        return True  # names that each save overwrites: what did not change is a part of both
    if old.state is CheckpointState.COMPLETE and _has_other_state(old, new):
        return True  # the same, with a script or a configuration that is written once
    before, after = _content(old), _content(new)
    if before & after or not before:
        return False
    if old.state is CheckpointState.COMPLETE:
        return True
    if old.state is CheckpointState.WRITING:
        return False
    return not {inode for _, inode, _, _ in before} & {inode for _, inode, _, _ in after}


def _has_other_state(old: Checkpoint, new: Checkpoint) -> bool:
    """Whether both have files that carry state, and none of them is the same in both."""
    before, after = (
        {
            (file, _bytes_of(identity))
            for file, identity in zip(each.files, each.identities, strict=False)
            if added_files.carries_state(file, added_files.list_recognised(each))
        }
        for each in (old, new)
    )
    return bool(before) and bool(after) and before.isdisjoint(after)


def _is_same_save(known: RecordedCheckpoint, new: Checkpoint) -> bool:
    """Whether all that changed since a checkpoint was complete are files that carry no state, or which files there are.

    Then nobody has saved it again: a note beside it is no proof of a writer, and it was complete when it was before.
    """
    old = known.checkpoint
    if known.completed_at is None:
        return False
    parts = added_files.list_recognised(old)
    before = dict(zip(old.files, old.identities, strict=False))
    after = dict(zip(new.files, new.identities, strict=False))
    kept = [file for file in before.keys() & after.keys() if added_files.carries_state(file, parts)]
    return bool(kept) and all(_bytes_of(before[file]) == _bytes_of(after[file]) for file in kept)


def _bytes_of(identity: FileIdentity) -> tuple[int, int, int]:
    return identity.inode, identity.size_bytes, identity.modified_ns


def _content_numbers(checkpoint: Checkpoint) -> tuple[float | None, int | None]:
    return checkpoint.content_epoch, checkpoint.content_step


def _appear(found: Checkpoint, writers: Writers, now: datetime) -> RecordedCheckpoint:
    return RecordedCheckpoint(
        checkpoint=found,
        first_seen_at=now,
        completed_at=_completed_at(found, now),
        started_writing_at=now if found.state is CheckpointState.WRITING else None,
        attempt=writers.credit(found),
        verified_full_at=now if _is_verified(found) else None,
    )


def _update(known: RecordedCheckpoint, found: Checkpoint, writers: Writers, now: datetime) -> RecordedCheckpoint:
    if UNREAD in (found.reason or "") and _is_untouched(known.checkpoint, found):
        return known  # as far as it was read before
    known = _date_again(known, found, now)
    old, found = known.checkpoint, keep_complete(known.checkpoint, found)
    if found == old and found.state is CheckpointState.COMPLETE and known.completed_at and not _is_verified(found):
        return known
    is_same, is_untouched = _is_unchanged(old, found), _is_untouched(old, found)
    is_same_save = is_same or _is_same_save(known, found)
    is_writing = found.state is CheckpointState.WRITING
    verified_at = known.verified_full_at if is_untouched else None
    if verified_at is None and _is_verified(found):
        verified_at = now
    may_stay = is_untouched or (is_same and old.state is CheckpointState.DAMAGED)
    if may_stay and _depth(old) > _depth(found) and found.state is not CheckpointState.WRITING:
        found = _keep_deeper(old, found)
    result = replace(known, checkpoint=found, verified_full_at=verified_at)
    if not is_untouched:
        result = replace(result, owner_verified_at=None, owner_damage=None)
    if not is_same_save:
        result = replace(result, attempt=writers.credit(found))
    if is_writing and known.started_writing_at is None:
        result = replace(result, started_writing_at=now)
    if not is_same_save or known.completed_at is None:
        result = replace(result, completed_at=_completed_at(found, now))
    return result


def keep_complete(old: Checkpoint, found: Checkpoint) -> Checkpoint:
    """Return a checkpoint as complete if it was complete while others with as few members were there.

    The others may have been pruned, and one with more members, from a time with more ranks, may be left.
    """
    if old.state is CheckpointState.COMPLETE and membership.is_short_of_others(found) and _is_untouched(old, found):
        return replace(found, state=CheckpointState.COMPLETE, reason=None)
    return found


def _date_again(known: RecordedCheckpoint, found: Checkpoint, now: datetime) -> RecordedCheckpoint:
    """Date an unchanged checkpoint by its files if this host's clock was behind them when it was first seen."""
    modified_at = known.checkpoint.modified_at
    is_late = _is_dated_by_scan(known) and modified_at <= now and _is_unchanged(known.checkpoint, found)
    return replace(known, completed_at=modified_at) if is_late else known


def _is_dated_by_scan(known: RecordedCheckpoint) -> bool:
    """Whether its files have a later time than the scan that saw them first, whose time it has."""
    return known.completed_at == known.first_seen_at < known.checkpoint.modified_at


def _completed_at(found: Checkpoint, now: datetime) -> datetime | None:
    return min(found.modified_at, now) if found.state is CheckpointState.COMPLETE else None


def _is_verified(found: Checkpoint) -> bool:
    return found.level is Level.FULL and found.state is CheckpointState.COMPLETE


def _depth(checkpoint: Checkpoint) -> int:
    return list(Level).index(checkpoint.level)


def _keep_deeper(old: Checkpoint, found: Checkpoint) -> Checkpoint:
    """Return the result of an earlier, deeper verification of the same bytes, with the current paths and markers."""
    return replace(
        old,
        files=found.files,
        identities=found.identities,
        owner_uids=found.owner_uids,
        is_best=found.is_best,
        is_newest=found.is_newest,
        is_listed=found.is_listed,
        role=found.role,
        role_evidence=found.role_evidence,
        is_result=found.is_result,
        grouping=found.grouping,
    )
