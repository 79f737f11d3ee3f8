"""What a maintenance reservation means for the jobs on its nodes: an end that may come, and silence while it lasts.

Slurm starts no job that would reach into one. It leaves alone those that run when one is made over them (IGNORE_JOBS),
also when it begins: who ends them are the people who then take the nodes down. Measured with Slurm 22.05.8.
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


def remember(known: Sequence[Maintenance], told: Sequence[Maintenance], now: datetime) -> tuple[Maintenance, ...]:
    """Return those that Slurm tells of now, and for GRACE those that it told of before: it forgets one as it ends.

    One that was taken back before it began is over at once, one that is gone before its time ended by now.
    """
    still = {(each.name, each.begins_at) for each in told}
    over = (
        each._replace(ends_at=min(each.ends_at, now))
        for each in known
        if each.begins_at <= now and (each.name, each.begins_at) not in still
    )
    return (*told, *(each for each in over if now < each.ends_at + GRACE))


def concerning(job: Job, every: Sequence[Maintenance]) -> tuple[Maintenance, ...]:
    """Return those that hold a node of the job, the first to begin first."""
    if not every:
        return ()
    nodes = hostlist.expand(job.node_list) if job.node_list else frozenset[str]()
    return tuple(sorted((each for each in every if each.nodes & nodes), key=lambda each: each.begins_at))


def is_under_way(history: RunHistory, now: datetime) -> bool:
    """Whether one lasts on a node of a job of the run, or did a moment ago."""
    return any(
        each.begins_at <= now < each.ends_at + GRACE
        for job in history.jobs
        for each in concerning(job, history.context.maintenance)
    )


def next_end(history: RunHistory, job: Job, now: datetime) -> tuple[datetime, Maintenance | None] | None:
    """Return when a job may end, and the maintenance where it is not its limit; None where nothing ends it."""
    limit = job.ends_at if job.time_limit is not None else None
    coming = [each for each in concerning(job, history.context.maintenance) if each.begins_at > now]
    if coming and (limit is None or coming[0].begins_at < limit):
        return coming[0].begins_at, coming[0]
    return None if limit is None else (limit, None)


def excuse(changes: JobChanges, before: Mapping[int, TrackedJob], every: Sequence[Maintenance]) -> JobChanges:
    """Return the changes with maintenance as the cause of ends on nodes that were in it; `before` tells the nodes."""
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
