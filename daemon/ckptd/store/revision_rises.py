"""How changes raised the revisions of runs, and which of these changes left a run's checkpoints as they were.

What is known of the checkpoints at the lower revision then holds at the higher one, too, and need not be read again.
"""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.model.records import RevisionRise
from ckptd.store.rows import ROW_IDS, RUN_KEY_COLUMNS, run_key, split
from ckptd.store.tables import RunTable


def lock_revisions(connection: sa.Connection, row_ids: Collection[int]) -> dict[int, int]:
    """Return the revisions of these runs, and let no other transaction raise them before this one ends."""
    found: dict[int, int] = {}
    for chunk in split(sorted(row_ids)):
        found.update((row_id, revision) for row_id, revision in connection.execute(_LOCKED, {"row_ids": chunk}))
    return found


def list_rises(
    connection: sa.Connection, before: Mapping[int, int], *, without: Collection[int] = ()
) -> dict[RunKey, RevisionRise]:
    """Return the runs whose revision rose from the one before; `without` are those whose checkpoints changed."""
    found: dict[RunKey, RevisionRise] = {}
    for chunk in split(before.keys() - set(without)):
        for row_id, revision, *key in connection.execute(_REVISIONS, {"row_ids": chunk}):
            if revision != before[row_id]:
                found[run_key(key)] = RevisionRise(before[row_id], revision)
    return found


_LOCKED = (
    sa.select(RunTable.id, RunTable.revision)
    .where(RunTable.id.in_(ROW_IDS))
    .order_by(RunTable.id)
    .with_for_update(key_share=True)
)
_COLUMNS: list[Any] = [RunTable.id, RunTable.revision, *RUN_KEY_COLUMNS]
_REVISIONS = sa.select(*_COLUMNS).where(RunTable.id.in_(ROW_IDS))
