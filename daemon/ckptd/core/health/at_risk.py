"""Work that the time limit will take, because no further checkpoint will be complete before it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core import forecast
from ckptd.core import history as facts
from ckptd.core.model import Attempt, Finding, Job, RunHistory, Severity, Unknown


@dataclass(frozen=True, slots=True)
class AtRisk:
    """Holds when the time left is less than the time until the next checkpoint is expected to be complete.

    Critical once certain: less time left than a save alone takes with its margin, with at least
    `min_loss` of work unsaved.
    """

    name: ClassVar[str] = "at-risk"
    margin: timedelta = timedelta(seconds=60)
    min_loss: timedelta = timedelta(minutes=5)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not facts.was_read_whole(history):
            return Unknown(what=self.name, reason="the checkpoint directory was not read whole")
        findings = (self._judge(history, job, now) for job in facts.running_jobs(history))
        return tuple(finding for finding in findings if finding)

    def _judge(self, history: RunHistory, job: Job, now: datetime) -> Finding | None:
        attempt = facts.attempt_of(history, job)
        if attempt is None or job.time_limit is None or job.ends_at is None:
            return None
        time_left = max(job.ends_at - now, timedelta(0))
        rhythm = forecast.measure_rhythm(history)
        expected_at = forecast.next_checkpoint_at(history, attempt, now)
        unsaved_at_limit = job.ends_at - self._saved_until(history, attempt)
        if expected_at is None or unsaved_at_limit < self.min_loss:
            return None
        if expected_at + self.margin <= job.ends_at:
            return None
        save_time = rhythm.save_time or timedelta(0)
        is_certain = time_left <= save_time + self.margin
        return Finding(
            rule=self.name,
            severity=Severity.CRITICAL if is_certain else Severity.WARNING,
            run=history.key,
            job_id=job.job_id,
            user=history.user,
            evidence={
                "time_left_seconds": int(time_left.total_seconds()),
                "next_checkpoint_in_seconds": int((expected_at - now).total_seconds()),
                "interval_seconds": int(rhythm.interval.total_seconds()) if rhythm.interval else None,
                "save_seconds": int(rhythm.save_time.total_seconds()) if rhythm.save_time else None,
                "will_be_lost_seconds": int(unsaved_at_limit.total_seconds()),
            },
            advice=(
                "The next checkpoint will not be complete before the time limit. Let Slurm warn the job early enough "
                f"to save: #SBATCH --signal=B:USR1@{_signal_seconds(save_time, self.margin)}, "
                "or save more often; an administrator can extend this job's limit."
            ),
        )

    def _saved_until(self, history: RunHistory, attempt: Attempt) -> datetime:
        newest = forecast.newest_save(history, attempt)
        return newest.completed_at if newest and newest.completed_at else attempt.started_at


def _signal_seconds(save_time: timedelta, margin: timedelta) -> int:
    """Slurm may send the signal up to a minute early and acts about every 30 s, so 60 s come on top."""
    return int(save_time.total_seconds() * 1.5 + margin.total_seconds()) + 60
