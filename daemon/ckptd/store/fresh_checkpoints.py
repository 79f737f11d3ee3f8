"""The checkpoints of runs whose first scan was just recorded, so that the next decision need not read them back.

To read a hundred rows costs as much as to record them. What is selected of them for a history is what
`history_rows` selects from the database.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ckptd.core.model import CheckpointState, RecordedCheckpoint, Role, RunKey, Totals
from ckptd.core.runs.attempt_progress import SavedProgress

KEPT_COUNT = 10_000  # checkpoints in memory, about 1.5 kB each


class FreshCheckpoints:
    """Checkpoints that are all on record of their run at one revision, oldest row first. Use it under one lock."""

    def __init__(self, kept_count: int = KEPT_COUNT) -> None:
        self._kept_count = kept_count
        self._count = 0
        self._by_run: dict[RunKey, tuple[int, tuple[RecordedCheckpoint, ...]]] = {}

    def keep(self, run: RunKey, revision: int, checkpoints: Sequence[RecordedCheckpoint]) -> None:
        """Keep what was recorded, as long as there is room; the oldest gives way."""
        self.take(run, revision)
        self._by_run[run] = revision, tuple(checkpoints)
        self._count += len(checkpoints)
        while self._count > self._kept_count:
            self.take(next(iter(self._by_run)), -1)

    def take(self, run: RunKey, revision: int) -> tuple[RecordedCheckpoint, ...] | None:
        """Remove and return the checkpoints of a run; None if they are not of this revision."""
        kept = self._by_run.pop(run, None)
        if kept is None:
            return None
        self._count -= len(kept[1])
        return kept[1] if kept[0] == revision else None


class SelectedCheckpoints(NamedTuple):
    """What a history has of a run's checkpoints; with sums over all of them, where it leaves some out."""

    checkpoints: list[RecordedCheckpoint]  # in any order
    saved: list[SavedProgress] | None = None
    totals: Totals | None = None


def select_checkpoints(recorded: Sequence[RecordedCheckpoint], uid: int, limit: int) -> SelectedCheckpoints:
    """Select from all checkpoints of a run, none of them deleted, in the order of their rows."""
    found = {id(each): each for each in _list_selected(recorded, uid, limit)}
    if len(found) < limit:
        return SelectedCheckpoints(list(found.values()))
    saved = [
        SavedProgress(
            each.completed_at, each.checkpoint.step, each.checkpoint.epoch, is_state=each.checkpoint.role is Role.STATE
        )
        for each in recorded
        if each.completed_at is not None
    ]
    return SelectedCheckpoints(list(found.values()), saved, _sum_up(recorded))


def _list_selected(recorded: Sequence[RecordedCheckpoint], uid: int, limit: int) -> list[RecordedCheckpoint]:
    if len(recorded) < limit:
        return [*recorded]
    complete = [each for each in recorded if each.completed_at is not None]
    states = [each for each in complete if each.checkpoint.role is Role.STATE]
    usable = [each for each in recorded if each.checkpoint.state is CheckpointState.COMPLETE]
    odd = [each for each in recorded if _is_odd(each, uid)]
    return [
        *_latest(recorded, lambda each: (each.first_seen_at, each.checkpoint.modified_at), limit),
        *_latest(complete, lambda each: each.completed_at, limit),
        *_furthest(complete),
        *_latest(states, lambda each: each.completed_at, limit),
        *_furthest(states),
        *_latest(usable, lambda each: each.checkpoint.modified_at, 1),
        *_furthest(usable),
        *_latest(odd, lambda each: each.first_seen_at, limit),
    ]


def _latest(
    recorded: Sequence[RecordedCheckpoint], when: Callable[[RecordedCheckpoint], Any], count: int
) -> list[RecordedCheckpoint]:
    return sorted(recorded, key=when, reverse=True)[:count]  # of equal ones, the earlier row comes first


def _furthest(recorded: Sequence[RecordedCheckpoint]) -> list[RecordedCheckpoint]:
    """Return the one with the most progress; of equal ones the last row."""
    numbered = enumerate(recorded)
    return [max(numbered, key=lambda each: (*_progress(each[1]), each[0]))[1]] if recorded else []


def _progress(recorded: RecordedCheckpoint) -> tuple[Any, ...]:
    step, epoch = recorded.checkpoint.step, recorded.checkpoint.epoch
    return -1 if step is None else step, -1.0 if epoch is None else epoch, recorded.first_seen_at


def _is_odd(recorded: RecordedCheckpoint, uid: int) -> bool:
    """Whether it can open a flag at any age: unsafe, of another owner, or unfinished."""
    checkpoint = recorded.checkpoint
    is_foreign = bool(checkpoint.owner_uids) and checkpoint.owner_uids != {uid}
    return bool(checkpoint.unsafe) or is_foreign or checkpoint.state is CheckpointState.WRITING


def _sum_up(recorded: Sequence[RecordedCheckpoint]) -> Totals:
    checkpoints = [each.checkpoint for each in recorded]
    good = [each.modified_at for each in checkpoints if each.state is CheckpointState.COMPLETE]
    damaged = [each.modified_at for each in checkpoints if each.state is CheckpointState.DAMAGED]
    since_good = [at for at in damaged if not good or at > max(good)]
    return Totals(len(checkpoints), int(sum(float(each.size_bytes) for each in checkpoints)), len(since_good))
