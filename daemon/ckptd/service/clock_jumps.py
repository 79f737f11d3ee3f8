"""Notices that the clock was set: what waits for an hour of the day would wait as much longer as it was set back."""

from datetime import datetime, timedelta

MAX_DRIFT = timedelta(seconds=5)  # more between two looks at the clocks is a jump


class ClockWatch:
    """Compares the clock that can be set with one that cannot. It reads neither: every call is told both."""

    def __init__(self) -> None:
        self._last: tuple[datetime, timedelta] | None = None

    def jumped(self, now: datetime, elapsed: timedelta) -> timedelta | None:
        """Return how far the clock was set since the last call, forward or, below zero, back; None where it was not."""
        last, self._last = self._last, (now, elapsed)
        if last is None:
            return None
        jump = (now - last[0]) - (elapsed - last[1])
        return jump if abs(jump) > MAX_DRIFT else None
