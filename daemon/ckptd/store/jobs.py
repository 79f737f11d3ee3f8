"""Jobs and their attempts: records what a poll changed, and reads what the next poll is compared with."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import SUSPENDED_STATES, Attempt, JobKey, RunKey
from ckptd.core.model.records import RevisionRise
from ckptd.core.queue import GUESSED_CAUSES, JobChanges, TrackedJob
from ckptd.store import checkpoint_writers, lost_work, resumed_from, runs
from ckptd.store.bulk_inserts import insert_rows
from ckptd.store.listing_readers import JobReader
from ckptd.store.revision_rises import list_rises, lock_revisions
from ckptd.store.rows import (
    ATTEMPT_COLUMNS,
    JOB_COLUMNS,
    JOB_FIELDS,
    ROW_IDS,
    RUN_KEY_COLUMNS,
    attempt_from_row,
    attempt_to_row,
    job_from_row,
    job_to_row,
    run_key,
    split,
    table_of,
    without_index,
)
from ckptd.store.tables import AttemptTable, ClusterTable, JobTable, RunTable
from ckptd.store.transactions import StorePart, reading, writing_if_any

MOMENT = timedelta(microseconds=1)  # the shortest time that is recorded
_CORRECTED = ("state", "cause", "ended_at", "suspensions")  # what accounting tells better

# as its index says it: for "in_queue = 1", SQLite reads all jobs on record
_IN_QUEUE = sa.text("jobs.in_queue")


class JobStore(StorePart, JobReader):
    """Jobs and their attempts."""

    @reading
    def read_tracked(self, connection: sa.Connection, cluster: str) -> dict[int, TrackedJob]:
        """Return the recorded jobs that may still be in the queue, by job id; `queue.apply` keeps them up to date.

        `last_seen_at` is the time of the last trusted poll. An implausible poll must be recorded as Unknown.
        """
        polled_at = connection.scalar(sa.select(ClusterTable.polled_at).where(ClusterTable.name == cluster))
        tail = [JobTable.id, JobTable.first_seen_at, JobTable.ended_at, JobTable.released_restart, *RUN_KEY_COLUMNS]
        rows = connection.execute(
            sa.select(*JOB_COLUMNS, *tail)
            .join(RunTable, JobTable.run_id == RunTable.id)
            .where(JobTable.cluster == cluster, _IN_QUEUE)
        ).all()
        latest = _read_latest(connection, cluster)
        result: dict[int, TrackedJob] = {}
        for row in rows:
            job = job_from_row(row)
            row_id, first_seen_at, ended_at, released_restart, *run = row[len(JOB_FIELDS) :]
            key = JobKey(cluster, job.job_id, first_seen_at)
            result[job.job_id] = TrackedJob(
                key=key,
                job=job,
                attempt=attempt_from_row(key, latest[row_id]) if row_id in latest else None,
                run=run_key(run),
                last_seen_at=max(polled_at, first_seen_at) if polled_at else first_seen_at,
                ended_at=ended_at,
                released_restart=released_restart,
            )
        return result

    def record(self, changes: JobChanges) -> dict[RunKey, RevisionRise]:
        """Record what one poll changed, except vanished jobs: merge accounting's data about them first.

        Return the runs that were on record before and whose checkpoints are as they were, with their revisions.
        """
        if changes.is_empty and not changes.updated:
            return {}
        begun = {(attempt.job, attempt.restart_count) for attempt in changes.begun}
        with self.database.writing() as connection:
            open_before = [each for each in changes.ended if (each.job, each.restart_count) not in begun]
            _date_scans_before(connection, open_before)
            known = find_rows(connection, _list_changed(changes))
            before = lock_revisions(connection, known.runs())
            return list_rises(connection, before, without=record_jobs(connection, changes))

    @reading
    def list_unconfirmed_attempts(
        self, connection: sa.Connection, cluster: str, since: datetime
    ) -> tuple[Attempt, ...]:
        """Return the attempts that ended since `since` and whose cause only accounting can confirm."""
        rows = connection.execute(
            sa.select(JobTable.cluster, JobTable.job_id, JobTable.first_seen_at, *ATTEMPT_COLUMNS)
            .join(JobTable, AttemptTable.job_row == JobTable.id)
            .where(
                without_index(JobTable.cluster) == cluster,
                AttemptTable.ended_at >= since,
                AttemptTable.cause.in_(GUESSED_CAUSES) | AttemptTable.suspensions.is_not(None),
            )
            .order_by(AttemptTable.ended_at)
        )
        return tuple(attempt_from_row(JobKey(*row[:3]), row[3:]) for row in rows)

    @writing_if_any
    def correct_attempts(self, connection: sa.Connection, attempts: Collection[Attempt]) -> None:
        """Record accounting's later data about recorded attempts; measure their lost work again."""
        correct_attempts(connection, attempts)


