"""The progress of each attempt of a run, measured over all of its saves: a history holds only the newest ones."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from typing import NamedTuple

from ckptd.core.model import Attempt, AttemptProgress, RecordedCheckpoint, Role, RunRecord

LATENESS = timedelta(minutes=1)  # after its attempt's end, by which a file server's clock may date a save
GOES_ON_AFTER = 4  # attempts: the furthest, the one that started over, and two that continued it
BLOCK = 128  # saves of which the extremes are known
CONTINUES_FROM = 2  # saves of the attempt before: a start from the beginning also gets beyond fewer


class SavedProgress(NamedTuple):
    """What counts of a checkpoint that was complete once."""

    completed_at: datetime
    step: int | None
    epoch: float | None
    is_state: bool = True  # its role is `state`


def measure_reaches(attempts: Sequence[Attempt], saved: Iterable[SavedProgress]) -> tuple[AttemptProgress, ...]:
    """Return how far each attempt got by what was completed while it ran, in the order of the attempts.

    Where the run has states, only these count: data beside them are numbered in their own way.
    """
    ordered = sorted(_choose_states(saved), key=lambda each: each.completed_at)
    instants = [each.completed_at for each in ordered]
    steps, epochs = _Extremes([each.step for each in ordered]), _Extremes([each.epoch for each in ordered])
    reaches: list[AttemptProgress] = []
    for attempt, following in zip_longest(attempts, attempts[1:]):
        first = bisect_right(instants, attempt.started_at)
        last = len(ordered)
        if attempt.ended_at is not None:
            late = attempt.ended_at + LATENESS
            late = min(late, following.started_at) if following is not None else late
            last = bisect_right(instants, max(attempt.ended_at, late))
        last = max(first, last)
        reaches.append(AttemptProgress(last - first, steps.find(first, last), epochs.find(first, last)))
    return tuple(reaches)


def _choose_states(saved: Iterable[SavedProgress]) -> list[SavedProgress]:
    """Return the states; everything where there is none."""
    everything = [*saved]
    return [each for each in everything if each.is_state] or everything


def _sum_up(saved: Sequence[SavedProgress]) -> AttemptProgress:
    return AttemptProgress(
        save_count=len(saved),
        steps=_range([each.step for each in saved]),
        epochs=_range([each.epoch for each in saved]),
    )


def reaches_of(history: RunRecord) -> tuple[AttemptProgress, ...]:
    """Return the progress of each attempt of a run; if the history is truncated, the database has measured it."""
    if history.reaches is not None and len(history.reaches) == len(history.attempts):
        return history.reaches
    return measure_reaches(history.attempts, list_saved(history.checkpoints))


def list_saved(recorded: Iterable[RecordedCheckpoint]) -> list[SavedProgress]:
    """Return the checkpoints that were once complete, including those that were deleted or found damaged since."""
    return [
        SavedProgress(
            record.completed_at,
            record.checkpoint.step,
            record.checkpoint.epoch,
            is_state=record.checkpoint.role is Role.STATE,
        )
        for record in recorded
        if record.completed_at is not None
    ]


def moved_on(earlier: Sequence[AttemptProgress], own: AttemptProgress) -> bool:
    """Whether an attempt saved a higher step or epoch than any before it; anything, where none is known.

    An attempt that continues a training which was started over in an old directory counts, too.
    """
    for unit in ("steps", "epochs"):
        ranges = [
            _Saves(each[0], each[1], reach.save_count)
            for reach in earlier
            if (each := getattr(reach, unit)) is not None
        ]
        mine = getattr(own, unit)
        if ranges and mine is not None:
            best = max(each.highest for each in ranges)
            return mine[1] > best or _is_restarted_once(ranges, best, _Saves(mine[0], mine[1], own.save_count))
    return own.save_count > 0


def find_gain(history: RunRecord, attempt: Attempt) -> AttemptProgress | None:
    """Return the progress of an attempt if it is beyond all earlier progress, else None.

    Checkpoints from before the first recorded attempt count as earlier progress.
    """
    names = [(each.job, each.restart_count) for each in history.attempts]
    if (attempt.job, attempt.restart_count) not in names:
        return None
    place = names.index((attempt.job, attempt.restart_count))
    reaches, began_at = reaches_of(history), history.attempts[0].started_at
    there = [each for each in _choose_states(list_saved(history.checkpoints)) if each.completed_at <= began_at]
    return reaches[place] if moved_on([_sum_up(there), *reaches[:place]], reaches[place]) else None


class _Saves(NamedTuple):
    lowest: float
    highest: float
    number: int


def _is_restarted_once(earlier: Sequence[_Saves], best: float, own: _Saves) -> bool:
    """Whether a training started over once since the furthest attempt, and was continued at least twice since then.

    A training that sometimes fails to load its checkpoint starts over more often.
    """
    furthest = max(place for place, each in enumerate(earlier) if each.highest == best)
    since = [*earlier[furthest:], own]
    fresh_count = sum(not _continues(before, after) for before, after in pairwise(since))
    return len(since) >= GOES_ON_AFTER and fresh_count == 1 and _continues(since[-2], own)


def _continues(before: _Saves, after: _Saves) -> bool:
    return before.number >= CONTINUES_FROM and before.lowest < before.highest < after.lowest


def _range(values: Iterable[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


class _Extremes:
    """Finds the lowest and the highest of many stretches of a sequence: those of its blocks are known.

    Hundreds of tasks of an array run side by side, so that each of tens of thousands of saves belongs to all of them.
    """

    def __init__(self, values: Sequence[float | None]) -> None:
        self._values = values
        self._blocks = [_range(values[start : start + BLOCK]) for start in range(0, len(values), BLOCK)]

    def find(self, first: int, last: int) -> tuple[float, float] | None:
        """Return the lowest and the highest of what is known from `first` until before `last`; None of nothing."""
        start, end = -(-first // BLOCK), last // BLOCK  # the whole blocks in between
        if start >= end:
            return _range(self._values[first:last])
        ends = _range((*self._values[first : start * BLOCK], *self._values[end * BLOCK : last]))
        found = [each for each in (ends, *self._blocks[start:end]) if each is not None]
        return (min(each[0] for each in found), max(each[1] for each in found)) if found else None
