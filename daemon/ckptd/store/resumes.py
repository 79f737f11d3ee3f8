"""Which checkpoint was there for an attempt to resume from."""

from collections.abc import Collection

import sqlalchemy as sa

from ckptd.core.model import CheckpointState
from ckptd.store.rows import split
from ckptd.store.tables import AttemptTable, CheckpointTable, RunTable


def note_resumes(connection: sa.Connection, run_ids: Collection[int]) -> None:
    """Write, for attempts under way of which it is not known, the newest complete checkpoint at their start."""
    for chunk in split(run_ids):
        there = (
            sa.select(CheckpointTable.path)
            .where(
                CheckpointTable.run_id == AttemptTable.run_id,
                CheckpointTable.state == CheckpointState.COMPLETE,
                CheckpointTable.completed_at <= AttemptTable.started_at,
                CheckpointTable.gone_at.is_(None) | (CheckpointTable.gone_at > AttemptTable.started_at),
            )
            .order_by(CheckpointTable.completed_at.desc(), CheckpointTable.path.desc())
            .limit(1)
            .correlate(AttemptTable)
            .scalar_subquery()
        )
        located = sa.select(RunTable.id).where(RunTable.id.in_(chunk), RunTable.directory.like("/%"))
        connection.execute(
            sa.update(AttemptTable)
            .where(
                AttemptTable.run_id.in_(located),
                AttemptTable.ended_at.is_(None),
                AttemptTable.resumed_from.is_(None),
            )
            .values(resumed_from=there)
        )
