"""Decides whether the system clock can be trusted, because a clock that is ahead would end holds too early.

It compares the clock with a monotonic one and with slurmctld's, and waits after a time without a daemon, in which the
clock may have been set unnoticed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core import retention
from ckptd.core.model import Unknown
from ckptd.core.retention import Guards
from ckptd.core.text.quantities import format_duration

COMPARE_AGAIN = timedelta(hours=1)  # with Slurm's, while they agree; a jump in between is found without Slurm

ReadClock = Callable[[], datetime | Unknown | None]

log = logging.getLogger("ckptd.steps.prune")


@dataclass(slots=True)
class ClockGuard:
    """Observations of the clock. `elapsed` is always the time of a monotonic clock."""

    recorded_at: datetime | None = None  # the last sign of life of the daemon before this one
    stepped_at: datetime | None = None
    stepped_on: timedelta | None = None  # elapsed then
    jump: str | None = None
    jump_until: timedelta | None = None
    deletes_from: timedelta | None = None  # after a start
    compared_on: timedelta | None = None  # when Slurm last reported its time
    difference: str | None = None

    def find_doubt(self, read_clock: ReadClock | None, guards: Guards, now: datetime, elapsed: timedelta) -> str | None:
        """Return why the clock cannot be trusted, or None. Call this at the beginning of every step."""
        self._look_for_jump(guards, now, elapsed)
        self._hold_after_start(guards, now, elapsed)
        if read_clock is None:
            self.compared_on = elapsed
        elif self.compared_on is None or self.difference or elapsed - self.compared_on >= COMPARE_AGAIN:
            self._compare(read_clock(), guards, now, elapsed)
        return self.difference or self.jump

    def may_delete(self, elapsed: timedelta) -> bool:
        """Whether entries whose hold has ended may be deleted: not before slurmctld's time was read once."""
        return self.compared_on is not None and self.deletes_from is not None and elapsed >= self.deletes_from

    def _look_for_jump(self, guards: Guards, now: datetime, elapsed: timedelta) -> None:
        """Detect that the clock was set; then wait for `stale_after`, until older scans and polls no longer count."""
        passed = None if self.stepped_on is None else elapsed - self.stepped_on
        reason = retention.check_clock(self.stepped_at, passed, now, guards.clock_tolerance)
        self.stepped_at, self.stepped_on = now, elapsed
        if reason:
            self.jump, self.jump_until = reason, elapsed + guards.stale_after
            log.error("prune paused for %s: %s", format_duration(guards.stale_after), reason)
        elif self.jump_until is not None and elapsed >= self.jump_until:
            self.jump = self.jump_until = None

    def _hold_after_start(self, guards: Guards, now: datetime, elapsed: timedelta) -> None:
        """Set when deleting may start.

        After a long time without a daemon, or if none is recorded, wait as long as after a jump, so that the clock can
        be corrected first.
        """
        if self.deletes_from is None:
            is_gap_short = self.recorded_at is not None and abs(now - self.recorded_at) <= guards.stale_after
            self.deletes_from = elapsed if is_gap_short else elapsed + guards.stale_after
            if not is_gap_short:
                log.warning(
                    "trash deletion paused for %s: no daemon was running recently, so the clock may be wrong",
                    format_duration(guards.stale_after),
                )

    def _compare(self, theirs: datetime | Unknown | None, guards: Guards, now: datetime, elapsed: timedelta) -> None:
        """Compare with slurmctld's clock; while it does not answer, the last comparison counts."""
        before = self.difference
        if isinstance(theirs, Unknown):
            if self.compared_on is None:
                log.warning("trash deletion paused until Slurm reports its time: %s", theirs.reason)
            return
        self.compared_on = elapsed
        self.difference = None if theirs is None else retention.compare_clocks(now, theirs, guards.clock_tolerance)
        if self.difference and not before:
            log.error("prune paused: %s", self.difference)
        elif before and not self.difference:
            log.warning("prune resumed: the clock agrees with Slurm's again")
