"""What the queue and accounting show of a run, and what is made of it: its jobs and attempts as they become known.

A look at the queue is compared with the record where a job's state may have changed since the look before; the others
change nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from ckptd.core import queue
from ckptd.core.model import Attempt, EndedAttempt, Job, JobState, Maintenance, QueueSnapshot
from ckptd.core.queue import accounting_merge, maintenance
from simulation.polls import TICK, Polls, at_tick, first_tick, instant
from simulation.run_truth import DAY, HOUR, MINUTE, QUEUED_SECONDS, Run

CLUSTER = "sim"
UID = 1000
MIN_JOB_AGE = 5 * MINUTE
NOTICE = 2 * DAY  # that a maintenance is made known before it begins


@dataclass(frozen=True)
class QueueLook:
    """What a look at the queue made known of a run."""

    jobs: tuple[Job, ...]  # that have not ended
    attempts: tuple[Attempt, ...]  # new ones, and those that changed
    ended: tuple[Attempt, ...]


def follow(run: Run, polls: Polls, *, is_always: bool = False) -> dict[int, QueueLook]:
    """Return the looks at the queue that told something of a run, by tick."""
    looks, jobs = {}, ()
    tracked = {}
    for tick in _list_all_ticks(run, polls) if is_always else _list_ticks(run, polls):
        now, at = tick * TICK, at_tick(tick)
        snapshot = QueueSnapshot(cluster=CLUSTER, polled_at=at, jobs=tuple(_list_jobs(run, now)))
        changes = queue.compare(tracked, snapshot)
        told = tuple(row for job_id in changes.asks_accounting for row in _account(run, job_id, now))
        changes = maintenance.excuse(accounting_merge.merge_accounting(changes, told, at), tracked, reserved(run, tick))
        tracked = queue.apply(tracked, changes)
        look = QueueLook(
            jobs=tuple(known.job for known in tracked.values() if known.is_open),
            attempts=(*changes.begun, *changes.updated, *changes.ended),
            ended=changes.ended,
        )
        if look.attempts or look.jobs != jobs:
            looks[tick], jobs = look, look.jobs
    return looks


def reserved(run: Run, tick: int) -> tuple[Maintenance, ...]:
    """Return the reservations of a run's nodes for maintenance that are known of."""
    return tuple(
        Maintenance(f"maint{begin:.0f}", instant(begin), instant(end), frozenset({"m1"}))
        for begin, end in sorted(run.maintenance)
        if begin - NOTICE <= tick * TICK < end + HOUR
    )


def list_turns(run: Run) -> Iterator[int]:
    """Yield the ticks at which a reservation becomes known, and at which it is no more."""
    for begin, end in run.maintenance:
        yield first_tick(begin - NOTICE)
        yield first_tick(end + HOUR)


def _list_ticks(run, polls):
    """Return the ticks of the looks that may find something changed, and of those before and after them."""
    ticks = set()
    for moment in _list_moments(run):
        seen = polls.following(first_tick(moment))
        if seen is not None:
            around = polls.latest(seen - 1), seen, polls.following(seen + 1)
            ticks.update(tick for tick in around if tick is not None and tick >= first_tick(run.start))
    return sorted(ticks)


def _list_all_ticks(run, polls):
    return [tick for tick in polls.good if first_tick(run.start) <= tick <= first_tick(run.end + HOUR)]


def _list_moments(run):
    for execution in run.executions:
        yield from (execution.start, execution.end, execution.end + MIN_JOB_AGE)
        yield from execution.suspended or ()


def _list_jobs(run, now):
    """Yield the run's jobs as the queue shows them: each job's latest execution, what waits, what has just ended."""
    latest = {each.job_id: each for each in run.executions if each.start <= now}
    for execution in latest.values():
        job = _job(run, execution, now)
        if job is not None:
            yield job


def _job(run, execution, now):
    state, ends, restart_count = JobState.RUNNING, execution.limit_end, execution.restart_count
    pause = execution.suspended
    if pause and now < pause[1]:
        ends = execution.start + execution.limit
        if now >= pause[0]:
            state = JobState.SUSPENDED
    started_at, submitted_at = instant(execution.start), instant(execution.start - QUEUED_SECONDS)
    if now >= execution.end:
        if execution.state is JobState.REQUEUED:
            state, restart_count = JobState.PENDING, restart_count + 1
            started_at, submitted_at = None, instant(execution.end)
        elif now >= execution.end + MIN_JOB_AGE:
            return None
        else:
            state, ends = execution.state, execution.end
    return Job(
        cluster=CLUSTER,
        job_id=execution.job_id,
        array_job_id=execution.array_job_id,
        user="alice",
        uid=UID,
        state=state,
        restart_count=restart_count,
        time_limit=timedelta(seconds=execution.limit),
        submitted_at=submitted_at,
        started_at=started_at,
        ends_at=instant(ends) if started_at else None,
        node_list=_node_of(run) if started_at else "",
        node_count=run.node_count,
    )


def _node_of(run):
    return "m1" if run.maintenance else "n1"


def _account(run, job_id, now):
    """Yield what accounting has of a job's executions that have ended."""
    for execution in run.executions:
        if execution.job_id == job_id and execution.end <= now:
            yield EndedAttempt(
                job_id=job_id,
                submitted_at=instant(execution.start - QUEUED_SECONDS),
                started_at=instant(execution.start),
                ended_at=instant(execution.end),
                state=execution.told or execution.state,
                node_list=_node_of(run),
                node_count=run.node_count,
                cpu_count=0,
                gpu_count=0,
            )
