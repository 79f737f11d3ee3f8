"""Missed jobs, which ended before any poll, and the time range that is still to be backfilled from accounting."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.discovery.nearby_candidates import Neighbour
from ckptd.core.model import Attempt, JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.queue.backfill_plan import BackfillPlan, RecordedJob
from ckptd.core.queue.poll_gaps import PollGap
from ckptd.store import jobs, lost_work, runs
from ckptd.store.rows import (
    ATTEMPT_COLUMNS,
    JOB_COLUMNS,
    JOB_FIELDS,
    RUN_KEY_COLUMNS,
    attempt_from_row,
    job_from_row,
    run_key,
    split,
)
from ckptd.store.tables import AttemptTable, ClusterTable, JobTable, RunTable
from ckptd.store.transactions import StorePart, reading, writing, writing_if_any

_TAIL: list[Any] = [JobTable.id, JobTable.first_seen_at, JobTable.ended_at, *RUN_KEY_COLUMNS]


class BackfillStore(StorePart):
    """Missed jobs, and the time range that is still to be backfilled from accounting."""

    @reading
    def read_gap(self, connection: sa.Connection, cluster: str) -> tuple[datetime | None, PollGap | None]:
        """Return the time of the last successful poll, and the time range still to be backfilled."""
        columns = [ClusterTable.polled_at, ClusterTable.backfill_since, ClusterTable.backfill_until]
        row = connection.execute(sa.select(*columns).where(ClusterTable.name == cluster)).one_or_none()
        if row is None:
            return None, None
        polled_at, since, until = tuple(row)
        return polled_at, PollGap(since, until) if since and until else None

    @writing
    def record_gap(self, connection: sa.Connection, cluster: str, gap: PollGap | None) -> None:
        """Record the time range still to be backfilled; None if there is none."""
        runs.ensure_cluster(connection, cluster)
        values = {"backfill_since": gap and gap.since, "backfill_until": gap and gap.until}
        connection.execute(sa.update(ClusterTable).where(ClusterTable.name == cluster).values(**values))

    @reading
    def read_recorded_jobs(
        self, connection: sa.Connection, cluster: str, job_ids: Collection[int]
    ) -> dict[int, list[RecordedJob]]:
        """Return all recorded jobs with these ids, in the order of their first poll: Slurm reuses ids."""
        found: dict[int, TrackedJob] = {}
        for chunk in split(job_ids):
            found |= _read_jobs(connection, [JobTable.cluster == cluster, JobTable.job_id.in_(chunk)])
        attempts = _read_attempts(connection, {row_id: known.key for row_id, known in found.items()})
        result: dict[int, list[RecordedJob]] = defaultdict(list)
        for row_id, known in sorted(found.items(), key=lambda item: item[1].key.first_seen_at):
            own = tuple(attempts[row_id])
            latest = max(own, key=lambda attempt: attempt.restart_count, default=None)
            entry = TrackedJob(
                key=known.key,
                job=known.job,
                attempt=latest,
                run=known.run,
                last_seen_at=known.last_seen_at,
                ended_at=known.ended_at,
            )
            result[known.key.job_id].append(RecordedJob(entry, own))
        return dict(result)

    @writing
    def record(self, connection: sa.Connection, plan: BackfillPlan, awaiting: Collection[JobKey]) -> None:
        """Record jobs from accounting; the directories of the `awaiting` ones are still to be found and scanned."""
        jobs.record_jobs(connection, plan.changes)
        if plan.corrected:
            jobs.correct_attempts(connection, [after for _, after in plan.corrected])
        touched = jobs.find_rows(connection, {attempt.job for attempt in plan.changes.begun})
        runs.assign_kinds(connection, touched.runs())
        lost_work.write_lines(connection, touched.runs())
        _mark(connection, awaiting, is_awaiting=True)

    @writing_if_any
    def record_scanned(self, connection: sa.Connection, keys: Collection[JobKey]) -> None:
        """Record that the directories of these jobs were found and scanned, or cannot be."""
        _mark(connection, keys, is_awaiting=None)

    @reading
    def read_unscanned_jobs(self, connection: sa.Connection, cluster: str) -> dict[JobKey, TrackedJob]:
        """Return the jobs whose directories are still to be found and scanned, in the order of their end.

        Their attempts are not read.
        """
        is_awaiting = sa.text("jobs.is_awaiting_scan")  # as its index says it: for "= 1", SQLite reads all jobs
        found = _read_jobs(connection, [JobTable.cluster == cluster, is_awaiting]).values()
        return {known.key: known for known in sorted(found, key=lambda known: known.last_seen_at)}

    @reading
    def list_neighbours(
        self, connection: sa.Connection, cluster: str, uid: int, since: datetime
    ) -> tuple[Neighbour, ...]:
        """Return one user's jobs that ran at any time since an instant, with their run times."""
        started_at = (
            sa.select(sa.func.min(AttemptTable.started_at, type_=AttemptTable.started_at.type))
            .where(AttemptTable.job_row == JobTable.id)
            .correlate(JobTable)
            .scalar_subquery()
        )
        rows = connection.execute(
            sa.select(*JOB_COLUMNS, *_TAIL, started_at)
            .join(RunTable, JobTable.run_id == RunTable.id)
            .where(RunTable.cluster == cluster, RunTable.uid == uid)
            .where(JobTable.ended_at.is_(None) | (JobTable.ended_at >= since))
        )
        result: list[Neighbour] = []
        for row in rows:
            job = job_from_row(row)
            _, first_seen_at, ended_at, *run, began_at = row[len(JOB_FIELDS) :]
            key = JobKey(cluster, job.job_id, first_seen_at)
            result.append(Neighbour(key, job, RunKey(*run), began_at or first_seen_at, ended_at))
        return tuple(result)


def _read_jobs(connection: sa.Connection, conditions: Iterable[Any]) -> dict[int, TrackedJob]:
    """Return jobs by row id, without their attempts."""
    rows = connection.execute(
        sa.select(*JOB_COLUMNS, *_TAIL).join(RunTable, JobTable.run_id == RunTable.id).where(*conditions)
    )
    result: dict[int, TrackedJob] = {}
    for row in rows:
        job = job_from_row(row)
        row_id, first_seen_at, ended_at, *run = row[len(JOB_FIELDS) :]
        key = JobKey(job.cluster, job.job_id, first_seen_at)
        last_seen_at = ended_at or first_seen_at
        result[row_id] = TrackedJob(
            key=key, job=job, attempt=None, run=run_key(run), last_seen_at=last_seen_at, ended_at=ended_at
        )
    return result


def _read_attempts(connection: sa.Connection, keys: dict[int, JobKey]) -> dict[int, list[Attempt]]:
    """Return the attempts of jobs by the job's row id, oldest first."""
    result: dict[int, list[Attempt]] = defaultdict(list)
    for chunk in split(keys):
        rows = connection.execute(
            sa.select(AttemptTable.job_row, *ATTEMPT_COLUMNS)
            .where(AttemptTable.job_row.in_(chunk))
            .order_by(AttemptTable.started_at, AttemptTable.id)
        )
        for row in rows:
            result[row[0]].append(attempt_from_row(keys[row[0]], row[1:]))
    return result


def _mark(connection: sa.Connection, keys: Collection[JobKey], *, is_awaiting: bool | None) -> None:
    for chunk in split(jobs.find_rows(connection, keys).rows()):
        connection.execute(sa.update(JobTable).where(JobTable.id.in_(chunk)).values(is_awaiting_scan=is_awaiting))
