"""The keep rules: each is one reason to keep a checkpoint. Nothing here can be a reason to remove one.

Rules count in each series on its own, as restic counts in each group: `last = 3` keeps three of every series.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import nlargest
from typing import ClassVar, NamedTuple, Protocol

from ckptd.core.model import RecordedCheckpoint
from ckptd.core.retention import marked_best
from ckptd.core.text.quantities import format_duration

Placed = tuple[str, RecordedCheckpoint]  # a checkpoint's path as text, and its record
SeriesKey = tuple[str, str]  # the name without its progress numbers, or the path of a fixed name; the format


class Ranked(NamedTuple):
    """One checkpoint with its place in the order of its run.

    The first four fields are the order, oldest first. No two have the same path, so that records are never compared.
    """

    rank: int  # of its attempt, by start
    at: datetime  # when its last byte was written
    progress: tuple[float, ...]  # in the measure of its series; empty: it is not known
    path: str
    record: RecordedCheckpoint
    series: SeriesKey
    is_complete: bool
    lineage: int = 0  # of its series: rises each time that the run went back behind what it had saved
    is_named: bool = False  # only a `prune_files` pattern allows its removal
    is_order_unproven: bool = False  # of its series: only the times of writing order two lineages of it

    def metric(self, name: str) -> float:
        """Return a metric's value; NaN where the checkpoint does not state it."""
        return self.record.checkpoint.metrics.get(name, math.nan)


Kept = Iterator[tuple[int, str]]


