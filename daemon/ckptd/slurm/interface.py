"""The queries that ckptd makes about a cluster, independent of the source that answers them."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from ckptd.core.model import EndedAttempt, Job, Maintenance, PastJobs, QueueSnapshot, Unknown


class JobSource(Protocol):
    """One way to read a cluster's jobs. If the cluster does not answer, every call returns Unknown; none raises."""

    name: str

    def read_queue(self, now: datetime) -> QueueSnapshot | Unknown:
        """Return all jobs with one query. An Unknown's reason begins with a word of `failure_reasons.Trouble`."""

    def read_ended(self, job_ids: Collection[int], since: datetime) -> tuple[EndedAttempt, ...] | Unknown:
        """Return how these jobs' attempts ended, oldest first; jobs that Slurm no longer knows are omitted."""

    def read_past(self, since: datetime, until: datetime) -> PastJobs | Unknown:
        """Return the executions that ended from `since` to `until`, or to an earlier instant if there are too many.

        Unknown if the cluster has no accounting, or if it hides other users' jobs; both differ from an empty answer.
        """

    def read_batch_script(self, job: Job, *, is_urgent: bool = False) -> str | Unknown:
        """Return the job's batch script, which all tasks of an array share.

        Unknown, with a reason that begins with `FailureReason.DEFERRED`, if Slurm must not be asked yet about so many
        single jobs; urgent requests precede others.
        """

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        """Return the job's --mail-user as its user wrote it; None if it has none. Unknown as for scripts."""

    def read_maintenance(self) -> tuple[Maintenance, ...] | Unknown:
        """Return the maintenance reservations, current and future."""

    def read_clock(self) -> datetime | Unknown | None:
        """Return the time of slurmctld's clock; None if the source has no slurmctld."""

    def is_answering(self) -> bool:
        """Whether slurmctld answers a ping now."""
