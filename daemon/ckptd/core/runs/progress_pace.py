"""How a run gets on: the progress between two of its checkpoints, and the time that it takes."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from ckptd.core.model import Attempt
from ckptd.core.runs import suspension
from ckptd.core.runs.saved_state import SavedState

TOLERANCE = 0.25  # of the expected progress: nodes differ, and startup takes longer at times
REGULAR = 0.1  # of an interval, by which intervals of regular progress differ
UNEVEN_COUNT = 2  # odd rates at least, so that one pause is none
UNEVEN_SHARE = 0.25  # of the rates
RECENT_COUNT = 24  # newest intervals that are measured

Unit = Literal["step", "epoch"]
UNITS: tuple[Unit, ...] = ("step", "epoch")


class ProgressPace(NamedTuple):
    """How a run gets on, in one unit of progress."""

    interval: float  # progress between two checkpoints
    seconds_per_unit: float
    range_per_unit: tuple[float, float]  # the fewest and the most seconds per unit, where it gets on unevenly
    is_regular: bool  # the interval is the same each time
    startup_seconds: float  # before the first progress
    first: tuple[float, float] | None  # the first checkpoint of a fresh start: progress, seconds after the start

    @property
    def saves_after_an_interval(self) -> bool:
        """Whether the fresh start did not save at once what it began with."""
        return self.first is not None and self.first[0] >= (1 - TOLERANCE) * self.interval


def choose_unit(first: SavedState, there: Sequence[SavedState]) -> Unit | None:
    """Return in what the first own checkpoint can be compared with those before; None: in nothing.

    It is the step. Where the epochs go on and the steps fall back, it is the epoch: larger batches make fewer steps.
    """
    own = [unit for unit in UNITS if read_progress(first, unit) is not None]
    if not there:
        return own[0] if own else None
    common = [unit for unit in own if any(read_progress(each, unit) is not None for each in there)]
    if len(common) > 1 and _is_next_epoch(first, there) and not _is_beyond(first, there, "step"):
        return "epoch"
    return common[0] if common else None


def _is_next_epoch(first: SavedState, there: Sequence[SavedState]) -> bool:
    """Whether a checkpoint is of the epoch after all that were there."""
    assert first.epoch is not None
    return _is_beyond(first, there, "epoch") and any(each.epoch == first.epoch - 1 for each in there)


def _is_beyond(first: SavedState, there: Sequence[SavedState], unit: Unit) -> bool:
    own = read_progress(first, unit)
    assert own is not None
    return all(value < own for each in there if (value := read_progress(each, unit)) is not None)


def read_progress(state: SavedState, unit: Unit) -> float | None:
    return state.step if unit == "step" else state.epoch


def measure_pace(
    attempt: Attempt,
    own: Iterable[SavedState],
    earlier: Iterable[tuple[Attempt, Iterable[SavedState]]],
    began_fresh: Callable[[Attempt], bool],
    unit: Unit,
) -> ProgressPace | None:
    """Return the pace of the run's progress; None if it cannot be measured.

    `own` is what the attempt completed, `earlier` the run's other attempts in order with what each of them completed,
    and `began_fresh` tells of an attempt whether no checkpoint was there when it started.
    """
    saved = [(each, points) for each, states in earlier if (points := _list_points(each, states, unit))]
    others = [pair for _, points in saved for pair in _list_pairs(points)]
    mine = _list_pairs(_list_points(attempt, own, unit))
    gaps = [gap for gap, _ in [*others, *mine]][-RECENT_COUNT:]
    rates = _list_rates(mine or others)
    first = next((points[0] for each, points in saved if began_fresh(each)), None)
    if not gaps and first is not None:
        interval = first[0] if first[0] > 0 else 1.0
        per_unit = max(first[1], 1.0) / interval
        return ProgressPace(interval, per_unit, (per_unit, per_unit), False, 0.0, first)
    if not gaps:
        return None
    interval, seconds_per_unit = median(gaps), max(median(rates), 1e-9)
    startups = [
        seconds - seconds_per_unit * (max(interval, progress) if (progress, seconds) == first else interval)
        for progress, seconds in (points[0] for _, points in saved)
    ]
    return ProgressPace(
        interval=interval,
        seconds_per_unit=seconds_per_unit,
        range_per_unit=_find_range(_list_rates([*others, *mine]), seconds_per_unit),
        is_regular=len(gaps) > 1 and all(abs(gap - interval) <= REGULAR * interval for gap in gaps),
        startup_seconds=max(min(startups, default=0.0), 0.0),
        first=first,
    )


def _list_rates(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [seconds / gap for gap, seconds in pairs[-RECENT_COUNT:]]


def _find_range(rates: Sequence[float], usual: float) -> tuple[float, float]:
    """Return the lowest and the highest rate where several differ from the middle one by more than it tolerates."""
    middle = median(rates)
    odd_count = sum(abs(each - middle) > TOLERANCE * middle for each in rates)
    if odd_count < max(UNEVEN_COUNT, UNEVEN_SHARE * len(rates)):
        return usual, usual
    return max(min(*rates, usual), 1e-9), max(*rates, usual)


def _list_points(attempt: Attempt, own: Iterable[SavedState], unit: Unit) -> list[tuple[float, float]]:
    """Return the progress of each save of an attempt and how many seconds it had run by then; copies once."""
    points: list[tuple[float, float]] = []
    for each in own:
        value = read_progress(each, unit)
        if value is not None and (not points or value != points[-1][0]):
            points.append((value, seconds_between(attempt, each.completed_at)))
    return points


def _list_pairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the progress and the seconds between each two saves in a row."""
    return [(later[0] - before[0], later[1] - before[1]) for before, later in pairwise(points) if later[0] > before[0]]


def seconds_between(attempt: Attempt, until: datetime) -> float:
    """Return how long an attempt had run at an instant; while it was suspended it did not run."""
    idle = suspension.within(attempt.suspensions, attempt.started_at, until)
    return max((until - attempt.started_at - idle).total_seconds(), 0.0)
