"""Runs that may have saved in a format that ckptd does not know: of their attempts nobody knows what was lost."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from ckptd.core.rows.stored_unrecognised import decode_unrecognised
from ckptd.store.rows import ROW_IDS
from ckptd.store.tables import CheckpointTable, RunTable

_POSSIBLE = sa.select(RunTable.id, RunTable.unrecognised_file).where(
    RunTable.id.in_(ROW_IDS),
    RunTable.unrecognised_file.is_not(None),
    ~sa.exists().where(CheckpointTable.run_id == RunTable.id),
)


def read_possible_saves(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, datetime]:
    """Return when the newest file of no known format was written, of runs without a checkpoint on record."""
    rows = connection.execute(_POSSIBLE, {"row_ids": list(run_ids)})
    found = {row_id: decode_unrecognised(values) for row_id, values in rows}
    return {row_id: file.modified_at for row_id, file in found.items() if file is not None}
