"""Runs whose files of unknown formats may be checkpoints, so that the lost work of their attempts is not known."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from ckptd.core.rows.stored_unrecognised import decode_unrecognised
from ckptd.store.rows import ROW_IDS, split
from ckptd.store.saved_states import find_copy_rows
from ckptd.store.tables import CheckpointTable, RunTable

_POSSIBLE = sa.select(RunTable.id, RunTable.unrecognised_file).where(
    RunTable.id.in_(ROW_IDS), RunTable.unrecognised_file.is_not(None)
)
_USED = sa.select(RunTable.id).where(
    RunTable.id.in_(ROW_IDS),
    RunTable.summed_checkpoints.is_not(None) | sa.exists().where(CheckpointTable.run_id == RunTable.id),
)


def read_possible_saves(connection: sa.Connection, run_ids: Collection[int]) -> dict[int, datetime]:
    """Return when the newest file of no known format was written, of runs without a checkpoint on record.

    Further locations of the runs count as well: for their files, and for their checkpoints.
    """
    further = find_copy_rows(connection, run_ids)
    places = {run_id: {run_id, *(each.row_id for each in further.get(run_id, ()))} for run_id in run_ids}
    written: dict[int, datetime] = {}
    for chunk in split(set().union(*places.values())):
        for row_id, values in connection.execute(_POSSIBLE, {"row_ids": chunk}):
            if (file := decode_unrecognised(values)) is not None:
                written[row_id] = file.modified_at
    found = {
        run_id: max(written[each] for each in own & written.keys())
        for run_id, own in places.items()
        if own & written.keys()
    }
    used: set[int] = set()
    for chunk in split({row_id for run_id in found for row_id in places[run_id]}):
        used.update(connection.scalars(_USED, {"row_ids": chunk}))
    return {run_id: written_at for run_id, written_at in found.items() if places[run_id].isdisjoint(used)}
