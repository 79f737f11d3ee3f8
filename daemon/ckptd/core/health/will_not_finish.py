"""Detect a job that will not reach its goal in the remaining time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast import projection
from ckptd.core.health.interface import FindingBuilder, bounded, not_whole, seconds
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class WillNotFinish:
    """Flag a job whose goal is expected after its time limit, by more than `tolerance` of the time to the goal.

    The checkpoint of the goal must be complete `margin` before the limit. The rule needs a checkpoint of the attempt.
    An open flag resolves once the goal is expected that much before the limit.
    """

    name: ClassVar[str] = "will-not-finish"
    margin: timedelta = projection.MARGIN
    tolerance: float = bounded(0.02, least=0)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or job.ends_at is None or job.time_limit is None:
                continue
            if projection.newest_save(history, attempt) is None:
                continue
            goal = projection.toward_goal(history, attempt, job.ends_at, now, margin=self.margin)
            if goal is None or goal.done_at is None:
                continue
            late = goal.done_at + self.margin - job.ends_at
            tolerance = (goal.done_at - now) * self.tolerance
            if late <= (-tolerance if facts.is_flagged(history, self.name, job) else tolerance):
                continue
            evidence: dict[str, Evidence] = {
                "unit": goal.unit,
                "goal": goal.goal,
                "reached": goal.reached,
                "fits": goal.fits,
                "time_left_seconds": seconds(max(job.ends_at - now, timedelta(0))),
                "needs_seconds": seconds(goal.done_at - now),
                "missing_seconds": math.ceil(late.total_seconds()),
                "is_declared": goal.is_declared,
                "more_jobs": goal.more_jobs,
            }
            findings.append(FindingBuilder(self.name, history).make_finding(job, Severity.INFO, evidence))
        return findings