def _read_latest(connection: sa.Connection, cluster: str) -> dict[int, Any]:
    """Return the columns of each job's latest attempt, by the job's row id."""
    newest = (
        sa.select(AttemptTable.job_row, sa.func.max(AttemptTable.restart_count).label("restart_count"))
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .where(JobTable.cluster == cluster, _IN_QUEUE)
        .group_by(AttemptTable.job_row)
        .subquery()
    )
    rows = connection.execute(
        sa.select(AttemptTable.job_row, *ATTEMPT_COLUMNS).join(
            newest,
            (newest.c.job_row == AttemptTable.job_row) & (newest.c.restart_count == AttemptTable.restart_count),
        )
    )
    return {row[0]: row[1:] for row in rows}


def _list_changed(changes: JobChanges) -> set[JobKey]:
    """Return the jobs of the runs that a poll changed."""
    attempts = {each.job for each in (*changes.begun, *changes.updated, *changes.ended)}
    return attempts.union(known.key for known in (*changes.replaced, *changes.changed))


def record_jobs(connection: sa.Connection, changes: JobChanges) -> set[int]:
    """Record what one poll changed, except vanished jobs; return the runs with checkpoints of another attempt now."""
    runs.ensure_cluster(connection, changes.cluster)
    _update_jobs(connection, (*changes.replaced, *changes.changed), changes.polled_at)
    _leave_queue(connection, changes.forgotten)
    _insert_jobs(connection, changes)
    return _record_attempts(connection, changes)


def _insert_jobs(connection: sa.Connection, changes: JobChanges) -> None:
    if not changes.new:
        return
    runs.insert_runs(
        connection,
        (runs.RunLocation(known.run, known.job.user, None) for known in changes.new if known.run),
        changes.polled_at,
    )
    run_ids = runs.find_runs(connection, [known.run for known in changes.new if known.run])
    forgotten = set(changes.forgotten)  # includes new jobs that only accounting has: they are not in the queue
    values = [
        job_to_row(known.job)
        | {"first_seen_at": known.key.first_seen_at, "ended_at": known.ended_at}
        | {"in_queue": known.key not in forgotten}
        | {"run_id": run_ids[known.run]}
        for known in changes.new
        if known.run
    ]
    insert_rows(connection, table_of(JobTable), values)


def _update_jobs(connection: sa.Connection, changed: Collection[TrackedJob], at: datetime) -> None:
    if not changed:
        return
    values = []
    for known in changed:
        row = job_to_row(known.job) | {"ended_at": known.ended_at, "released_restart": known.released_restart}
        keys = {"key_cluster": row.pop("cluster"), "key_job_id": row.pop("job_id")}
        values.append(row | keys | {"key_first_seen_at": known.key.first_seen_at, "key_now": at})
    connection.execute(_UPDATE_JOB, values)
    runs.touch_runs(connection, find_rows(connection, [known.key for known in changed]).runs())


def _update_job() -> sa.Update:
    columns = table_of(JobTable).c
    now = sa.bindparam("key_now", type_=columns.suspended_until.type)
    was_suspended = sa.or_(*(columns.state == state for state in SUSPENDED_STATES))  # as recorded before this change
    return (
        sa.update(table_of(JobTable))
        .where(
            columns.cluster == sa.bindparam("key_cluster"),
            columns.job_id == sa.bindparam("key_job_id"),
            columns.first_seen_at == sa.bindparam("key_first_seen_at"),
        )
        .values(suspended_until=sa.case((was_suspended, now), else_=columns.suspended_until))
    )


_UPDATE_JOB = _update_job()


def _leave_queue(connection: sa.Connection, forgotten: Collection[JobKey]) -> None:
    for chunk in split(find_rows(connection, forgotten).rows()):
        connection.execute(sa.update(JobTable).where(JobTable.id.in_(chunk)).values(in_queue=False))


class _JobRows(dict[JobKey, tuple[int, int]]):
    """The row ids of jobs and of their runs."""

    def rows(self) -> list[int]:
        return [row_id for row_id, _ in self.values()]

    def runs(self) -> set[int]:
        return {run_id for _, run_id in self.values()}


def find_rows(connection: sa.Connection, keys: Collection[JobKey]) -> _JobRows:
    """Return the rows of jobs that are on record, and of their runs."""
    result = _JobRows()
    for chunk in split(keys):
        wanted = set(chunk)
        values = {"clusters": list({key.cluster for key in chunk}), "job_ids": [key.job_id for key in chunk]}
        for row in connection.execute(_JOBS_BY_NUMBER, values):
            key = JobKey(row.cluster, row.job_id, row.first_seen_at)
            if key in wanted:
                result[key] = (row.id, row.run_id)
    return result


