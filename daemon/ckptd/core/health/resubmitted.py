"""A job that ckptd has submitted for one that its time limit ended, as its user asked: now they hear of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, Job, RecordedCheckpoint, Resubmitted, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.text.formatting import clean


@dataclass(frozen=True, slots=True)
class WasResubmitted:
    """Holds, as an info, for a job that ckptd has submitted for one that its time limit ended."""

    name: ClassVar[str] = "resubmitted"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        speaker = Speaker(self.name, history)
        told = ((job, history.resubmitted.get(job.job_id)) for job in history.jobs)
        return tuple(self._say(speaker, job, each, _found_by(history, job, now)) for job, each in told if each)

    def _say(self, speaker: Speaker, job: Job, told: Resubmitted, found: RecordedCheckpoint | None) -> Finding:
        progress = facts.progress(found.checkpoint) if found else None
        goes_on_from = f"{progress[0]} {progress[1]:g}" if progress else None
        evidence: dict[str, Evidence] = {
            "ended_job": told.ended_job_id,
            "resubmission_number": told.number,
            "goes_on_from": goes_on_from,
            "newest_good": str(found.checkpoint.path) if found else None,
            "remark": clean(told.remark) or None,
        }
        where = f" Its newest checkpoint then was at {goes_on_from}." if goes_on_from else ""
        remark = f" See whether it has all that it needs: {clean(told.remark)}." if told.remark else ""
        advice = (
            f"ckptd has submitted this job, because the time limit ended job {told.ended_job_id} and .ckptd.toml asks "
            f"for it to go on.{where}{remark} To end this, cancel the job and take resubmit out of .ckptd.toml."
        )
        return speaker.say(job, Severity.INFO, evidence, advice)


def _found_by(history: RunHistory, job: Job, now: datetime) -> RecordedCheckpoint | None:
    """The newest good checkpoint that a job found when it began."""
    began_at = min((each.started_at for each in history.attempts if each.job.job_id == job.job_id), default=now)
    found = facts.complete_at(history, began_at)
    return max(found, key=lambda record: record.checkpoint.modified_at, default=None)
