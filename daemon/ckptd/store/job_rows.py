"""Checkpoints of runs for listings, read with a few statements regardless of the number of runs."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from ckptd.core.model import CheckpointState
from ckptd.store.tables import CheckpointTable

_NEWEST_COLUMNS = [CheckpointTable.run_id, CheckpointTable.completed_at, CheckpointTable.epoch, CheckpointTable.step]


def read_totals(connection: sa.Connection, run_ids: sa.Select[Any] | Sequence[int]) -> dict[int, Any]:
    """Return the number and total size of the checkpoints on disk of each run that has any."""
    rows = connection.execute(
        sa.select(CheckpointTable.run_id, sa.func.count(), sa.func.sum(CheckpointTable.size_bytes))
        .where(CheckpointTable.run_id.in_(run_ids), CheckpointTable.deleted_at.is_(None))
        .group_by(CheckpointTable.run_id)
    )
    return {row[0]: row for row in rows}


def read_newest(connection: sa.Connection, run_ids: sa.Select[Any] | Sequence[int]) -> dict[int, Any]:
    """Return each run's newest complete checkpoint."""
    order = sa.func.row_number().over(
        partition_by=CheckpointTable.run_id,
        order_by=[CheckpointTable.completed_at.desc(), CheckpointTable.step.desc(), CheckpointTable.id.desc()],
    )
    original = orm.aliased(CheckpointTable)
    has_original = sa.exists().where(
        original.run_id == CheckpointTable.run_id,
        original.deleted_at.is_(None),
        original.state == CheckpointState.COMPLETE,
        original.path == sa.func.replace(CheckpointTable.path, "_prev.", "."),
    )
    ranked = (
        sa.select(*_NEWEST_COLUMNS, order.label("place"))
        .where(
            CheckpointTable.run_id.in_(run_ids),
            CheckpointTable.deleted_at.is_(None),
            CheckpointTable.state == CheckpointState.COMPLETE,
            CheckpointTable.completed_at.is_not(None),
            # made right after its original, of the state before: see core.runs.rotated_copies
            ~(CheckpointTable.path.contains("_prev.", autoescape=True) & has_original),
        )
        .subquery()
    )
    rows = connection.execute(
        sa.select(ranked.c.run_id, ranked.c.completed_at, ranked.c.epoch, ranked.c.step).where(ranked.c.place == 1)
    )
    return {row[0]: row for row in rows}
