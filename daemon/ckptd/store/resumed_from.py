"""Which checkpoint was there for an attempt to resume from.

It is asked again with every look at the directory: an attempt that began while nobody looked is recorded before what it
found there is.
"""

from collections.abc import Collection

import sqlalchemy as sa

from ckptd.core.model import CheckpointState
from ckptd.store.rows import split
from ckptd.store.tables import AttemptTable, CheckpointTable, RunTable

ATTEMPT_COUNT = 20  # latest ones under way in one run that are asked about: each goes through all that the run saved


def note_resumes(connection: sa.Connection, run_ids: Collection[int]) -> None:
    """Write, for attempts under way, the newest complete checkpoint at their start, as far as that is known.

    What is written is replaced by a newer one only while it could itself be the one: a file that is touched later
    was there nevertheless.
    """
    candidates = (
        sa.select(CheckpointTable.path)
        .where(
            CheckpointTable.run_id == AttemptTable.run_id,
            CheckpointTable.state == CheckpointState.COMPLETE,
            CheckpointTable.completed_at <= AttemptTable.started_at,
            CheckpointTable.gone_at.is_(None) | (CheckpointTable.gone_at > AttemptTable.started_at),
        )
        .correlate(AttemptTable)
    )
    newest_first = candidates.order_by(CheckpointTable.completed_at.desc(), CheckpointTable.path.desc())
    newest = newest_first.limit(1).scalar_subquery()
    order = sa.func.row_number().over(
        partition_by=AttemptTable.run_id, order_by=[AttemptTable.started_at.desc(), AttemptTable.id.desc()]
    )
    for chunk in split(run_ids):
        is_open = AttemptTable.run_id.in_(chunk) & AttemptTable.ended_at.is_(None)
        places = sa.select(AttemptTable.id, order.label("place")).where(is_open).subquery()
        latest = sa.select(places.c.id).where(places.c.place <= ATTEMPT_COUNT)
        located = sa.select(RunTable.id).where(RunTable.id.in_(chunk), RunTable.directory.like("/%"))
        connection.execute(
            sa.update(AttemptTable)
            .where(
                AttemptTable.run_id.in_(located),
                AttemptTable.id.in_(latest),
                AttemptTable.resumed_from.is_(None) | AttemptTable.resumed_from.in_(candidates),
                AttemptTable.resumed_from.is_distinct_from(newest),
            )
            .values(resumed_from=newest)
        )
