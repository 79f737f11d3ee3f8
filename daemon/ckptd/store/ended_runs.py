"""The ended runs: those of one user, latest first, and those that have checkpoints on disk."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import CheckpointState, EndCause, RunKey
from ckptd.core.model.records import EndedRun
from ckptd.store.engine import select_through
from ckptd.store.job_rows import read_newest, read_totals
from ckptd.store.rows import RUN_KEY_COLUMNS, run_key, split
from ckptd.store.run_parts import find_acting_parts
from ckptd.store.tables import AttemptTable, CheckpointTable, JobTable, RunTable
from ckptd.store.transactions import StorePart, reading


class EndedRunStore(StorePart):
    """Runs that have ended."""

    @reading
    def list_of_user(
        self, connection: sa.Connection, user: str, limit: int, cluster: str | None = None
    ) -> tuple[EndedRun, ...]:
        """Return a user's runs that have ended, on one cluster or on all, the latest first, at most `limit`.

        A run that has gone on on another cluster with shared files is listed there.
        """
        open_runs = sa.select(JobTable.run_id).where(JobTable.ended_at.is_(None))
        ended_at = sa.func.max(AttemptTable.ended_at)
        on_cluster = [] if cluster is None else [RunTable.cluster == cluster]
        rows = connection.execute(
            sa.select(RunTable.id, ended_at, sa.func.count(), *RUN_KEY_COLUMNS)
            .join(AttemptTable, AttemptTable.run_id == RunTable.id)
            .where(RunTable.user == user, RunTable.id.not_in(open_runs), *on_cluster)
            .group_by(RunTable.id)
            .having(ended_at.is_not(None))
            .order_by(ended_at.desc(), RunTable.id.desc())
            .limit(limit)
        ).all()
        acting = find_acting_parts(select_through(connection), [row[0] for row in rows])
        rows = [row for row in rows if row[0] not in acting or acting[row[0]] == run_key(row[3:])]
        run_ids = [row[0] for row in rows]
        totals, newest = read_totals(connection, run_ids), read_newest(connection, run_ids)
        latest = _read_latest(connection, run_ids)
        return tuple(_row(row, user, totals, newest, latest[row[0]]) for row in rows)

    @reading
    def list_saved(self, connection: sa.Connection, cluster: str, since: datetime) -> dict[RunKey, datetime]:
        """Return the runs that ended since then and have complete checkpoints, with when the newest was written."""
        open_runs = sa.select(JobTable.run_id).where(JobTable.cluster == cluster, JobTable.ended_at.is_(None))
        ended = sa.select(AttemptTable.run_id).where(AttemptTable.ended_at >= since).distinct()
        run_ids = set(connection.scalars(ended)) - set(connection.scalars(open_runs))
        found: dict[RunKey, datetime] = {}
        for chunk in split(sorted(run_ids)):  # joined to the runs, all of them would be read
            rows = connection.execute(
                sa.select(sa.func.max(CheckpointTable.modified_at), *RUN_KEY_COLUMNS)
                .join(CheckpointTable, CheckpointTable.run_id == RunTable.id)
                .where(
                    RunTable.cluster == cluster,
                    RunTable.id.in_(chunk),
                    CheckpointTable.deleted_at.is_(None),
                    CheckpointTable.state == CheckpointState.COMPLETE,
                )
                .group_by(RunTable.id)
            )
            found |= {run_key(key): written_at for written_at, *key in rows}
        return found


def _read_latest(connection: sa.Connection, run_ids: list[int]) -> dict[int, Any]:
    """Return each run's latest attempt: its job's id and name, and why it ended."""
    rows = connection.execute(
        sa.select(AttemptTable.run_id, JobTable.job_id, JobTable.name, AttemptTable.cause)
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .where(AttemptTable.run_id.in_(run_ids))
        .order_by(AttemptTable.started_at, AttemptTable.id)
    )
    return {row[0]: row for row in rows}


def _row(row: Any, user: str, totals: dict[int, Any], newest: dict[int, Any], latest: Any) -> EndedRun:
    run_id, ended_at, attempt_count, *key = row
    assert isinstance(ended_at, datetime)
    _, job_id, name, cause = latest
    assert cause is None or isinstance(cause, EndCause)
    _, completed_at, epoch, step = newest.get(run_id, (run_id, None, None, None))
    _, checkpoint_count, checkpoint_bytes = totals.get(run_id, (run_id, 0, 0))
    return EndedRun(
        run=run_key(key),
        user=user,
        job_id=job_id,
        name=name,
        attempt_count=attempt_count,
        ended_at=ended_at,
        cause=cause,
        epoch=epoch,
        step=step,
        newest_checkpoint_at=completed_at,
        checkpoint_count=checkpoint_count,
        checkpoint_bytes=int(checkpoint_bytes),
    )