class KeepRule(Protocol):
    """One reason to keep. `is_soft`: `max_total_size` may overrule it, oldest checkpoints first."""

    is_soft: ClassVar[bool]

    @property
    def key(self) -> str:
        """The key that must be unique among the rules of a policy."""

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:
        """Yield the index and the reason of each checkpoint that the rule keeps.

        `series` are the complete checkpoints of one series, oldest first.
        """

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each thing that is wrong with the rule itself."""


@dataclass(frozen=True, slots=True)
class KeepLast:
    """Keep the newest `n` checkpoints."""

    n: int
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return "last"

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        reason = f"last {self.n}"
        yield from ((index, reason) for index in range(max(0, len(series) - self.n), len(series)))
        if series and series[0].is_order_unproven:
            reason = f"last {self.n} by progress: no scan saw the run go back to an earlier state"
            furthest = nlargest(self.n, range(len(series)), key=lambda index: (series[index].progress, index))
            yield from ((index, reason) for index in furthest)

    def problems(self) -> Iterator[str]:
        return _not_positive("last", self.n)


@dataclass(frozen=True, slots=True)
class KeepBest:
    """Keep the best `n` checkpoints: those that the format marks as best, or by a metric; of equal ones the newer.

    Without a marked one, or without the metric, the best one is unknown and all are kept. If several are marked, a
    metric that all of them state decides; without one, all of them are kept.
    """

    n: int
    metric: str | None = None  # None: by the format's marker
    mode: str | None = None  # "min" or "max", of a metric
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"best by {self.metric}" if self.metric else "best"

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        if self.metric is None:
            named = [index for index, each in enumerate(series) if each.record.checkpoint.is_best]
            if not named:
                return _all(series, "no marker of its format names the best one")
            chosen = marked_best.choose([series[index].record.checkpoint for index in named], self.n)
            return ((named[place], why) for place, why in chosen.items())
        sign = -1 if self.mode == "min" else 1
        measured = [
            (sign * value, index)
            for index, each in enumerate(series)
            if math.isfinite(value := each.metric(self.metric))
        ]
        if not measured:
            return _all(series, f"no checkpoint states {self.metric}, by which the best are chosen")
        return ((index, f"best {self.n} by {self.mode} {self.metric}") for _, index in nlargest(self.n, measured))

    def problems(self) -> Iterator[str]:
        yield from _not_positive(self.key, self.n)
        if self.metric is not None and self.mode not in {"min", "max"}:
            yield f"{self.key}: say whether the smallest ('min') or the largest ('max') is best, not {self.mode!r}"
        if self.metric is None and self.mode is not None:
            yield f"best: mode {self.mode!r} needs a metric"


@dataclass(frozen=True, slots=True)
class KeepEvery:
    """Keep the first checkpoint of every `n` epochs or steps, in each lineage.

    Where no checkpoint states its epoch or step, all are kept.
    """

    n: int
    unit: str  # "epochs" or "steps"
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"every {self.unit}"

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        first: dict[tuple[int, float], tuple[float, int]] = {}
        is_step = self.unit == "steps"
        for index, each in enumerate(series):
            found = each.record.checkpoint
            value = found.step if is_step else found.epoch
            if value is None or not math.isfinite(value):
                continue
            bucket = (each.lineage, value // self.n)
            known = first.get(bucket)
            if known is None or value < known[0]:
                first[bucket] = (value, index)
        if not first:
            return _all(series, f"no checkpoint states its {self.unit}, by which one of every {self.n} is chosen")
        return ((index, f"every {self.n} {self.unit}") for _, index in first.values())

    def problems(self) -> Iterator[str]:
        yield from _not_positive(self.key, self.n)
        if self.unit not in {"epochs", "steps"}:
            yield f"every: the unit is 'epochs' or 'steps', not {self.unit!r}"


@dataclass(frozen=True, slots=True)
class KeepWithin:
    """Keep what was saved within the last `duration`."""

    duration: timedelta
    is_soft: ClassVar[bool] = True

    @property
    def key(self) -> str:
        return "within"

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:
        reason = f"within {format_duration(self.duration)}"
        start = now - self.duration
        return ((index, reason) for index, each in enumerate(series) if each.at >= start)

    def problems(self) -> Iterator[str]:
        if self.duration <= timedelta(0):
            yield f"within: the duration must be positive, not {format_duration(self.duration)}"


def _hour(at: datetime) -> int:
    return at.toordinal() * 24 + at.hour


def _week(at: datetime) -> int:
    return (at.toordinal() - 1) // 7  # day 1 of the calendar was a Monday


def _month(at: datetime) -> int:
    return at.year * 12 + at.month


CALENDAR_PERIODS: dict[str, Callable[[datetime], int]] = {
    "hourly": _hour,
    "daily": datetime.toordinal,
    "weekly": _week,
    "monthly": _month,
}


@dataclass(frozen=True, slots=True)
class KeepCalendar:
    """Keep the newest checkpoint of each of the `n` most recent hours, days, weeks or months (UTC) that have one."""

    period: str  # of CALENDAR_PERIODS
    n: int
    is_soft: ClassVar[bool] = True

    @property
    def key(self) -> str:
        return self.period

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        number = CALENDAR_PERIODS[self.period]
        newest: dict[int, int] = {}
        for index, each in enumerate(series):
            period = number(each.at)
            known = newest.get(period)
            if known is None or each.at >= series[known].at:
                newest[period] = index
        return ((newest[period], f"{self.period} {self.n}") for period in sorted(newest)[-self.n :])

    def problems(self) -> Iterator[str]:
        yield from _not_positive(self.period, self.n)
        if self.period not in CALENDAR_PERIODS:
            yield f"calendar: the period is one of {', '.join(CALENDAR_PERIODS)}, not {self.period!r}"


@dataclass(frozen=True, slots=True)
class KeepPinned:
    """Keep pinned checkpoints. The floor does this anyway; in a policy, it only documents it."""

    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return "pinned"

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        return ((index, "pinned") for index, each in enumerate(series) if each.record.is_pinned)

    def problems(self) -> Iterator[str]:
        return iter(())


@dataclass(frozen=True, slots=True)
class KeepEverything:
    """Keep every checkpoint: `keep = "everything"`, if the site allows it.

    `because` is the reason if the user did not set it: the user's file could not be read.
    """

    because: str = field(default="", compare=False)
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return "everything"

    def keep(self, series: Sequence[Ranked], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        return _all(series, self.because or "everything")

    def problems(self) -> Iterator[str]:
        return iter(())


KEEP_RULES: dict[str, type[KeepRule]] = {
    "last": KeepLast,
    "best": KeepBest,
    "every": KeepEvery,
    "within": KeepWithin,
    "calendar": KeepCalendar,
    "pinned": KeepPinned,
    "everything": KeepEverything,
}


def _all(series: Sequence[Ranked], reason: str) -> Kept:
    return ((index, reason) for index in range(len(series)))


def _not_positive(name: str, n: int) -> Iterator[str]:
    if n < 1:
        yield f"{name}: the number to keep must be at least 1, not {n}"
