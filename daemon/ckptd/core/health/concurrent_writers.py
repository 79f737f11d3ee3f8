"""Detect several running jobs that save into one checkpoint directory and may overwrite each other's checkpoints."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.shared_directory import Sharing, judge_sharing, list_jobs_to_tell

MAX_TOLD = 20  # other jobs in one finding: with thousands in one directory each would name thousands


@dataclass(frozen=True, slots=True)
class ConcurrentWriters:
    """Flag the jobs of a run while another job runs in the same checkpoint directory: one task of each array.

    The flag is critical once the saves show that one job overwrites the checkpoints of another, and a warning until
    then. No flag opens if the saves show that each job uses names of its own.
    """

    name: ClassVar[str] = "concurrent-writers"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        if not history.key.is_located:
            return ()
        own = facts.running_jobs(history)
        everyone = [(job, history.user) for job in own]
        everyone += [(job, user) for job, user in history.other_writers if job.is_running]
        # the parts of one heterogeneous job write together on purpose
        if len({(job.cluster, job.het_job_id or job.job_id) for job, _ in everyone}) < 2:
            return ()
        sharing = judge_sharing(history, [job for job, _ in everyone[len(own) :]])
        if sharing is Sharing.IS_SEPARATE:
            return ()
        users = {user for _, user in everyone[len(own) :]} | ({history.user} if len(own) > 1 else set())
        told = list_jobs_to_tell(history, self.name, own)
        return tuple(self._finding(history, job, everyone, users, sharing) for job in told)

    def _finding(
        self, history: RunHistory, job: Job, everyone: list[tuple[Job, str]], users: set[str], sharing: Sharing
    ) -> Finding:
        # those of other users are the last
        near = [*everyone[: MAX_TOLD + 1], *everyone[-MAX_TOLD:]] if len(everyone) > 2 * MAX_TOLD else everyone
        name = (job.cluster, job.job_id)
        others = [other.slurm_name for other, _ in near if (other.cluster, other.job_id) != name]
        evidence: dict[str, Evidence] = {
            "directory": history.key.directory,
            "other_jobs": others,
            "other_job_count": len(everyone) - 1,
            "other_users": sorted(users),
            "has_overwritten": sharing is Sharing.COLLIDES,
        }
        severity = Severity.CRITICAL if sharing is Sharing.COLLIDES else Severity.WARNING
        return FindingBuilder(self.name, history).make_finding(job, severity, evidence)
