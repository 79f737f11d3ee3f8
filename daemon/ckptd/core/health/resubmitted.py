"""Report a job that ckptd submitted, as its user asked, after an earlier job reached its time limit."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import Evidence, Finding, Job, RecordedCheckpoint, Resubmission, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class WasResubmitted:
    """Flag, as info, a job that ckptd submitted to continue a timed-out one."""

    name: ClassVar[str] = "resubmitted"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        builder = FindingBuilder(self.name, history)
        resubmissions = ((job, history.context.resubmitted.get(job.job_id)) for job in history.jobs)
        return tuple(
            self._make_finding(builder, job, each, _found_by(history, job, now)) for job, each in resubmissions if each
        )

    def _make_finding(
        self, builder: FindingBuilder, job: Job, resubmission: Resubmission, found: RecordedCheckpoint | None
    ) -> Finding:
        progress = facts.progress(found.checkpoint) if found else None
        goes_on_from = f"{progress[0]} {progress[1]:.12g}" if progress else None
        evidence: dict[str, Evidence] = {
            "ended_job": resubmission.ended_job_id,
            "resubmission_number": resubmission.number,
            "goes_on_from": goes_on_from,
            "newest_good": str(found.checkpoint.path) if found else None,
            "has_submit_line": resubmission.has_submit_line,
        }
        return builder.make_finding(job, Severity.INFO, evidence)


def _found_by(history: RunHistory, job: Job, now: datetime) -> RecordedCheckpoint | None:
    """Return the newest complete checkpoint when the job started."""
    of_job = (each for each in history.attempts if (each.job.cluster, each.job.job_id) == (job.cluster, job.job_id))
    began_at = min((each.started_at for each in of_job), default=now)
    found = facts.complete_at(history, began_at)
    return max(found, key=lambda record: record.checkpoint.modified_at, default=None)
