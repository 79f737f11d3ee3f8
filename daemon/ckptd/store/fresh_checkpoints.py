"""The checkpoints of runs whose scan was just recorded, so that the next decision need not read them back.

To read a hundred rows costs as much as to record them, and a run that saves for days has thousands of deleted ones.
What a scan found first is selected for a history as `history_rows` selects it from the database; what a later one
changed is added to the history before it, where that leads to the same.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ckptd.core.model import (
    AttemptProgress,
    CheckpointState,
    RecordedCheckpoint,
    Role,
    RunKey,
    RunRecord,
    Totals,
)
from ckptd.core.model.records import RevisionRise
from ckptd.core.runs.attempt_progress import SavedProgress, list_saved
from ckptd.core.runs.progress import NO_CHANGES, CheckpointChanges, identify
from ckptd.store.recorded_rows import NO_ROWS, RecordedRows, SavedSize

KEPT_COUNT = 10_000  # checkpoints in memory, about 1.5 kB each


class ScanUpdate(NamedTuple):
    """What a scan changed of a run, completely recorded."""

    before: int | None  # the revision that it changed; None: nothing was on record
    after: int  # the revision since
    there: RecordedRows  # before it: all that were there
    compared: tuple[RecordedCheckpoint, ...]  # before it: those that it could change, also deleted ones
    changes: CheckpointChanges
    is_same: bool = False  # something else was recorded of the run, and all of its checkpoints are as they were

    @property
    def checkpoint_count(self) -> int:
        return len(self.there) + len(self.changes.appeared)

    @property
    def cost(self) -> int:
        """How much room it takes, in checkpoints."""
        return self.checkpoint_count + 1


class FreshCheckpoints:
    """The last update of each run that no decision has seen yet. Use it under one lock.

    What was recorded of a run beside its checkpoints, before an update or after it, is joined to it.
    """

    def __init__(self, kept_count: int = KEPT_COUNT) -> None:
        self._kept_count = kept_count
        self._count = 0
        self._by_run: dict[RunKey, ScanUpdate] = {}

    @property
    def is_filling(self) -> bool:
        """Whether half of the room is taken: what gives way must be read from the database."""
        return self._count > self._kept_count / 2

    def keep(self, run: RunKey, update: ScanUpdate) -> None:
        """Keep what was recorded, as long as there is room; the oldest gives way, except to what has none at all."""
        earlier = self._remove(run)
        if update.cost > self._kept_count:
            return
        if earlier is not None and earlier.is_same and earlier.after == update.before:
            update = update._replace(before=earlier.before)
        self._by_run[run] = update
        self._count += update.cost
        while self._count > self._kept_count:
            self._remove(next(iter(self._by_run)))

    def keep_same(self, risen: Mapping[RunKey, RevisionRise]) -> None:
        """Keep that something else was recorded of these runs, which changed nothing about their checkpoints."""
        for run, rise in risen.items():
            known = self._by_run.get(run)
            if known is not None and known.after == rise.before:
                self._by_run[run] = known._replace(after=rise.after)
            else:
                self.keep(run, ScanUpdate(rise.before, rise.after, NO_ROWS, (), NO_CHANGES, is_same=True))

    def take(self, run: RunKey, revision: int) -> ScanUpdate | None:
        """Remove and return the update of a run; None if it did not lead to this revision."""
        kept = self._remove(run)
        return kept if kept is not None and kept.after == revision else None

    def _remove(self, run: RunKey) -> ScanUpdate | None:
        kept = self._by_run.pop(run, None)
        if kept is not None:
            self._count -= kept.cost
        return kept


class SelectedCheckpoints(NamedTuple):
    """What a history has of a run's checkpoints; with sums over all of them, where it leaves some out."""

    checkpoints: Sequence[RecordedCheckpoint]  # in any order
    saved: list[SavedProgress] | None = None  # of all, or those added since `earlier`
    totals: Totals | None = None
    earlier: RunRecord | None = None  # whose sums count the others
    is_same: bool = False  # they are those of the record before, which may be packed


class ShownCheckpoints(NamedTuple):
    """What is known of the checkpoints of a record without looking at each, which may be packed."""

    has_deleted: bool
    has_state: bool  # one that was complete once

    @classmethod
    def of(cls, recorded: Sequence[RecordedCheckpoint]) -> "ShownCheckpoints":
        """Look at each checkpoint once."""
        return cls(any(each.deleted_at is not None for each in recorded), _has_state(recorded))


