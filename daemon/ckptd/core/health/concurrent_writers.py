"""Detect several running jobs that share one checkpoint directory and will overwrite each other's checkpoints."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts

MAX_TOLD = 20  # other jobs in one finding: with thousands in one directory each would name thousands


@dataclass(frozen=True, slots=True)
class ConcurrentWriters:
    """Flag every job of a run while another job runs in the same checkpoint directory."""

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
        users = {user for _, user in everyone[len(own) :]} | ({history.user} if len(own) > 1 else set())
        return tuple(self._finding(history, job, everyone, users) for job in own)

    def _finding(self, history: RunHistory, job: Job, everyone: list[tuple[Job, str]], users: set[str]) -> Finding:
        # those of other users are the last
        near = [*everyone[: MAX_TOLD + 1], *everyone[-MAX_TOLD:]] if len(everyone) > 2 * MAX_TOLD else everyone
        others = [str(other.job_id) for other, _ in near if other.job_id != job.job_id]
        evidence: dict[str, Evidence] = {
            "directory": history.key.directory,
            "other_jobs": others,
            "other_job_count": len(everyone) - 1,
            "other_users": sorted(users),
        }
        return FindingBuilder(self.name, history).make_finding(job, Severity.CRITICAL, evidence)
