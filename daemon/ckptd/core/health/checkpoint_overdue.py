"""Detect a job that saved regularly and has stopped: it may hang, or its disk may be full."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.generic_job_names import is_interactive
from ckptd.core.forecast import projection
from ckptd.core.health.interface import FindingBuilder, bounded, not_whole, seconds
from ckptd.core.model import Attempt, CheckpointState, Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.improvement import saves_on_improvement
from ckptd.core.runs.resumable import list_resumable


@dataclass(frozen=True, slots=True)
class CheckpointOverdue:
    """Flag a job whose newest checkpoint is older than `factor` intervals and than `min_age`.

    At least `min_intervals` must be known, and their spread must be at most `max_spread` of the interval. If a recent
    interval was longer, the job gets that much time. An attempt without a checkpoint gets extra time: as long as
    attempts of its run needed for their first checkpoint. The flag is a warning. It is an info if the job seems to save
    only when a measured value improves, because such a job saves less and less often, at unpredictable times. The rule
    skips notebooks and shells whose checkpoints a search found, because a person decides when they save.
    """

    name: ClassVar[str] = "checkpoint-overdue"
    factor: float = 3.0
    min_age: timedelta = timedelta(minutes=15)
    min_intervals: int = 3
    max_spread: float = bounded(0.25, least=0)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        rhythm = measure_rhythm(history)
        if rhythm.interval is None or rhythm.interval_count < self.min_intervals:
            return ()
        spread = rhythm.interval_spread or timedelta(0)
        if facts.being_written(history) or spread > rhythm.interval * self.max_spread:
            return ()
        is_best_only = saves_on_improvement(list_resumable(history.checkpoints))
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or (history.located_by == "discovery" and is_interactive(job.name)):
                continue
            newest_at = max(projection.saved_until(history, attempt), _newest_damaged(history, attempt))
            longest = (rhythm.longest_recent or timedelta(0)) * (1 + self.max_spread)
            bound = max(rhythm.interval * self.factor, self.min_age, longest)
            if newest_at == attempt.started_at:
                bound += rhythm.time_to_first or timedelta(0)
            age = now - facts.idle_since(history, attempt, newest_at)
            if age <= bound:
                continue
            builder = FindingBuilder(self.name, history)
            evidence: dict[str, Evidence] = {
                "age_seconds": seconds(age),
                "bound_seconds": seconds(bound),
                "interval_seconds": seconds(rhythm.interval),
                "intervals_known": rhythm.interval_count,
                "newest_checkpoint_at": newest_at.isoformat() if newest_at != attempt.started_at else None,
                "job_id": job.job_id,
                "directory": history.key.directory,
                "located_by": history.located_by,
                "saves_on_improvement": is_best_only,
            }
            findings.append(builder.make_finding(job, Severity.INFO if is_best_only else Severity.WARNING, evidence))
        return findings


def _newest_damaged(history: RunHistory, attempt: Attempt) -> datetime:
    """Return when a damaged checkpoint was last completed: the job does save, and `damaged-checkpoint` reports it."""
    damaged = [
        each.checkpoint.modified_at
        for each in facts.finished_saves(history)
        if each.checkpoint.state is CheckpointState.DAMAGED
    ]
    return max([attempt.started_at, *damaged])
