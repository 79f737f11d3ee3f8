"""Two jobs that run in one checkpoint directory at once and will write over each other."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core import history as facts
from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown


@dataclass(frozen=True, slots=True)
class ConcurrentWriters:
    """Holds for every job of the run while another job runs in the same directory."""

    name: ClassVar[str] = "concurrent-writers"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        if not history.key.is_located:
            return ()
        own = facts.running_jobs(history)
        everyone = [(job, history.user) for job in own]
        everyone += [(job, user) for job, user in history.other_writers if job.is_running]
        # the parts of one heterogeneous job write together on purpose
        if len({job.het_job_id or job.job_id for job, _ in everyone}) < 2:
            return ()
        return tuple(self._finding(history, job, everyone) for job in own)

    def _finding(self, history: RunHistory, job: Job, everyone: list[tuple[Job, str]]) -> Finding:
        others = [(other, user) for other, user in everyone if other.job_id != job.job_id]
        evidence: dict[str, Evidence] = {
            "directory": history.key.directory,
            "other_jobs": [str(other.job_id) for other, _ in others],
            "other_users": sorted({user for _, user in others}),
        }
        strangers = sorted({user for _, user in others} - {history.user})
        advice = (
            "Two running jobs share this checkpoint directory and will write over each other. Cancel one, or give each "
            "its own directory, for example one with $SLURM_JOB_ID or $SLURM_ARRAY_TASK_ID in it."
        )
        if strangers:
            advice += f" The other one is of {', '.join(strangers)}, who is told as well."
        return Speaker(self.name, history).say(job, Severity.CRITICAL, evidence, advice)
