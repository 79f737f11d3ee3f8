"""What comparing copies with their originals found, in the rows of the copies."""

import sqlalchemy as sa

from ckptd.core.model import ContentComparison, RecordedCheckpoint, RunKey
from ckptd.core.rows.stored_checkpoints import shorten_path
from ckptd.core.rows.stored_comparisons import decode_comparisons, encode_comparisons
from ckptd.core.runs.compared_content import add_comparison
from ckptd.store import lost_work, runs, saved_states
from ckptd.store.checkpoints import is_at
from ckptd.store.tables import CheckpointTable
from ckptd.store.transactions import StorePart, writing


class ComparisonStore(StorePart):
    """The comparisons of copies. Scans never overwrite them."""

    @writing
    def add(self, connection: sa.Connection, run: RunKey, copy: RecordedCheckpoint, found: ContentComparison) -> bool:
        """Record what comparing a copy in the directory of `run` found; False: the copy is not on record."""
        row_id = runs.find_run(connection, run)
        is_meant = is_at(row_id, shorten_path(str(copy.checkpoint.path), run.directory))
        is_meant &= CheckpointTable.format == copy.checkpoint.format
        is_meant &= CheckpointTable.first_seen_at == copy.first_seen_at
        rows = connection.execute(sa.select(CheckpointTable.comparisons).where(is_meant).with_for_update()).all()
        for (known,) in rows:
            added = encode_comparisons(add_comparison(decode_comparisons(known), found))
            connection.execute(sa.update(CheckpointTable).where(is_meant).values(comparisons=added))
            runs.touch_runs(connection, [row_id])
        primaries = saved_states.find_primary_rows(connection, [row_id]) if rows else []
        if primaries:  # the work that a copy saved depends on its content
            lost_work.reopen_since(connection, primaries, copy.first_seen_at)
            lost_work.write_lines(connection, primaries)
        return bool(rows)
