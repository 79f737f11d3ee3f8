"""Jobs of a federation: every cluster has a record of the job, and one of them runs it.

The other records are REVOKED, which does not end any work. Only the cluster of the submission shows the job's id; the
others show Slurm's NO_VAL. For a record that never had nodes, Slurm shows times as if the job started now.
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
    """Whether a record has a job id; records without one are another cluster's."""
    return job_id is not None and 0 < job_id < _NO_VALUE


def without_guesses(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs; remove the hypothetical times of those that never ran on this cluster."""
    return tuple(
        replace(job, started_at=None, ends_at=None) if job.state is JobState.REVOKED and not job.node_list else job
        for job in jobs
    )
