"""Rows for listings of jobs, with what their runs saved: a few statements however many jobs there are."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import CheckpointState, JobKey, RunKey
from ckptd.core.model.records import JobRow
from ckptd.store.histories import with_time_left
from ckptd.store.rows import JOB_COLUMNS, JOB_FIELDS, RUN_KEY_COLUMNS, job_from_row, run_key
from ckptd.store.tables import CheckpointTable, FlagTable, JobTable, RunTable

_NEWEST_COLUMNS = [CheckpointTable.run_id, CheckpointTable.completed_at, CheckpointTable.epoch, CheckpointTable.step]


def list_jobs(
    connection: sa.Connection, cluster: str | None, user: str | None, now: datetime, *, is_flagged_only: bool
) -> tuple[JobRow, ...]:
    """Return the jobs that have started and not ended, by cluster and job id, with the time left at `now`."""
    statement = (
        sa.select(*JOB_COLUMNS, JobTable.first_seen_at, RunTable.id, RunTable.located_by, *RUN_KEY_COLUMNS)
        .join(RunTable, JobTable.run_id == RunTable.id)
        .where(JobTable.ended_at.is_(None))
        .order_by(JobTable.cluster, JobTable.job_id)
    )
    if cluster is not None:
        statement = statement.where(JobTable.cluster == cluster)
    if user is not None:
        statement = statement.where(JobTable.user == user)
    rows = connection.execute(statement).all()
    open_runs = sa.select(JobTable.run_id).where(JobTable.ended_at.is_(None))
    totals = read_totals(connection, open_runs)
    newest = read_newest(connection, open_runs)
    flags = _read_rules(connection)
    found = (_row(row, totals, newest, flags, now) for row in rows)
    return tuple(row for row in found if row.flags or not is_flagged_only)


def _row(
    row: Any,
    totals: dict[int, Any],
    newest: dict[int, Any],
    flags: dict[int, list[tuple[str, int | None]]],
    now: datetime,
) -> JobRow:
    job = with_time_left(job_from_row(row), now)
    first_seen_at, run_id, located_by, *key_columns = row[len(JOB_FIELDS) :]
    run: RunKey = run_key(key_columns)
    _, completed_at, epoch, step = newest.get(run_id, (run_id, None, None, None))
    _, checkpoint_count, checkpoint_bytes = totals.get(run_id, (run_id, 0, 0))
    return JobRow(
        key=JobKey(job.cluster, job.job_id, first_seen_at),
        run=run,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        user=job.user,
        name=job.name,
        partition=job.partition,
        state=job.state,
        restart_count=job.restart_count,
        time_left=job.time_left,
        directory=run.directory if run.is_located else None,
        located_by=located_by,
        epoch=epoch,
        step=step,
        newest_checkpoint_at=completed_at,
        checkpoint_count=checkpoint_count,
        checkpoint_bytes=int(checkpoint_bytes),
        flags=tuple(sorted({rule for rule, job_id in flags[run_id] if job_id in {None, job.job_id}})),
    )


def read_totals(connection: sa.Connection, run_ids: sa.Select[Any] | Sequence[int]) -> dict[int, Any]:
    """Return, of each run that has checkpoints on disk, how many and their size."""
    rows = connection.execute(
        sa.select(CheckpointTable.run_id, sa.func.count(), sa.func.sum(CheckpointTable.size_bytes))
        .where(CheckpointTable.run_id.in_(run_ids), CheckpointTable.gone_at.is_(None))
        .group_by(CheckpointTable.run_id)
    )
    return {row[0]: row for row in rows}


def read_newest(connection: sa.Connection, run_ids: sa.Select[Any] | Sequence[int]) -> dict[int, Any]:
    """Return each run's newest complete checkpoint."""
    order = sa.func.row_number().over(
        partition_by=CheckpointTable.run_id,
        order_by=[CheckpointTable.completed_at.desc(), CheckpointTable.step.desc(), CheckpointTable.id.desc()],
    )
    ranked = (
        sa.select(*_NEWEST_COLUMNS, order.label("place"))
        .where(
            CheckpointTable.run_id.in_(run_ids),
            CheckpointTable.gone_at.is_(None),
            CheckpointTable.state == CheckpointState.COMPLETE,
            CheckpointTable.completed_at.is_not(None),
        )
        .subquery()
    )
    rows = connection.execute(
        sa.select(ranked.c.run_id, ranked.c.completed_at, ranked.c.epoch, ranked.c.step).where(ranked.c.place == 1)
    )
    return {row[0]: row for row in rows}


def _read_rules(connection: sa.Connection) -> dict[int, list[tuple[str, int | None]]]:
    result: dict[int, list[tuple[str, int | None]]] = defaultdict(list)
    rows = connection.execute(
        sa.select(FlagTable.run_id, FlagTable.rule, FlagTable.job_id).where(FlagTable.resolved_at.is_(None))
    )
    for run_id, rule, job_id in rows:
        result[run_id].append((rule, job_id))
    return result
