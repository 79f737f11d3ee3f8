"""Completes the changes of a poll from accounting: how vanished jobs ended, and which executions were missed.

Unknown facts are recorded as unknown: an execution without a known end ended at its last poll, with an unknown cause.
Rows of accounting are matched by the start of the execution, because a job id may mean several jobs.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, EndCause, EndedAttempt, Job, JobKey, JobState, RestartKind, Unknown
from ckptd.core.queue import (
    CAUSES,
    GUESSED_CAUSES,
    JobChanges,
    MissedRestarts,
    TrackedJob,
    end_unknown,
    is_guessed,
)
from ckptd.core.runs import suspension

START_TOLERANCE = timedelta(seconds=5)  # slurmctld and slurmdbd round and resend starts
CHAIN_TOLERANCE = timedelta(seconds=60)  # a requeued execution is submitted when the one before it ends


def merge_accounting(changes: JobChanges, ended: tuple[EndedAttempt, ...] | Unknown, now: datetime) -> JobChanges:
    """Return the changes with every vanished job ended, and with the missed executions that accounting has.

    `ended` answers `changes.asks_accounting`; if it is Unknown, the vanished jobs end with an unknown cause. To delay
    ends until a second poll confirms them, record the changes without this call.
    """
    rows = _Rows(() if isinstance(ended, Unknown) else ended)
    better = {_name(attempt): rows.refine(attempt) for attempt in changes.ended}
    jobs = {known.key: known.job for known in (*changes.new, *changes.changed)}
    filled = {missed.key: list(rows.fill(missed, jobs.get(missed.key), now)) for missed in changes.missed}
    gone = [_merge_vanished(known, rows, now) for known in changes.vanished]

    def follow(known: TrackedJob) -> TrackedJob:
        return _with_attempts(known, better, filled.get(known.key, []))

    unseen = [attempt for attempts in filled.values() for attempt in attempts]
    unseen += [attempt for merged in gone for attempt in merged.unseen]
    return replace(
        changes,
        new=tuple(follow(known) for known in changes.new),
        changed=(*(follow(known) for known in changes.changed), *(merged.known for merged in gone)),
        begun=(*(better.get(_name(attempt), attempt) for attempt in changes.begun), *unseen),
        ended=(*better.values(), *unseen, *(merged.ended for merged in gone if merged.ended)),
        jobs_ended=(*(follow(known) for known in changes.jobs_ended), *(merged.known for merged in gone)),
        replaced=tuple(follow(known) for known in changes.replaced),
        vanished=(),
        missed=(),
    )


def refine(attempts: Iterable[Attempt], ended: Iterable[EndedAttempt]) -> tuple[Attempt, ...]:
    """Return the attempts with an unconfirmed cause that accounting now has, with accounting's data."""
    rows = _Rows(ended)
    return tuple(refined for refined in (rows.refine_told(attempt) for attempt in attempts) if refined is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _MergedJob:
    known: TrackedJob
    ended: Attempt | None
    unseen: list[Attempt]


class _Rows:
    """Accounting's rows of executions that started and ended, by job id, oldest first."""

    def __init__(self, ended: Iterable[EndedAttempt]) -> None:
        self.by_job: dict[int, list[tuple[datetime, datetime, EndedAttempt]]] = defaultdict(list)
        for row in ended:
            if row.started_at is None or row.ended_at is None or row.ended_at < row.started_at:
                continue
            if row.state is JobState.RESIZING:
                continue  # the execution goes on, and its last row has the same start
            if row.node_list:  # else it was cancelled while it waited, or began on another cluster
                self.by_job[row.job_id].append((row.started_at, row.ended_at, row))
        for rows in self.by_job.values():
            rows.sort(key=lambda entry: entry[0])

    def refine(self, attempt: Attempt) -> Attempt:
        """Return the attempt with its end from accounting, if the queue's end is unconfirmed and accounting has one."""
        return self.refine_told(attempt) or attempt

    def refine_told(self, attempt: Attempt) -> Attempt | None:
        """Return the attempt with its end from accounting; None if accounting has none or the end is confirmed."""
        if not is_guessed(attempt):
            return None
        for started_at, ended_at, row in self.by_job[attempt.job.job_id]:
            if abs(started_at - attempt.started_at) <= START_TOLERANCE:
                cause = CAUSES.get(row.state, EndCause.UNKNOWN)
                end = max(attempt.started_at, ended_at)  # even if this host's clock is behind Slurm's
                ended = replace(attempt, state=row.state, cause=cause, ended_at=end)
                return suspension.close(ended, row.suspended)
        return None

    def fill(self, missed: MissedRestarts, like: Job | None, now: datetime) -> Iterable[Attempt]:
        """Yield the missed executions from accounting; if it has fewer, they count as the latest ones."""
        between = [
            entry
            for entry in self.by_job[missed.key.job_id]
            if (missed.after is None or entry[0] > missed.after + START_TOLERANCE)
            and (missed.before is None or entry[0] < missed.before - START_TOLERANCE)
        ]
        between = _chain(between)[-(missed.last - missed.first + 1) :]
        first = missed.last - len(between) + 1
        for restart_count, entry in enumerate(between, first):
            yield _unseen(missed.key, restart_count, entry, now, like=like)

    def after(self, attempt: Attempt | None, job_id: int) -> list[tuple[datetime, datetime, EndedAttempt]]:
        """Return the rows of the job's later executions; each was submitted when the previous one ended."""
        if attempt is None:
            return _chain(self.by_job[job_id])
        later: list[tuple[datetime, datetime, EndedAttempt]] = []
        end = attempt.ended_at or attempt.started_at
        for entry in self.by_job[job_id]:
            if entry[0] <= attempt.started_at + START_TOLERANCE:
                continue
            submitted_at = entry[2].submitted_at
            if submitted_at is None or submitted_at > end + CHAIN_TOLERANCE:
                break
            later.append(entry)
            end = entry[1]
        return later


def _chain(rows: list[tuple[datetime, datetime, EndedAttempt]]) -> list[tuple[datetime, datetime, EndedAttempt]]:
    """Return the latest consecutive rows that are executions of one job; earlier rows may be of another job."""
    for index in range(len(rows) - 1, 0, -1):
        submitted_at = rows[index][2].submitted_at
        if submitted_at is not None and submitted_at > rows[index - 1][1] + CHAIN_TOLERANCE:
            return rows[index:]
    return rows


def _merge_vanished(known: TrackedJob, rows: _Rows, now: datetime) -> _MergedJob:
    attempt = known.attempt
    ended: Attempt | None = None
    unseen: list[Attempt] = []
    if attempt is not None and attempt.ended_at is None:
        attempt = ended = rows.refine(end_unknown(attempt, known.last_sign_at))
    first = attempt.restart_count + 1 if attempt is not None else 0
    for restart_count, entry in enumerate(rows.after(attempt, known.key.job_id), first):
        unseen.append(_unseen(known.key, restart_count, entry, now, like=known.job))
    attempt = unseen[-1] if unseen else attempt
    state = attempt.state if attempt is not None and attempt.cause not in GUESSED_CAUSES else JobState.UNKNOWN
    ended_at = attempt.ended_at if attempt is not None and attempt.ended_at else known.last_seen_at
    restart_count = max(known.job.restart_count, attempt.restart_count if attempt else 0)
    job = replace(known.job, state=state, ends_at=ended_at, restart_count=restart_count)
    return _MergedJob(known=replace(known, job=job, attempt=attempt, ended_at=ended_at), ended=ended, unseen=unseen)


def _unseen(
    key: JobKey,
    restart_count: int,
    entry: tuple[datetime, datetime, EndedAttempt],
    now: datetime,
    *,
    like: Job | None,
) -> Attempt:
    started_at, ended_at, row = entry
    attempt = Attempt(
        job=key,
        restart_count=restart_count,
        array_job_id=like.array_job_id if like else None,
        array_task_id=like.array_task_id if like else None,
        kind=RestartKind.REQUEUE if restart_count else None,
        state=row.state,
        cause=CAUSES.get(row.state, EndCause.UNKNOWN),
        first_seen_at=now,
        started_at=started_at,
        ended_at=ended_at,
        time_limit=like.time_limit if like else None,
        partition=like.partition or None if like else None,
        node_count=row.node_count,
        cpu_count=row.cpu_count,
        gpu_count=row.gpu_count,
    )
    return suspension.close(attempt, row.suspended)


def _with_attempts(known: TrackedJob, better: dict[tuple[object, int], Attempt], filled: list[Attempt]) -> TrackedJob:
    """Return the job with accounting's data of its latest attempt."""
    attempt = known.attempt
    if attempt is not None:
        attempt = better.get(_name(attempt), attempt)
    if filled and (attempt is None or filled[-1].restart_count > attempt.restart_count):
        attempt = filled[-1]
    return known if attempt is known.attempt else replace(known, attempt=attempt)


def _name(attempt: Attempt) -> tuple[object, int]:
    return attempt.job, attempt.restart_count
