"""Inserts the checkpoints that a scan found for the first time."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import JobKey, RecordedCheckpoint
from ckptd.core.rows.stored_checkpoints import RowContext, checkpoint_to_row
from ckptd.store.bulk_inserts import insert_rows
from ckptd.store.rows import ROW_IDS, split, table_of
from ckptd.store.tables import CheckpointTable

AT_ONCE = 5000  # rows in memory: a directory may have a hundred thousand


def insert(
    connection: sa.Connection,
    appeared: Mapping[int, Iterable[RecordedCheckpoint]],
    contexts: Mapping[int, RowContext],
    attempts: dict[tuple[JobKey, int], int],
) -> set[int]:
    """Insert new checkpoints, some thousands at a time; return the runs of which one may have been left out."""
    left_out: set[int] = set()
    pairs = ((row_id, each) for row_id, found in appeared.items() for each in found)
    while some := list(islice(pairs, AT_ONCE)):
        values = [to_row(each, row_id, contexts[row_id], attempts) for row_id, each in some]
        new = _without_present(connection, values)
        insert_rows(connection, table_of(CheckpointTable), new)
        if len(new) < len(values):
            left_out |= {row_id for row_id, _ in some}
    return left_out


def to_row(
    known: RecordedCheckpoint, row_id: int, context: RowContext, attempts: dict[tuple[JobKey, int], int]
) -> dict[str, Any]:
    attempt_id = attempts.get(known.attempt) if known.attempt else None
    return checkpoint_to_row(known, context) | {"run_id": row_id, "attempt_id": attempt_id}


def _without_present(connection: sa.Connection, values: Collection[dict[str, Any]]) -> list[dict[str, Any]]:
    """Omit new checkpoints at paths that already have one; the next scan compares that one with the disk.

    It was restored from the trash, or recorded by another process, after the scan had read the database. With two
    present rows for one path, disk and record would never agree.
    """
    present: set[tuple[int, str, str]] = set()
    for chunk in split(values):
        asked = {name: list({row[name] for row in chunk}) for name in ("run_id", "path_key")}
        found = connection.execute(_PRESENT, {"row_ids": asked["run_id"], "path_keys": asked["path_key"]})
        present.update((run_id, path, kind) for run_id, path, kind in found)
    return [row for row in values if (row["run_id"], row["path"], row["format"]) not in present]


_PRESENT = sa.select(CheckpointTable.run_id, CheckpointTable.path, CheckpointTable.format).where(
    CheckpointTable.run_id.in_(ROW_IDS),
    CheckpointTable.path_key.in_(sa.bindparam("path_keys", expanding=True)),
    CheckpointTable.deleted_at.is_(None),
)
