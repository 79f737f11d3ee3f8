"""Pauses changes of flags after the clock was set, because ages that span the jump are wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.clock_jumps import ClockWatch
from ckptd.present.formatting import format_duration
from ckptd.steps.results import LogLine, warning

PAUSE = timedelta(hours=1)  # after which most jobs have saved by the new time
MIN_JUMP = timedelta(minutes=5)  # rules ask about longer times


@dataclass(slots=True)
class ClockPause:
    """Whether flags may change. `elapsed` is the time of a clock that nobody can set."""

    _watch: ClockWatch = field(default_factory=ClockWatch)
    _until: timedelta | None = None  # elapsed then; None: no pause

    @property
    def is_active(self) -> bool:
        return self._until is not None

    def update(self, read_elapsed: Callable[[], timedelta] | None, now: datetime) -> tuple[LogLine, ...]:
        """Begin a pause if the clock jumped since the last call, or end one; return the log lines about it.

        Call this with the time that was read last. Without `read_elapsed`, no jump is noticed.
        """
        if read_elapsed is None:
            return ()
        elapsed = read_elapsed()
        jump = self._watch.jumped(now, elapsed)
        if jump is not None and abs(jump) > MIN_JUMP:
            self._until = elapsed + PAUSE
            pause = format_duration(PAUSE)
            return (warning(f"flags paused for {pause}: the clock jumped by {jump.total_seconds():+.0f} s"),)
        if self._until is not None and elapsed >= self._until:
            self._until = None
            return (warning("flags resumed: the clock has not jumped since"),)
        return ()
