"""The keep rules: each is one reason to keep a save. Nothing here can be a reason to remove one."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest
from typing import ClassVar, NamedTuple, Protocol

from ckptd.core.model import RecordedCheckpoint

Placed = tuple[str, RecordedCheckpoint]  # a checkpoint's path as text, and what is on record of it
KindKey = tuple[str, str, str]  # directory, format, pattern of the name
Part = tuple[str, RecordedCheckpoint, KindKey]  # with its kind


class Save(NamedTuple):
    """All the checkpoints that one save left together; mostly one, several where parts lie in files of their own.

    The first four fields are the order of saves, oldest first.
    """

    rank: int  # of its attempt, by start
    progress: float  # what its attempt counts by: step or epoch, 0 where that is time
    at: datetime  # when its last byte was written
    path: str  # of its first part
    lineage: int  # rises each time that an attempt began below what was already reached
    seen_at: datetime  # when the last part of it was first seen
    step: int | None
    epoch: float | None
    is_whole: bool  # every part of it is complete
    is_in_series: bool  # others of its kind are there; what is alone of its kind is kept, and counts in no rule
    parts: Sequence[Part]

    def metric(self, name: str) -> float:
        """Return a metric's value by the first part that tells it; NaN where none does."""
        for _, record, _ in self.parts:
            if (value := record.checkpoint.metrics.get(name)) is not None:
                return value
        return math.nan

    @property
    def is_best(self) -> bool:
        return any(record.checkpoint.is_best for _, record, _ in self.parts)


Kept = Iterator[tuple[int, str]]


class KeepRule(Protocol):
    """One reason to keep. `is_soft`: `max_total_size` may overrule it, oldest saves first."""

    is_soft: ClassVar[bool]

    @property
    def key(self) -> str:
        """What two rules of one policy must not share."""

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:
        """Yield the index and the reason of each save that the rule keeps; `saves` are whole ones, oldest first."""

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each thing that is wrong with the rule itself."""


@dataclass(frozen=True, slots=True)
class KeepLast:
    """Keep the newest `n` saves, by the run's own progress."""

    n: int
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return "last"

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        reason = f"last {self.n}"
        return ((index, reason) for index in range(max(0, len(saves) - self.n), len(saves)))

    def problems(self) -> Iterator[str]:
        return _not_positive("last", self.n)


@dataclass(frozen=True, slots=True)
class KeepBest:
    """Keep the best `n` saves: those that the format's own marker names, or by a metric, the newer of equal ones.

    With a metric that no save has, every save is kept: a misspelt name must not empty a directory.
    """

    n: int
    metric: str | None = None  # None: by the format's marker
    mode: str | None = None  # "min" or "max", of a metric
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"best by {self.metric}" if self.metric else "best"

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        if self.metric is None:
            named = [index for index, save in enumerate(saves) if save.is_best]
            return ((index, f"best {self.n} by the format's marker") for index in named[-self.n :])
        sign = -1 if self.mode == "min" else 1
        measured = [
            (sign * value, index)
            for index, save in enumerate(saves)
            if math.isfinite(value := save.metric(self.metric))
        ]
        if not measured:
            return _all(saves, f"no checkpoint tells {self.metric}, by which the best are chosen")
        return ((index, f"best {self.n} by {self.mode} {self.metric}") for _, index in nlargest(self.n, measured))

    def problems(self) -> Iterator[str]:
        yield from _not_positive(self.key, self.n)
        if self.metric is not None and self.mode not in {"min", "max"}:
            yield f"{self.key}: say whether the smallest ('min') or the largest ('max') is best, not {self.mode!r}"
        if self.metric is None and self.mode is not None:
            yield f"best: mode {self.mode!r} needs a metric"


@dataclass(frozen=True, slots=True)
class KeepEvery:
    """Keep the first save of every `n` epochs or steps, in each lineage of attempts.

    Where no save tells its epoch or step, every save is kept.
    """

    n: int
    unit: str  # "epochs" or "steps"
    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return f"every {self.unit}"

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        first: dict[tuple[int, float], tuple[float, int]] = {}
        is_step = self.unit == "steps"
        for index, save in enumerate(saves):
            value = save.step if is_step else save.epoch
            if value is None or not math.isfinite(value):
                continue
            bucket = (save.lineage, value // self.n)
            known = first.get(bucket)
            if known is None or value < known[0] or (value == known[0] and save.at < saves[known[1]].at):
                first[bucket] = (value, index)
        if not first:
            return _all(saves, f"no checkpoint tells its {self.unit}, by which one of every {self.n} is chosen")
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

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:
        reason = f"within {self.duration}"
        start = now - self.duration
        return ((index, reason) for index, save in enumerate(saves) if save.at >= start)

    def problems(self) -> Iterator[str]:
        if self.duration <= timedelta(0):
            yield f"within: the duration must be positive, not {self.duration}"


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
    """Keep the newest save of each of the `n` most recent hours, days, weeks or months (UTC) that have one."""

    period: str  # of CALENDAR_PERIODS
    n: int
    is_soft: ClassVar[bool] = True

    @property
    def key(self) -> str:
        return self.period

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        number = CALENDAR_PERIODS[self.period]
        newest: dict[int, int] = {}
        for index, save in enumerate(saves):
            period = number(save.at)
            known = newest.get(period)
            if known is None or save.at >= saves[known].at:
                newest[period] = index
        return ((newest[period], f"{self.period} {self.n}") for period in sorted(newest)[-self.n :])

    def problems(self) -> Iterator[str]:
        yield from _not_positive(self.period, self.n)
        if self.period not in CALENDAR_PERIODS:
            yield f"calendar: the period is one of {', '.join(CALENDAR_PERIODS)}, not {self.period!r}"


@dataclass(frozen=True, slots=True)
class KeepPinned:
    """Keep what someone pinned. The floor does so anyway; written in a policy it says so to its readers."""

    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return "pinned"

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        return (
            (index, "pinned")
            for index, save in enumerate(saves)
            if any(record.is_pinned for _, record, _ in save.parts)
        )

    def problems(self) -> Iterator[str]:
        return iter(())


@dataclass(frozen=True, slots=True)
class KeepEverything:
    """Keep every save: `keep = "everything"`, where the site lets users say so."""

    is_soft: ClassVar[bool] = False

    @property
    def key(self) -> str:
        return "everything"

    def keep(self, saves: Sequence[Save], now: datetime) -> Kept:  # noqa: ARG002 - the protocol's
        return _all(saves, "everything")

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


def _all(saves: Sequence[Save], reason: str) -> Kept:
    return ((index, reason) for index in range(len(saves)))


def _not_positive(name: str, n: int) -> Iterator[str]:
    if n < 1:
        yield f"{name}: the number to keep must be at least 1, not {n}"
