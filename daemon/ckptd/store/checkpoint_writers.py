"""Corrects which attempt wrote a checkpoint, once a later attempt is known that had already started then.

A poll shows a restart some time after it started. A checkpoint that it saves before that poll looks like the last one
of the previous attempt, whose processes may continue for a while after its end.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

import sqlalchemy as sa

from ckptd.core.runs.ownership import is_last_save
from ckptd.store import lost_work
from ckptd.store.rows import ROW_IDS, split
from ckptd.store.tables import AttemptTable, CheckpointTable

SCAN_TOLERANCE = timedelta(minutes=5)  # by which this host's clock may be behind slurmctld's
# one that was found unfinished may be complete because a later attempt saved it again under the same name
_THERE_AT = sa.case(
    (CheckpointTable.started_writing_at >= CheckpointTable.first_seen_at, CheckpointTable.completed_at),
    else_=CheckpointTable.first_seen_at,
)
_later = sa.orm.aliased(AttemptTable)
_WRITTEN_LATER = (
    sa.select(
        CheckpointTable.id,
        CheckpointTable.run_id,
        AttemptTable.id,
        _later.id,
        CheckpointTable.modified_at,
        AttemptTable.ended_at,
        _later.started_at,
        AttemptTable.run_id == CheckpointTable.run_id,
        _THERE_AT,
    )
    .join(AttemptTable, CheckpointTable.attempt_id == AttemptTable.id)
    .join(_later, _later.run_id == CheckpointTable.run_id)
    .where(
        CheckpointTable.run_id.in_(ROW_IDS),
        CheckpointTable.modified_at > AttemptTable.ended_at,
        _later.started_at > AttemptTable.started_at,
        _later.started_at <= CheckpointTable.modified_at,
    )
    .order_by(_later.started_at, _later.id)
)


def correct_writers(connection: sa.Connection, run_ids: Collection[int]) -> set[int]:
    """Assign checkpoints written after an attempt's end to the attempt of its run that had started last by then.

    One that a scan had found complete before that start was written by a file server whose clock is ahead.

    Return the runs of these checkpoints. The caller must measure the lost work of the attempts that lose a checkpoint
    again. Another part of the run, on another cluster, measures that of its own.
    """
    changed: set[int] = set()
    for chunk in split(run_ids):
        rows = connection.execute(_WRITTEN_LATER, {"row_ids": chunk}).all()
        wrong = [
            (checkpoint, run_id, before if is_own else None, writer)
            for checkpoint, run_id, before, writer, written_at, ended_at, next_at, is_own, there_at in rows
            if not _was_there(there_at, next_at)
            and (ended_at is None or not is_last_save(written_at, ended_at, next_at))
        ]
        writers = {checkpoint: writer for checkpoint, *_, writer in wrong}
        for checkpoint, writer in writers.items():
            connection.execute(
                sa.update(CheckpointTable).where(CheckpointTable.id == checkpoint).values(attempt_id=writer)
            )
        lost_work.reopen_lines(connection, {before for _, _, before, _ in wrong if before is not None})
        changed.update(run_id for _, run_id, *_ in wrong)
    return changed


def _was_there(there_at: datetime | None, next_at: datetime) -> bool:
    """Whether a scan had found a checkpoint before an attempt started, whatever its time of writing says."""
    return there_at is not None and there_at < next_at - SCAN_TOLERANCE
