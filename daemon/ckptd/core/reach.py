"""How far each attempt of a run got, told from all of its saves: a history holds the newest of them only."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from ckptd.core.model import Attempt, Reach, RecordedCheckpoint, RunHistory

GOES_ON_AFTER = 4  # attempts: the furthest, the one that began anew, and two that went on with it
CONTINUES_FROM = 2  # saves of the attempt before: beyond fewer one gets from nothing, too


class Saved(NamedTuple):
    """What counts of a checkpoint that was complete once."""

    completed_at: datetime
    step: int | None
    epoch: float | None


def measure_reaches(attempts: Sequence[Attempt], saved: Iterable[Saved]) -> tuple[Reach, ...]:
    """Return how far each attempt got by what was completed while it ran, in the order of the attempts."""
    ordered = sorted(saved, key=lambda each: each.completed_at)
    instants = [each.completed_at for each in ordered]
    reaches: list[Reach] = []
    for attempt in attempts:
        first = bisect_right(instants, attempt.started_at)
        last = len(ordered) if attempt.ended_at is None else bisect_right(instants, attempt.ended_at)
        own = ordered[first:last]
        reaches.append(
            Reach(
                save_count=len(own),
                steps=_range([each.step for each in own]),
                epochs=_range([each.epoch for each in own]),
            )
        )
    return tuple(reaches)


def reaches_of(history: RunHistory) -> tuple[Reach, ...]:
    """Return how far each attempt of a run got; of a history that is cut the record has told it."""
    if history.reaches is not None and len(history.reaches) == len(history.attempts):
        return history.reaches
    return measure_reaches(history.attempts, list_saved(history.checkpoints))


def list_saved(recorded: Iterable[RecordedCheckpoint]) -> list[Saved]:
    """Return the checkpoints that were complete once, those included that are gone or were found damaged since."""
    return [
        Saved(record.completed_at, record.checkpoint.step, record.checkpoint.epoch)
        for record in recorded
        if record.completed_at is not None
    ]


def moved_on(earlier: Sequence[Reach], own: Reach) -> bool:
    """Whether an attempt saved a higher step or epoch than any before it; anything, where none is known.

    One that goes on with a training that was begun anew in an old directory moved on as well.
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
            return mine[1] > best or _goes_on(ranges, best, _Saves(mine[0], mine[1], own.save_count))
    return own.save_count > 0


class _Saves(NamedTuple):
    lowest: float
    highest: float
    number: int


def _saves(reach: Reach, unit: str) -> _Saves | None:
    found = reach.steps if unit == "steps" else reach.epochs
    return None if found is None else _Saves(found[0], found[1], reach.save_count)


def _goes_on(earlier: Sequence[_Saves], best: float, own: _Saves) -> bool:
    """Whether a training was begun anew once since the furthest attempt, and was gone on with twice or more since.

    One that fails to load its checkpoint now and then begins anew again and again.
    """
    furthest = max(place for place, each in enumerate(earlier) if each.highest == best)
    since = [*earlier[furthest:], own]
    fresh_count = sum(not _continues(before, after) for before, after in pairwise(since))
    return len(since) >= GOES_ON_AFTER and fresh_count == 1 and _continues(since[-2], own)


def _continues(before: _Saves, after: _Saves) -> bool:
    return before.number >= CONTINUES_FROM and before.lowest < before.highest < after.lowest


def _range(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
