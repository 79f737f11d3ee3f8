"""Detects that the system clock was set: a step that waits for a time of day would wait longer if it was set back."""

from datetime import datetime, timedelta

MAX_DRIFT = timedelta(seconds=5)  # more difference between two readings of the clocks is a jump


class ClockWatch:
    """Compares the system clock with a monotonic one. It reads neither: both are arguments."""

    def __init__(self) -> None:
        self._last: tuple[datetime, timedelta] | None = None

    def jumped(self, now: datetime, elapsed: timedelta) -> timedelta | None:
        """Return how far the clock was set since the last call (negative: back); None if it was not set."""
        jump = self.measure(now, elapsed)
        self._last = (now, elapsed)
        return jump

    def measure(self, now: datetime, elapsed: timedelta) -> timedelta | None:
        """Return the same, and leave it to the next call of `jumped`, too."""
        if self._last is None:
            return None
        jump = (now - self._last[0]) - (elapsed - self._last[1])
        return jump if abs(jump) > MAX_DRIFT else None
