"""Finds the jobs on record that only read the checkpoints of their run: see `core.runs.checkpoint_readers`."""

from collections.abc import Collection

import sqlalchemy as sa

from ckptd.core.model import JobKey, Role
from ckptd.core.runs.checkpoint_readers import find_reader_names, list_spans
from ckptd.store.attempt_rows import read_attempts, read_job_names
from ckptd.store.engine import select_through
from ckptd.store.run_parts import find_parts
from ckptd.store.tables import CheckpointTable

SAVE_COUNT = 1000  # latest saves of a run that tell who makes them


def find_reading_jobs(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, frozenset[JobKey]]:
    """Return the jobs that only read, of those of these runs whose jobs have different names."""
    select = select_through(connection)
    found: dict[int, frozenset[JobKey]] = {}
    parts = find_parts(select, run_ids)
    for run_id, names in read_job_names(select, run_ids, parts).items():
        saved = connection.execute(
            sa.select(CheckpointTable.completed_at, CheckpointTable.role)
            .where(CheckpointTable.run_id == run_id, CheckpointTable.completed_at.is_not(None))
            .order_by(CheckpointTable.completed_at.desc())
            .limit(SAVE_COUNT)
        ).all()
        states = [at for at, role in saved if at is not None and role == Role.STATE]
        instants = states or [at for at, _ in saved if at is not None]
        readers = find_reader_names(list_spans(read_attempts(select, [run_id], parts)[run_id], names), instants)
        found[run_id] = frozenset(key for key, name in names.items() if name in readers)
    return found
