"""Queries beside the queue itself, which every source makes with Slurm's own programs."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime

from ckptd.core.model import EndedAttempt, Job, Maintenance, PastJobs, QueueSnapshot, Unknown
from ckptd.slurm import accounting, controller_clock, mail_user, past_jobs, reservations
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.job_requests import JobRequests
from ckptd.slurm.programs import Programs


class ProgramSource(ABC):
    """Base of sources that implement only how they read the queue."""

    def __init__(
        self, *, cluster: str | None = None, programs: Programs | None = None, only_user: str | None = None
    ) -> None:
        self._programs = programs or Programs()
        self._facts = ClusterFacts(self._programs, cluster)
        self._only_user = only_user
        self._job_requests = JobRequests()

    def read_queue(self, now: datetime) -> QueueSnapshot | Unknown:
        cluster = self._facts.read_name()
        if isinstance(cluster, Unknown):
            return cluster
        jobs = self._read_all(now, cluster)
        if isinstance(jobs, Unknown):
            return jobs
        if self._only_user is None:
            hidden = self._facts.read_hidden_jobs(job.uid for job in jobs)
            if hidden is not None:
                return hidden
        return QueueSnapshot(cluster=cluster, polled_at=now, jobs=jobs, slurm_name=self._facts.read_other_name())

    def read_ended(self, job_ids: Collection[int], since: datetime) -> tuple[EndedAttempt, ...] | Unknown:
        return accounting.read_ended(self._programs, job_ids, since, self._read_remembered)

    def read_past(self, since: datetime, until: datetime) -> PastJobs | Unknown:
        return past_jobs.read_past(self._programs, self._facts, since, until, self._only_user)

    def read_batch_script(self, job: Job, *, is_urgent: bool = False) -> str | Unknown:
        return self._job_requests.read_script(
            job, lambda: accounting.read_batch_script(self._programs, job.job_id), is_urgent=is_urgent
        )

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        return self._job_requests.ask("mail user", lambda: mail_user.read_mail_user(self._programs, job.job_id))

    def read_maintenance(self) -> tuple[Maintenance, ...] | Unknown:
        return reservations.read_maintenance(self._programs)

    def read_clock(self) -> datetime | Unknown:
        return controller_clock.read_clock(self._programs)

    def is_answering(self) -> bool:
        return accounting.is_answering(self._programs)

    @abstractmethod
    def _read_all(self, now: datetime, cluster: str) -> tuple[Job, ...] | Unknown:
        """Return every job in the queue."""

    @abstractmethod
    def _read_remembered(self, job_ids: Collection[int], now: datetime) -> tuple[Job, ...] | Unknown:
        """Return those of these jobs that slurmctld still knows."""
