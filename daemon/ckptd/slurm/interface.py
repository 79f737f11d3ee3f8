"""What ckptd asks of a cluster, whatever answers it."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from ckptd.core.model import EndedAttempt, Job, Maintenance, Past, QueueSnapshot, Unknown


class JobSource(Protocol):
    """One way to see a cluster's jobs. No call raises for a cluster that does not answer: it returns Unknown."""

    name: str

    def read_queue(self, now: datetime) -> QueueSnapshot | Unknown:
        """Return every job with one query; Unknown says whether it was down, timed out, not permitted or garbled."""

    def read_ended(self, job_ids: Collection[int], since: datetime) -> tuple[EndedAttempt, ...] | Unknown:
        """Return how these jobs' attempts ended, oldest first; jobs that nobody remembers are left out."""

    def read_past(self, since: datetime, until: datetime) -> Past | Unknown:
        """Return what accounting knows to have ended between two instants, or from the first to an earlier one.

        Unknown where there is no accounting, or where it hides others' jobs: that is not the same as none.
        """

    def read_batch_script(self, job_id: int) -> str | Unknown:
        """Return the job's batch script."""

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        """Return whom the job wants mailed, as its user wrote it; None where it names nobody."""

    def read_maintenance(self) -> tuple[Maintenance, ...] | Unknown:
        """Return the maintenance reservations, also those to come."""

    def read_clock(self) -> datetime | Unknown | None:
        """Return what time slurmctld has now; None where no slurmctld is behind the source."""

    def is_answering(self) -> bool:
        """Whether slurmctld answers a ping now."""
