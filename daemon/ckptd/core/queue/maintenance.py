"""Effects of a maintenance reservation on the jobs on its nodes: a possible end, and no evaluation while it lasts.

Slurm starts no job that would overlap with one. Jobs that are running when it is created (IGNORE_JOBS) continue, also
when it begins; they end when administrators take the nodes down. Measured with Slurm 22.05.8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, EndCause, Job, Maintenance, RunHistory
from ckptd.core.queue import JobChanges, TrackedJob
from ckptd.core.text import hostlist

GRACE = timedelta(minutes=30)  # after one, until file systems and jobs are as they were
LEEWAY = timedelta(minutes=5)  # before one, in which nodes are taken down already
EXCUSED = frozenset({EndCause.NODE_FAILURE, EndCause.REQUEUE, EndCause.PREEMPTION})


def remember(known: Sequence[Maintenance], reported: Sequence[Maintenance], now: datetime) -> tuple[Maintenance, ...]:
    """Return the current reservations, and for GRACE the earlier ones, because Slurm drops each when it ends.

    One that was cancelled before its start is dropped immediately. One that disappeared before its end ended now.
    """
    still = {(each.name, each.begins_at) for each in reported}
    over = (
        each._replace(ends_at=min(each.ends_at, now))
        for each in known
        if each.begins_at <= now and (each.name, each.begins_at) not in still
    )
    return (*reported, *(each for each in over if now < each.ends_at + GRACE))


def concerning(job: Job, every: Sequence[Maintenance]) -> tuple[Maintenance, ...]:
    """Return the reservations with a node of the job, in the order of their start."""
    if not every:
        return ()
    nodes = hostlist.expand(job.node_list) if job.node_list else frozenset[str]()
    return tuple(sorted((each for each in every if each.nodes & nodes), key=lambda each: each.begins_at))


def is_under_way(history: RunHistory, now: datetime) -> bool:
    """Whether a node of a job of the run is in maintenance, or was recently."""
    return any(
        each.begins_at <= now < each.ends_at + GRACE
        for job in history.jobs
        for each in concerning(job, history.context.maintenance)
    )


def next_end(history: RunHistory, job: Job, now: datetime) -> tuple[datetime, Maintenance | None] | None:
    """Return when a job may end, and the maintenance if that comes before its limit; None if neither applies."""
    limit = job.ends_at if job.time_limit is not None else None
    coming = [each for each in concerning(job, history.context.maintenance) if each.begins_at > now]
    if coming and (limit is None or coming[0].begins_at < limit):
        return coming[0].begins_at, coming[0]
    return None if limit is None else (limit, None)


def excuse(changes: JobChanges, before: Mapping[int, TrackedJob], every: Sequence[Maintenance]) -> JobChanges:
    """Set maintenance as the cause of ends on reserved nodes; `before` has the nodes of the jobs."""
    if not every:
        return changes

    def judge(attempt: Attempt) -> Attempt:
        known = before.get(attempt.job.job_id)
        if attempt.cause not in EXCUSED or attempt.ended_at is None or known is None or known.key != attempt.job:
            return attempt
        ended_at = attempt.ended_at
        held = concerning(known.job, every)
        is_due = any(each.begins_at - LEEWAY <= ended_at <= each.ends_at for each in held)
        return replace(attempt, cause=EndCause.MAINTENANCE) if is_due else attempt

    def follow(known: TrackedJob) -> TrackedJob:
        return known if known.attempt is None else replace(known, attempt=judge(known.attempt))

    return replace(
        changes,
        new=tuple(map(follow, changes.new)),
        changed=tuple(map(follow, changes.changed)),
        begun=tuple(map(judge, changes.begun)),
        ended=tuple(map(judge, changes.ended)),
        jobs_ended=tuple(map(follow, changes.jobs_ended)),
        replaced=tuple(map(follow, changes.replaced)),
    )
