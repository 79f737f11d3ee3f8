"""Jobs of a federation, of which every cluster holds a record while one of them runs it.

The other records are REVOKED, which is no end of any work. Slurm shows the job's number on the cluster where it was
submitted alone, elsewhere as its word for "no value"; and of a record that never had nodes it shows, as times, what
they would be if it began now.
"""

from collections.abc import Iterable
from dataclasses import replace

from ckptd.core.model import Job, JobState

_FIRST_FEDERATED = 1 << 26  # a federated job's number has that of its cluster in the bits from here on
_NO_VALUE = 0xFFFFFFFE


def is_federated(job_id: int) -> bool:
    """Whether a job was submitted to a federation."""
    return job_id >= _FIRST_FEDERATED


def has_number(job_id: int | None) -> bool:
    """Whether a record names its job; what has no number is another cluster's."""
    return job_id is not None and 0 < job_id < _NO_VALUE


def without_guesses(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs, those that never ran here without the times at which they might have."""
    return tuple(
        replace(job, started_at=None, ends_at=None) if job.state is JobState.REVOKED and not job.node_list else job
        for job in jobs
    )
