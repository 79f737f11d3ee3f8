"""Says when the clock cannot be trusted: what is deleted by one that is ahead is lost.

Three things tell: a clock that cannot be set, how long no daemon was there to see the other being set, and the clock
of Slurm's controller.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core import retention
from ckptd.core.model import Unknown
from ckptd.core.retention import Guards

COMPARE_AGAIN = timedelta(hours=1)  # with Slurm's, while they agree: between two looks a jump shows by itself

ReadClock = Callable[[], datetime | Unknown | None]

log = logging.getLogger("ckptd.steps.prune")


@dataclass(slots=True)
class ClockGuard:
    """What is known of the clock. `elapsed` is always by one that cannot be set."""

    recorded_at: datetime | None = None  # the last sign of life of the daemon before this one
    stepped_at: datetime | None = None
    stepped_on: timedelta | None = None  # elapsed then
    jump: str | None = None
    jump_until: timedelta | None = None
    deletes_from: timedelta | None = None  # after a start
    compared_on: timedelta | None = None  # the last time that Slurm told
    difference: str | None = None

    def find_doubt(self, read_clock: ReadClock | None, guards: Guards, now: datetime, elapsed: timedelta) -> str | None:
        """Return why nothing may be done by this clock, or None. To be called in every step, at its beginning."""
        self._look_for_jump(guards, now, elapsed)
        self._hold_after_start(guards, now, elapsed)
        if read_clock is None:
            self.compared_on = elapsed
        elif self.compared_on is None or self.difference or elapsed - self.compared_on >= COMPARE_AGAIN:
            self._compare(read_clock(), guards, now, elapsed)
        return self.difference or self.jump

    def may_delete(self, elapsed: timedelta) -> bool:
        """Whether what was held long enough may be deleted: not before Slurm has told its time once."""
        return self.compared_on is not None and self.deletes_from is not None and elapsed >= self.deletes_from

    def _look_for_jump(self, guards: Guards, now: datetime, elapsed: timedelta) -> None:
        """Notice that the clock was set; then nothing is done for as long as old looks are believed."""
        passed = None if self.stepped_on is None else elapsed - self.stepped_on
        reason = retention.check_clock(self.stepped_at, passed, now, guards.clock_tolerance)
        self.stepped_at, self.stepped_on = now, elapsed
        if reason:
            self.jump, self.jump_until = reason, elapsed + guards.stale_after
            log.error("prune paused for %s: %s", guards.stale_after, reason)
        elif self.jump_until is not None and elapsed >= self.jump_until:
            self.jump = self.jump_until = None

    def _hold_after_start(self, guards: Guards, now: datetime, elapsed: timedelta) -> None:
        """Set when deleting may begin.

        After a long time without a daemon, or with none on record, whoever sets clocks right is given as long as
        after a jump.
        """
        if self.deletes_from is None:
            is_gap_short = self.recorded_at is not None and abs(now - self.recorded_at) <= guards.stale_after
            self.deletes_from = elapsed if is_gap_short else elapsed + guards.stale_after
            if not is_gap_short:
                log.warning(
                    "trash deletion paused for %s: no daemon was running recently, so the clock may be wrong",
                    guards.stale_after,
                )

    def _compare(self, theirs: datetime | Unknown | None, guards: Guards, now: datetime, elapsed: timedelta) -> None:
        """Compare with Slurm's clock; while it does not answer, what it said last counts."""
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
