"""Start and end of one execution of a job, as far as the queue shows them."""

from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, EndCause, Job, JobKey, JobState, RestartKind
from ckptd.core.runs import suspension

CAUSES = {
    JobState.COMPLETED: EndCause.COMPLETED,
    JobState.CANCELLED: EndCause.CANCEL,
    JobState.REVOKED: EndCause.REQUEUE,  # another cluster of the federation goes on with it
    JobState.TIMEOUT: EndCause.TIME_LIMIT,
    JobState.DEADLINE: EndCause.TIME_LIMIT,
    JobState.NODE_FAIL: EndCause.NODE_FAILURE,
    JobState.BOOT_FAIL: EndCause.NODE_FAILURE,
    JobState.PREEMPTED: EndCause.PREEMPTION,
    JobState.REQUEUED: EndCause.REQUEUE,
    JobState.REQUEUE_HOLD: EndCause.REQUEUE,
    JobState.SPECIAL_EXIT: EndCause.REQUEUE,
    JobState.FAILED: EndCause.FAILURE,
    JobState.OUT_OF_MEMORY: EndCause.FAILURE,
    JobState.LAUNCH_FAILED: EndCause.FAILURE,
    JobState.RECONFIG_FAIL: EndCause.FAILURE,
}
# A larger difference is no error of a clock: one whose hardware clock holds local time is wrong by hours. With munge,
# slurmctld rejects hosts whose clock differs by more than 5 minutes.
MAX_CLOCK_ERROR = timedelta(hours=3)
GUESSED_CAUSES = frozenset({EndCause.REQUEUE, EndCause.UNKNOWN})


def is_guessed(attempt: Attempt) -> bool:
    """Whether accounting may know an attempt's cause of end or suspended time better than the queue."""
    return attempt.cause in GUESSED_CAUSES or bool(attempt.suspensions)


class RestartClassifier:
    """Determines the kind of each attempt of one run in order; runs may have thousands."""

    def __init__(self) -> None:
        self._jobs: set[Hashable] = set()
        self._array: int | None = None  # of the latest attempt

    def assign(self, job: Hashable, restart_count: int, array_job_id: int | None) -> RestartKind | None:
        """Return the kind of the next attempt; None for the first of the run."""
        kind: RestartKind | None = RestartKind.RESUBMIT
        if restart_count > 0 or job in self._jobs:
            kind = RestartKind.REQUEUE
        elif not self._jobs:
            kind = None
        elif array_job_id is not None and array_job_id == self._array:
            kind = RestartKind.ARRAY
        self._jobs.add(job)
        self._array = array_job_id
        return kind


def assign_kind(earlier: tuple[Attempt, ...], attempt: Attempt) -> RestartKind | None:
    """Return the kind of an attempt, from its run's earlier attempts; None for the first of a run."""
    origins = RestartClassifier()
    for each in earlier:
        origins.assign(each.job, each.restart_count, each.array_job_id)
    return origins.assign(attempt.job, attempt.restart_count, attempt.array_job_id)


def begin(key: JobKey, restart_count: int, job: Job, started_at: datetime, at: datetime) -> Attempt:
    """Return the current execution of a job whose first poll was at `at`."""
    return Attempt(
        job=key,
        restart_count=restart_count,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        kind=RestartKind.REQUEUE if restart_count else None,
        state=job.state,
        first_seen_at=at,
        started_at=started_at,
        time_limit=job.time_limit,
        partition=job.partition or None,
        node_count=job.node_count,
        cpu_count=job.cpu_count,
        gpu_count=job.gpu_count,
    )


def has_run(job: Job) -> bool:
    """Whether an ended job ever ran: one cancelled while pending has a start, but no nodes and no duration."""
    if job.started_at is None:
        return False
    return bool(job.node_list) or (job.ends_at is not None and job.ends_at > job.started_at)


def requeue_cause(old: Job, new: Job) -> EndCause:
    """Return why a job was requeued, from its state in the queue before and after."""
    states = {old.state, new.state}
    reasons = f"{old.reason} {new.reason}".lower()
    if JobState.PREEMPTED in states or "preempt" in reasons:
        return EndCause.PREEMPTION
    if JobState.NODE_FAIL in states or "nodefail" in reasons or "node_fail" in reasons or "nodedown" in reasons:
        return EndCause.NODE_FAILURE
    return EndCause.REQUEUE


def end_of(job: Job, started_at: datetime | None, at: datetime) -> datetime:
    """Return when a job ended that a poll at `at` showed as ended; Slurm's end time if it is plausible.

    It may be later than `at`, because this host's clock may be behind Slurm's, but not if it is only planned.
    """
    ended_at = job.ends_at
    if ended_at is None or not is_plausible(ended_at, at) or (ended_at > at and _is_planned_end(job, started_at)):
        ended_at = at
    return max(ended_at, started_at) if started_at is not None and started_at <= at else ended_at


def is_plausible(slurm_time: datetime, at: datetime) -> bool:
    """Whether an instant of Slurm's clock may have passed at `at`, if this host's clock is behind."""
    return slurm_time <= at + MAX_CLOCK_ERROR


def _is_planned_end(job: Job, started_at: datetime | None) -> bool:
    """Whether the end time of an ended job may be the one at its limit, although something else ended it.

    Slurm moves the planned end of a suspended job beyond its start and limit.
    """
    started_at = job.started_at or started_at
    if CAUSES.get(job.state) is EndCause.TIME_LIMIT:
        return False
    if job.ends_at is None or started_at is None or job.time_limit is None:
        return True
    return job.ends_at >= started_at + job.time_limit


def end(attempt: Attempt, job: Job, at: datetime) -> Attempt:
    """Return the attempt with the end that its job showed in the poll at `at`."""
    cause = CAUSES.get(job.state, EndCause.UNKNOWN)
    ended_at = max(end_of(job, attempt.started_at, at), attempt.started_at)
    return suspension.close(replace(attempt, state=job.state, cause=cause, ended_at=ended_at))


def end_unknown(attempt: Attempt, at: datetime) -> Attempt:
    """Return the attempt as ended for an unknown cause, at the last instant when it was known to run."""
    state = JobState.UNKNOWN
    ended = replace(attempt, state=state, cause=EndCause.UNKNOWN, ended_at=max(at, attempt.started_at))
    return suspension.close(ended)
