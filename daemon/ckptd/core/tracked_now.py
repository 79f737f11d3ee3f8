"""Replaces `now`, or the time of a scan, by a value that records until when a decision made with it stays the same.

Decisions compare `now` with other instants and durations. Each such comparison keeps its result until a known instant;
the earliest of these is when the decision must be made again. An operation that cannot be tracked, such as a conversion
to text or to a float, makes the decision due at once: its result is right, but valid only now. The classes are no
subclasses of `datetime` and `timedelta`, whose own arithmetic would silently return untracked values.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

ZERO = timedelta(0)


@dataclass(slots=True)
class Validity:
    """From when on the comparisons so far may turn out differently; None: never."""

    now: datetime
    until: datetime | None = field(default=None)

    def end_in(self, delay: timedelta) -> None:
        """Note that a comparison may turn out differently after a delay."""
        try:
            at = self.now + delay
        except OverflowError:
            return  # beyond any calendar
        if self.until is None or at < self.until:
            self.until = at

    def end_at_once(self) -> None:
        """Note that a result is right for `now` alone."""
        self.end_in(ZERO)


def track(now: datetime, validity: Validity) -> datetime:
    """Return a stand-in for `now`; it has a datetime's arithmetic and comparisons."""
    return cast("datetime", TrackedInstant(now, 1.0, validity))


class _Tracked:
    """A value that changes by `slope` seconds a second.

    Values of two clocks, such as the time and a scan's, do not mix: what compares them is right for both as they are.
    """

    __slots__ = ("slope", "validity", "value")

    def __init__(self, value: Any, slope: float, validity: Validity) -> None:
        self.value = value
        self.slope = slope
        self.validity = validity

    def __getattr__(self, name: str) -> Any:
        self.validity.end_at_once()
        return getattr(self.value, name)

    def __hash__(self) -> int:
        raise TypeError("a value that changes with the time has no hash")

    def __str__(self) -> str:
        self.validity.end_at_once()
        return str(self.value)

    def __format__(self, form: str) -> str:
        self.validity.end_at_once()
        return format(self.value, form)

    def _difference(self, other: object) -> Any:
        """Return this minus another value of the same kind; NotImplemented for anything else."""
        raise NotImplementedError

    def _is_of_another_clock(self, other: "_Tracked") -> bool:
        """Whether both are of different clocks; if so, note that a result of both is right only as they are."""
        if other.validity is self.validity:
            return False
        self.validity.end_at_once()
        other.validity.end_at_once()
        return True

    def _compare(self, other: object) -> timedelta:
        """Return the difference as of now, and note when its sign changes."""
        difference = self._difference(other)
        if difference is NotImplemented:
            raise TypeError(f"cannot compare an instant or duration with {other!r}")
        if not isinstance(difference, TrackedSpan):
            return cast("timedelta", difference)
        if difference.value == ZERO:
            self.validity.end_at_once()
        elif (difference.value > ZERO) != (difference.slope > 0):
            seconds = abs(difference.value.total_seconds() / difference.slope)
            # a microsecond early: floats and timedeltas round
            self.validity.end_in(timedelta.max if seconds > 1e13 else timedelta(seconds=seconds, microseconds=-1))
        return cast("timedelta", difference.value)

    def __lt__(self, other: object) -> bool:
        return self._compare(other) < ZERO

    def __le__(self, other: object) -> bool:
        return self._compare(other) <= ZERO

    def __gt__(self, other: object) -> bool:
        return self._compare(other) > ZERO

    def __ge__(self, other: object) -> bool:
        return self._compare(other) >= ZERO

    def __eq__(self, other: object) -> bool:
        if self._difference(other) is NotImplemented:
            return False
        return self._compare(other) == ZERO

    def __ne__(self, other: object) -> bool:
        return not self == other


class TrackedInstant(_Tracked):
    """An instant that moves with the time, such as `now` or `now + duration`."""

    __slots__ = ()

    def _difference(self, other: object) -> Any:
        if isinstance(other, TrackedInstant):
            if self._is_of_another_clock(other):
                return self.value - other.value
            return _span(self.value - other.value, self.slope - other.slope, self.validity)
        if isinstance(other, datetime):
            return _span(self.value - other, self.slope, self.validity)
        return NotImplemented

    def __add__(self, other: object) -> Any:
        if isinstance(other, TrackedSpan):
            if self._is_of_another_clock(other):
                return self.value + other.value
            return _instant(self.value + other.value, self.slope + other.slope, self.validity)
        if isinstance(other, timedelta):
            return TrackedInstant(self.value + other, self.slope, self.validity)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        if isinstance(other, TrackedSpan | timedelta):
            return self + -other
        return self._difference(other)

    def __rsub__(self, other: object) -> Any:
        if isinstance(other, datetime):
            return _span(other - self.value, -self.slope, self.validity)
        return NotImplemented


class TrackedSpan(_Tracked):
    """A duration that grows or shrinks with the time, such as an age."""

    __slots__ = ()

    def _difference(self, other: object) -> Any:
        if isinstance(other, TrackedSpan):
            if self._is_of_another_clock(other):
                return self.value - other.value
            return _span(self.value - other.value, self.slope - other.slope, self.validity)
        if isinstance(other, timedelta):
            return _span(self.value - other, self.slope, self.validity)
        return NotImplemented

    def __bool__(self) -> bool:
        return self != ZERO

    def __neg__(self) -> "TrackedSpan":
        return TrackedSpan(-self.value, -self.slope, self.validity)

    def __abs__(self) -> "TrackedSpan":
        return -self if self < ZERO else self

    def __add__(self, other: object) -> Any:
        if isinstance(other, TrackedSpan):
            if self._is_of_another_clock(other):
                return self.value + other.value
            return _span(self.value + other.value, self.slope + other.slope, self.validity)
        if isinstance(other, timedelta):
            return TrackedSpan(self.value + other, self.slope, self.validity)
        if isinstance(other, datetime):
            return TrackedInstant(other + self.value, self.slope, self.validity)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        return self._difference(other)

    def __rsub__(self, other: object) -> Any:
        return -self + other if isinstance(other, timedelta | datetime) else NotImplemented

    def __mul__(self, factor: object) -> Any:
        if isinstance(factor, int | float):
            return _span(self.value * factor, self.slope * factor, self.validity)
        return NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Any:
        if isinstance(other, int | float):
            return _span(self.value / other, self.slope / other, self.validity)
        self.validity.end_at_once()
        return self.value / _value_of(other)

    def __rtruediv__(self, other: object) -> Any:
        self.validity.end_at_once()
        return _value_of(other) / self.value

    def __floordiv__(self, other: object) -> Any:
        self.validity.end_at_once()
        return self.value // _value_of(other)

    def __mod__(self, other: object) -> Any:
        self.validity.end_at_once()
        return self.value % _value_of(other)


def read_seconds(duration: timedelta) -> float:
    """Return a duration as of now, tracked or not, for what nothing depends on or what is compared as well."""
    value: object = duration
    return cast("timedelta", value.value if isinstance(value, TrackedSpan) else value).total_seconds()


def _value_of(value: object) -> Any:
    return value.value if isinstance(value, _Tracked) else value


def _span(value: timedelta, slope: float, validity: Validity) -> TrackedSpan | timedelta:
    return TrackedSpan(value, slope, validity) if slope else value


def _instant(value: datetime, slope: float, validity: Validity) -> TrackedInstant | datetime:
    return TrackedInstant(value, slope, validity) if slope else value
