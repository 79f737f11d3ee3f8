"""Detect work that will be lost at the time limit because no further checkpoint will be complete before it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast import projection, risk
from ckptd.core.health.interface import FindingBuilder, bounded, not_whole, seconds
from ckptd.core.model import Attempt, Evidence, Finding, Job, RunHistory, Scan, Severity, Unknown
from ckptd.core.model.save_cadence import SaveCadence
from ckptd.core.queue import maintenance
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm


@dataclass(frozen=True, slots=True)
class AtRisk:
    """Flag work lost at the time limit when at most `notice_saves` more checkpoints are expected before it.

    A checkpoint must be complete `margin` before the limit to count. The flag opens while the user can still act, at
    least one interval ahead, and only if the loss is at least `min_loss` and `min_loss_share` of the limit. An open
    flag stays open down to half of these, and while an expected save is late. Its severity is info until the
    probability of the loss reaches `min_chance`, because many jobs end before their limit. It is critical once the loss
    is certain: less time is left than saving takes, and no save is being written. A maintenance reservation of the
    job's nodes counts as a limit, but the loss is then never certain.
    """

    name: ClassVar[str] = "at-risk"
    margin: timedelta = projection.MARGIN
    min_loss: timedelta = timedelta(minutes=5)
    min_loss_share: float = bounded(0.01, least=0, most=1)
    notice_saves: int = bounded(1, least=0)
    min_chance: float = bounded(0.98, least=0, most=1)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        findings = (self._judge(history, job, now) for job in facts.running_jobs(history))
        return tuple(finding for finding in findings if finding)

    def _judge(self, history: RunHistory, job: Job, now: datetime) -> Finding | None:
        attempt = facts.attempt_of(history, job)
        end = maintenance.next_end(history, job, now)
        if attempt is None or end is None:
            return None
        ends_at, reservation = end
        time_left = max(ends_at - now, timedelta(0))
        min_loss = worth_telling = max(self.min_loss, (job.time_limit or timedelta(0)) * self.min_loss_share)
        notice_saves = self.notice_saves
        is_open = facts.is_flagged(history, self.name, job)
        if is_open:
            min_loss, notice_saves = min_loss / 2, notice_saves + 1
        expected = projection.at_limit(
            history, attempt, ends_at, now, margin=self.margin, is_strict=is_open, most_saves=notice_saves + 1
        )
        if expected is None or expected.saves_that_fit > notice_saves or expected.lost < min_loss:
            return None
        rhythm = measure_rhythm(history)
        interval = rhythm.step_interval or timedelta(0)
        if expected.saves_that_fit == 0 and time_left > interval * (self.notice_saves + 1):
            return None  # it has stopped saving, long before its limit: another rule's
        asked = history.context.signals.get(job.job_id)
        is_saver = reservation is None and projection.saves_before_limit(
            history, tolerance=worth_telling, asked=asked, is_signalled=job.job_id in history.context.signalled
        )
        due_at = (
            projection.save_due_at(ends_at, history.context.signalled.get(job.job_id), asked, rhythm)
            if is_saver
            else None
        )
        is_certain = expected.lost >= worth_telling and self._is_certain(history, ends_at, rhythm, due_at)
        if not is_certain and (is_saver or self._reaches_goal(history, attempt, ends_at, now)):
            return None
        chance = risk.running_on(history, attempt, ends_at, now, margin=self.margin)
        chance *= risk.losing(expected, rhythm, ends_at, now, worth_telling)
        if reservation is None:
            chance *= risk.not_saving_at_the_end(history, tolerance=worth_telling, asked=asked)
        severity = Severity.WARNING if chance >= self.min_chance else Severity.INFO
        severity = Severity.CRITICAL if is_certain and reservation is None else severity
        evidence = {**self._evidence(job, expected, rhythm, time_left, now), "chance": round(chance, 3)}
        evidence["is_certain"] = severity is Severity.CRITICAL
        evidence["asked_signal"] = asked.word if asked else None
        evidence["asked_signal_seconds"] = asked.lead_seconds if asked else None
        evidence["missing_seconds"] = self._count_missing(expected, ends_at, rhythm)
        evidence["maintenance"] = reservation.name if reservation else None
        evidence["maintenance_at"] = ends_at.isoformat() if reservation else None
        return FindingBuilder(self.name, history).make_finding(job, severity, evidence)

    def _is_certain(self, history: RunHistory, ends_at: datetime, rhythm: SaveCadence, due_at: datetime | None) -> bool:
        """Return whether, as of the last scan, no further checkpoint can be complete before the limit.

        A checkpoint that no scan saw being written is short, so one that follows a signal is possible until it is due.
        """
        assert isinstance(history.scan, Scan)
        if facts.being_written(history):
            return False
        scanned_at = history.scan.scanned_at
        if rhythm.least_save_time:
            return ends_at - scanned_at <= rhythm.least_save_time
        return ends_at - scanned_at <= self.margin and (due_at is None or scanned_at >= due_at)

    def _reaches_goal(self, history: RunHistory, attempt: Attempt, ends_at: datetime, now: datetime) -> bool:
        goal = projection.toward_goal(history, attempt, ends_at, now, margin=self.margin)
        return goal is not None and goal.done_at is not None and goal.done_at + self.margin <= ends_at

    def _evidence(
        self, job: Job, expected: projection.LimitForecast, rhythm: SaveCadence, time_left: timedelta, now: datetime
    ) -> dict[str, Evidence]:
        return {
            "time_left_seconds": seconds(time_left),
            "next_checkpoint_in_seconds": seconds(expected.next_at - now),
            "saves_that_fit": expected.saves_that_fit,
            "interval_seconds": seconds(rhythm.interval),
            "interval_spread_seconds": seconds(rhythm.interval_spread),
            "intervals_known": rhythm.interval_count,
            "save_seconds": seconds(rhythm.save_time),
            "will_be_lost_seconds": seconds(expected.lost),
            "signal_seconds": signal_seconds(rhythm.save_time, self.margin, job.time_limit),
        }

    def _count_missing(self, expected: projection.LimitForecast, ends_at: datetime, rhythm: SaveCadence) -> int:
        """Return how many seconds the job would need after its limit to save once more."""
        once_more_at = expected.next_at + (rhythm.step_interval or timedelta(0)) * expected.saves_that_fit
        return math.ceil((once_more_at + self.margin - ends_at).total_seconds())


def signal_seconds(save_time: timedelta | None, margin: timedelta, limit: timedelta | None = None) -> int:
    """Return how many seconds before its limit a job should be signalled; 600 while the save duration is unknown.

    The result is 1.5 times the measured save duration plus the margin, plus 60 s because slurmctld checks limits about
    every 30 s. It is at most half of the limit, because Slurm would send an earlier signal at the start.
    """
    needed = 600
    if save_time is not None:
        needed = int(save_time.total_seconds() * projection.SAVE_MARGIN + margin.total_seconds()) + 60
    return needed if limit is None else min(needed, int(limit.total_seconds() / 2))