def select_checkpoints(recorded: Sequence[RecordedCheckpoint], uid: int, limit: int) -> SelectedCheckpoints:
    """Select from all checkpoints of a run, none of them deleted, in the order of their rows."""
    found = _list_selected(recorded, uid, limit)
    if len(found) < limit:
        return SelectedCheckpoints(found)
    return SelectedCheckpoints(found, list_saved(recorded), _sum_up([*map(_size_of, recorded)]))


def follow(known: RunRecord, update: ScanUpdate, limit: int, shown: ShownCheckpoints) -> SelectedCheckpoints | None:
    """Select after a scan, from the record of the revision before it; None if only the database can tell.

    A checkpoint that the record leaves out has `limit` others before it in each order. It can come in only if one of
    these ranks lower than before, or counts no longer. `shown` is what is known of the record's checkpoints.
    """
    if update.is_same:
        return _keep_all(known)
    before = {identify(each): each for each in update.compared}
    altered = [(before.get(identify(each)), each) for each in (*update.changes.changed, *update.changes.gone)]
    pairs = [(was, now) for was, now in altered if was is not None and not _ranks_lower(was, now)]
    if known.earlier or len(pairs) < len(altered):
        return None
    kept = tuple(known.checkpoints)  # once: each use would unpack them all
    by_name = {identify(each): each for each in kept}
    if known.is_truncated and _makes_room(pairs, kept, known.key.uid, limit):
        by_name |= {identify(each): each for each in update.there}
    now_of = {identify(now): now for _, now in pairs}
    rows = [*(by_name | now_of).values(), *update.changes.appeared]
    found = _list_selected(rows, known.key.uid, limit)
    if len(found) < limit:
        return SelectedCheckpoints(found)
    present = [each for each in (*now_of.values(), *update.changes.appeared) if each.deleted_at is None]
    totals = _sum_up([*update.there.list_sizes(without=now_of), *map(_size_of, present)])
    if not known.is_truncated:
        return SelectedCheckpoints(found, list_saved(rows), totals)
    added = list_saved([*update.changes.appeared, *(now for was, now in pairs if was.completed_at is None)])
    has_state = _has_state(found)
    if has_state != shown.has_state:
        return None  # then only states count, and no longer what counted before
    counted = [each for each in added if each.is_state] if has_state else added
    return SelectedCheckpoints(found, counted, totals, known)


def _keep_all(known: RunRecord) -> SelectedCheckpoints | None:
    if known.earlier:
        return None
    is_cut = known.is_truncated
    return SelectedCheckpoints(
        known.checkpoints, [] if is_cut else None, known.totals, known if is_cut else None, is_same=True
    )


def _makes_room(
    pairs: Iterable[tuple[RecordedCheckpoint, RecordedCheckpoint]],
    kept: Sequence[RecordedCheckpoint],
    uid: int,
    limit: int,
) -> bool:
    """Whether changes may let in checkpoints that a record leaves out, but which the scan saw."""
    usable = [each for each in kept if _is_usable(each)]
    first = {identify(each) for each in (*_latest_modified(usable), *_furthest(usable))}
    if any(identify(was) in first and not _is_usable(now) for was, now in pairs):
        return True
    return any(
        sum(is_one(each, uid) for each in kept) >= limit and any(is_one(was, uid) for was, _ in pairs)
        for is_one in (_is_odd, _is_compared)
    )


def add_reaches(known: RunRecord, added: Iterable[AttemptProgress]) -> tuple[AttemptProgress, ...]:
    """Return how far each attempt got, from a record and the progress of what was saved since."""
    assert known.reaches is not None
    return tuple(
        AttemptProgress(
            mine.save_count + more.save_count, _join(mine.steps, more.steps), _join(mine.epochs, more.epochs)
        )
        for mine, more in zip(known.reaches, added, strict=True)
    )


def _join(one: tuple[float, float] | None, other: tuple[float, float] | None) -> tuple[float, float] | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _ranks_lower(was: RecordedCheckpoint, now: RecordedCheckpoint) -> bool:
    """Whether a checkpoint ranks lower than before, other than by being deleted, or counts otherwise."""
    if was.completed_at is not None and (was.completed_at, _counts_as(was)) != (now.completed_at, _counts_as(now)):
        return True
    return now.checkpoint.modified_at < was.checkpoint.modified_at


