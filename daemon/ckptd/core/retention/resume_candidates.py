"""Finds the checkpoints that a running attempt may have resumed from: while it is not known, each of them stays.

Before the attempt has completed a checkpoint of its own, that is every complete one that was there when it started.
Its first own checkpoint then bounds them by its progress: an attempt that saved step 600 first resumed from what is at
most two save intervals before that. A checkpoint that a person copied there meanwhile may look like its first one: then
the first of the others bounds them as well.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Literal

from ckptd.core.model import Attempt, Role
from ckptd.core.retention.checkpoint_order import CheckpointOrder, Ranks
from ckptd.core.retention.rules import Ranked, SeriesKey

INTERVALS = 2  # between the loaded checkpoint and the attempt's first one: one of them may be deleted
NOTHING_SAVED = "the running attempt may have resumed from it, and has not completed a checkpoint in this location yet"
NEAR = "the running attempt may have resumed from it: its first own checkpoint followed"
NOT_STATED = "the running attempt may have resumed from it, and its first own checkpoint does not state its progress"

Measure = Literal["step", "epoch"]


def find_candidates(
    attempts: Iterable[Attempt], ranks: Ranks, order: CheckpointOrder, kept_by_people: Collection[str] = ()
) -> Iterator[tuple[int, str]]:
    """Yield the index, and the reason, of each checkpoint that a running attempt may have resumed from."""
    for attempt in attempts:
        if attempt.ended_at is None:
            rank = ranks[attempt.job, attempt.restart_count]
            there = [index for index in order.complete if _was_there(order.sets[index], rank, attempt.started_at)]
            first = _find_first(rank, order.recorded)
            yield from _find_of(first, there, order)
            if first is not None and first.path in kept_by_people:
                yield from _find_of(_find_first(rank, order.recorded, kept_by_people), there, order)


def _find_of(first: Ranked | None, there: Sequence[int], order: CheckpointOrder) -> Iterator[tuple[int, str]]:
    """Yield those of the checkpoints that were there from which an attempt can have saved this one first."""
    if first is None:
        yield from ((index, NOTHING_SAVED) for index in there)
        return
    groups: dict[tuple[SeriesKey, Measure | None], list[int]] = defaultdict(list)
    for index in there:
        each = order.sets[index]
        groups[each.series, _choose_measure(first, each)].append(index)
    for (series, measure), indexes in groups.items():
        if measure is None:
            yield from ((index, NOT_STATED) for index in indexes)
        else:
            yield from ((index, NEAR) for index in _narrow(first, order, series, measure, indexes))


def _was_there(each: Ranked, rank: int, started_at: datetime) -> bool:
    """Whether it existed and an attempt may load it; a file that only `prune_files` makes a candidate is no state."""
    return each.rank != rank and not each.is_named and (each.rank < rank or each.at <= started_at)


def _find_first(
    rank: int, recorded: Mapping[SeriesKey, Sequence[Ranked]], left_out: Collection[str] = ()
) -> Ranked | None:
    """Return the first state that an attempt completed, also where it has been overwritten or deleted since."""
    own = (each for members in recorded.values() for each in members if each.rank == rank and _is_complete_state(each))
    return min((each for each in own if each.path not in left_out), key=lambda each: (each.at, each.path), default=None)


def _is_complete_state(each: Ranked) -> bool:
    return each.record.completed_at is not None and each.record.checkpoint.role == Role.STATE


def _choose_measure(first: Ranked, each: Ranked) -> Measure | None:
    """Return the measure of progress, step or epoch, that both state; None if there is none."""
    measures: tuple[Measure, ...] = ("step", "epoch")
    return next((m for m in measures if None not in {_progress(first, m), _progress(each, m)}), None)


def _narrow(
    first: Ranked, order: CheckpointOrder, series: SeriesKey, measure: Measure, indexes: Iterable[int]
) -> Sequence[int]:
    """Return the checkpoints of one series from which the attempt can have reached its first own checkpoint."""
    reached = _progress(first, measure)
    assert reached is not None
    intervals = (_median_interval(order.recorded[each], measure) for each in (series, first.series))
    interval = next(filter(None, intervals), 0.0)
    below = {
        index: value
        for index in indexes
        if (value := _progress(order.sets[index], measure)) is not None and value <= reached
    }
    near = [index for index, value in below.items() if value >= reached - INTERVALS * interval]
    furthest = max(below.values(), default=None)
    return near or [index for index, value in below.items() if value == furthest]


def _progress(each: Ranked, measure: Measure) -> float | None:
    found = each.record.checkpoint
    value = found.step if measure == "step" else found.epoch
    return value if value is not None and math.isfinite(value) else None


def _median_interval(members: Iterable[Ranked], measure: Measure) -> float:
    """Return the median progress between two checkpoints of one attempt in a row; 0 where there are no two."""
    values = [(each.rank, value) for each in members if (value := _progress(each, measure)) is not None]
    steps = [
        later - earlier
        for (rank, earlier), (next_rank, later) in pairwise(values)
        if rank == next_rank and later > earlier
    ]
    return median(steps) if steps else 0.0