_JOBS_BY_NUMBER = sa.select(
    JobTable.id, JobTable.run_id, JobTable.cluster, JobTable.job_id, JobTable.first_seen_at
).where(
    JobTable.cluster.in_(sa.bindparam("clusters", expanding=True)),
    JobTable.job_id.in_(sa.bindparam("job_ids", expanding=True)),
)


def correct_attempts(connection: sa.Connection, attempts: Collection[Attempt]) -> None:
    """Correct how recorded attempts ended."""
    rows = find_rows(connection, {attempt.job for attempt in attempts})
    known = _find_attempts(connection, rows)
    table = table_of(AttemptTable)
    values = [
        {
            "key_id": known[rows[attempt.job][0], attempt.restart_count],
            **{name: value for name, value in attempt_to_row(attempt).items() if name in _CORRECTED},
        }
        for attempt in attempts
        if attempt.job in rows and (rows[attempt.job][0], attempt.restart_count) in known
    ]
    if values:
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)
        lost_work.reopen_lines(connection, [value["key_id"] for value in values])
    runs.touch_runs(connection, rows.runs())
    lost_work.write_lines_of_jobs(connection, rows.rows())


def _record_attempts(connection: sa.Connection, changes: JobChanges) -> set[int]:
    attempts = {
        (attempt.job, attempt.restart_count): attempt for attempt in (*changes.begun, *changes.updated, *changes.ended)
    }
    if not attempts:
        return set()
    rows = find_rows(connection, list({key for key, _ in attempts}))
    known = _find_attempts(connection, rows)
    fresh: list[dict[str, Any]] = []
    stale: list[dict[str, Any]] = []
    for (key, restart_count), attempt in attempts.items():
        row_id, run_id = rows[key]
        if (row_id, restart_count) in known:
            stale.append(_update_of(attempt, known[row_id, restart_count]))
        else:
            fresh.append(attempt_to_row(attempt) | {"job_row": row_id, "run_id": run_id})
    insert_rows(connection, table_of(AttemptTable), fresh)
    if stale:
        table = table_of(AttemptTable)
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), stale)
    runs.touch_runs(connection, rows.runs())
    begun_in = {rows[attempt.job][1] for attempt in changes.begun}
    resumed_from.record_resumes(connection, begun_in)
    rewritten = checkpoint_writers.correct_writers(connection, begun_in)
    lost_work.write_lines_of_jobs(connection, rows.rows())
    return rewritten


def _date_scans_before(connection: sa.Connection, ended: Collection[Attempt]) -> None:
    """Date the last scans of these attempts' directories before their ends, which this poll is the first to show.

    The times do not say it: that of a scan is of this host's clock, that of an end is of Slurm's.
    """
    rows = find_rows(connection, {attempt.job for attempt in ended})
    ends: dict[int, datetime] = {}
    for attempt in ended:
        if attempt.job in rows and attempt.ended_at is not None:
            run_id = rows[attempt.job][1]
            ends[run_id] = max(attempt.ended_at, ends.get(run_id, attempt.ended_at))
    table = table_of(RunTable)
    late = sa.update(table).where(table.c.id == sa.bindparam("key_id"), table.c.scanned_at >= sa.bindparam("ended_at"))
    values = [{"key_id": row_id, "ended_at": at, "before": at - MOMENT} for row_id, at in ends.items()]
    if values:
        connection.execute(late.values(scanned_at=sa.bindparam("before")), values)


def _update_of(attempt: Attempt, row_id: int) -> dict[str, Any]:
    """Return an attempt's changes by column; what its run decided (kind, where it resumed) is not the queue's."""
    values = attempt_to_row(attempt)
    for name in ("kind", "resumed_from", "resume", "first_seen_at", "restart_count"):
        del values[name]
    return values | {"key_id": row_id}


def _find_attempts(connection: sa.Connection, jobs: _JobRows) -> dict[tuple[int, int], int]:
    result: dict[tuple[int, int], int] = {}
    for chunk in split(jobs.rows()):
        rows = connection.execute(_ATTEMPTS_OF_JOBS, {"row_ids": chunk})
        result |= {(job_row, restart_count): row_id for job_row, restart_count, row_id in rows}
    return result


_ATTEMPTS_OF_JOBS = sa.select(AttemptTable.job_row, AttemptTable.restart_count, AttemptTable.id).where(
    AttemptTable.job_row.in_(ROW_IDS)
)


def find_attempt_rows(
    connection: sa.Connection, attempts: Iterable[tuple[JobKey, int]]
) -> dict[tuple[JobKey, int], int]:
    """Return the row ids of attempts, by job and restart count."""
    wanted = set(attempts)
    jobs = find_rows(connection, list({key for key, _ in wanted}))
    found = _find_attempts(connection, jobs)
    return {
        (key, restart_count): found[jobs[key][0], restart_count]
        for key, restart_count in wanted
        if key in jobs and (jobs[key][0], restart_count) in found
    }