def _counts_as(recorded: RecordedCheckpoint) -> tuple[object, ...]:
    checkpoint = recorded.checkpoint
    return checkpoint.step, checkpoint.epoch, checkpoint.role is Role.STATE


def _has_state(recorded: Iterable[RecordedCheckpoint]) -> bool:
    return any(each.completed_at is not None and each.checkpoint.role is Role.STATE for each in recorded)


def _list_selected(recorded: Sequence[RecordedCheckpoint], uid: int, limit: int) -> list[RecordedCheckpoint]:
    if len(recorded) < limit:
        return [*recorded]
    complete = [each for each in recorded if each.completed_at is not None]
    states = [each for each in complete if each.checkpoint.role is Role.STATE]
    usable = [each for each in recorded if _is_usable(each)]
    odd = [each for each in recorded if _is_odd(each, uid)]
    compared = [each for each in recorded if _is_compared(each, uid)]
    found = [
        *_latest(recorded, lambda each: (each.first_seen_at, each.checkpoint.modified_at), limit),
        *_latest(complete, lambda each: each.completed_at, limit),
        *_furthest(complete),
        *_latest(states, lambda each: each.completed_at, limit),
        *_furthest(states),
        *_latest_modified(usable),
        *_furthest(usable),
        *_latest(odd, lambda each: each.first_seen_at, limit),
        *_latest(compared, lambda each: each.first_seen_at, limit),
    ]
    return list({id(each): each for each in found}.values())


def _latest(
    recorded: Sequence[RecordedCheckpoint], when: Callable[[RecordedCheckpoint], Any], count: int
) -> list[RecordedCheckpoint]:
    return sorted(recorded, key=when, reverse=True)[:count]  # of equal ones, the earlier row comes first


def _latest_modified(recorded: Sequence[RecordedCheckpoint]) -> list[RecordedCheckpoint]:
    return _latest(recorded, lambda each: each.checkpoint.modified_at, 1)


def _furthest(recorded: Sequence[RecordedCheckpoint]) -> list[RecordedCheckpoint]:
    """Return the one with the most progress; of equal ones the last row."""
    numbered = enumerate(recorded)
    return [max(numbered, key=lambda each: (*_progress(each[1]), each[0]))[1]] if recorded else []


def _progress(recorded: RecordedCheckpoint) -> tuple[Any, ...]:
    step, epoch = recorded.checkpoint.step, recorded.checkpoint.epoch
    return -1 if step is None else step, -1.0 if epoch is None else epoch, recorded.first_seen_at


def _is_usable(recorded: RecordedCheckpoint) -> bool:
    return recorded.deleted_at is None and recorded.checkpoint.state is CheckpointState.COMPLETE


def _is_odd(recorded: RecordedCheckpoint, uid: int) -> bool:
    """Whether it can open a flag at any age: unsafe, of another owner, or unfinished."""
    checkpoint = recorded.checkpoint
    is_foreign = bool(checkpoint.owner_uids) and checkpoint.owner_uids != {uid}
    is_odd = bool(checkpoint.unsafe) or is_foreign or checkpoint.state is CheckpointState.WRITING
    return is_odd and recorded.deleted_at is None


def _is_compared(recorded: RecordedCheckpoint, uid: int) -> bool:
    """Whether it was compared with an original, and nothing else is odd about it."""
    return bool(recorded.comparisons) and recorded.deleted_at is None and not _is_odd(recorded, uid)


def _size_of(recorded: RecordedCheckpoint) -> SavedSize:
    found = recorded.checkpoint
    return SavedSize(found.state, found.modified_at, found.size_bytes)


def _sum_up(present: Collection[SavedSize]) -> Totals:
    good = [each.modified_at for each in present if each.state is CheckpointState.COMPLETE]
    damaged = [each.modified_at for each in present if each.state is CheckpointState.DAMAGED]
    newest_good = max(good, default=None)
    since_good = [at for at in damaged if newest_good is None or at > newest_good]
    return Totals(len(present), int(sum(float(each.size_bytes) for each in present)), len(since_good))
