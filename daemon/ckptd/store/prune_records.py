"""Data of pruning beside the histories: what selects a run's policy, user settings, and moved checkpoints."""

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.model.records import AuditEntry
from ckptd.core.rows.stored_checkpoints import shorten_path
from ckptd.store import audit, runs
from ckptd.store.checkpoints import is_at
from ckptd.store.prunable_runs import PrunableRunReader
from ckptd.store.tables import CheckpointTable
from ckptd.store.transactions import StorePart, writing

Occurrence = tuple[str, datetime]  # of a checkpoint: its path, and when it was first seen there


class PruneRecordStore(StorePart, PrunableRunReader):
    """Data that pruning reads and writes."""

    @writing
    def finish(self, connection: sa.Connection, entry: AuditEntry, first_seen_at: datetime, *, is_pruned: bool) -> None:
        """Record how an action on a checkpoint ended, and whether the checkpoint is in the trash then."""
        assert entry.audit_id is not None
        assert entry.run is not None
        assert entry.outcome is not None
        assert entry.finished_at is not None
        audit.finish_audit(connection, entry.audit_id, entry.outcome, entry.finished_at, entry.details)
        _mark_pruned(connection, entry.run, entry.target, first_seen_at, entry.finished_at if is_pruned else None)

    @writing
    def record_removed_elsewhere(
        self,
        connection: sa.Connection,
        key: RunKey,
        moved: Mapping[Occurrence, datetime],
        brought: Mapping[Occurrence, datetime],
    ) -> None:
        """Record deleted checkpoints as pruned by another daemon, and present ones as back after that."""
        row_id = runs.find_run(connection, key)
        update = sa.update(CheckpointTable)
        for (path, first_seen_at), pruned_at in moved.items():
            is_meant = is_at(row_id, shorten_path(path, key.directory)) & CheckpointTable.pruned_at.is_(None)
            is_meant &= (CheckpointTable.first_seen_at == first_seen_at) & CheckpointTable.deleted_at.is_not(None)
            connection.execute(update.where(is_meant).values(pruned_at=pruned_at))
        for (path, first_seen_at), moved_at in brought.items():
            is_meant = is_at(row_id, shorten_path(path, key.directory)) & CheckpointTable.deleted_at.is_(None)
            is_meant &= CheckpointTable.first_seen_at == first_seen_at
            connection.execute(update.where(is_meant).values(renamed_at=moved_at))
        runs.touch_runs(connection, [row_id])


def _mark_pruned(
    connection: sa.Connection, key: RunKey, path: str, first_seen_at: datetime, pruned_at: datetime | None
) -> None:
    """Record that a checkpoint was moved to the trash, possibly after a scan noticed it; None: that it was restored.

    A scan between the restore and this call recorded the checkpoint as a new one; that row is deleted.
    """
    row_id = runs.find_run(connection, key)
    deleted_at = None if pruned_at is None else sa.func.coalesce(CheckpointTable.deleted_at, _instant(pruned_at))
    is_there = is_at(row_id, shorten_path(path, key.directory))
    is_meant = is_there & (CheckpointTable.first_seen_at == first_seen_at)
    if pruned_at is None:
        before = connection.scalar(sa.select(sa.func.max(CheckpointTable.pruned_at)).where(is_meant))
        if before is not None:
            is_later = CheckpointTable.first_seen_at >= before
            connection.execute(
                sa.delete(CheckpointTable).where(is_there, is_later, CheckpointTable.deleted_at.is_(None))
            )
    connection.execute(sa.update(CheckpointTable).where(is_meant).values(pruned_at=pruned_at, deleted_at=deleted_at))
    runs.touch_runs(connection, [row_id])


def _instant(at: datetime) -> sa.BindParameter[datetime]:
    return sa.bindparam("at", at, unique=True, type_=CheckpointTable.deleted_at.type)
