"""Data of pruning beside the histories: what selects a run's policy, user settings, and moved checkpoints."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core import retention
from ckptd.core.model import Job, RunKey, RunRecord
from ckptd.core.model.records import AuditEntry, PrunableRun
from ckptd.store import audit, locations, runs
from ckptd.store.histories import HistoryCache
from ckptd.store.rows import JOB_COLUMNS, RUN_KEY_COLUMNS, job_from_row, run_key, split
from ckptd.store.tables import CheckpointTable, JobTable, RunTable, hash_path
from ckptd.store.transactions import Database, StorePart, reading, writing

HELD_COUNT = 100_000  # checkpoints that pruning may keep in memory


class PruneRecordStore(StorePart):
    """Data that pruning reads and writes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._histories = HistoryCache(held_count=HELD_COUNT, is_whole=True)

    @reading
    def read(
        self, connection: sa.Connection, cluster: str, keys: Collection[RunKey] | None = None
    ) -> list[PrunableRun]:
        """Return pruning's data of these runs; with `keys` None, of all runs with at least two checkpoints."""
        wanted = _list_plural(connection, cluster) if keys is None else keys
        found = self._histories.read(connection, cluster, wanted, is_active_only=False)
        primaries = locations.read_primaries(connection, cluster, [each.key for each in found])
        found = [replace(each, primaries=primaries.get(each.key, ())) for each in found]
        owners = {each.key: each.primaries[0] for each in found if each.is_only_copy and each.primaries}
        copied = self._histories.read(connection, cluster, owners.values(), is_active_only=False) if owners else []
        by_key = {each.key: each for each in copied}
        found = [
            retention.plan_as_copy(each, by_key[owners[each.key]])
            if each.is_only_copy and len(each.primaries) == 1
            else each
            for each in found
        ]
        return _add_facts(connection, cluster, found, owners)

    @writing
    def finish(self, connection: sa.Connection, entry: AuditEntry, first_seen_at: datetime, *, is_pruned: bool) -> None:
        """Record how an action on a checkpoint ended, and whether the checkpoint is in the trash then."""
        assert entry.audit_id is not None
        assert entry.run is not None
        assert entry.outcome is not None
        assert entry.finished_at is not None
        audit.finish_audit(connection, entry.audit_id, entry.outcome, entry.finished_at, entry.details)
        _mark_pruned(connection, entry.run, entry.target, first_seen_at, entry.finished_at if is_pruned else None)


def _list_plural(connection: sa.Connection, cluster: str) -> list[RunKey]:
    """Return the runs with at least two present checkpoints, because pruning never removes the only one."""
    rows = connection.execute(
        sa.select(*RUN_KEY_COLUMNS)
        .join(CheckpointTable, CheckpointTable.run_id == RunTable.id)
        .where(RunTable.cluster == cluster, RunTable.directory.like("/%"))
        .where(CheckpointTable.deleted_at.is_(None), CheckpointTable.pruned_at.is_(None))
        .group_by(RunTable.id, *RUN_KEY_COLUMNS)
        .having(sa.func.count() > 1)
    )
    return [run_key(row) for row in rows]


def _add_facts(
    connection: sa.Connection, cluster: str, histories: Collection[RunRecord], owners: Mapping[RunKey, RunKey]
) -> list[PrunableRun]:
    """Add the latest job and the user settings to each history; to that of a copy, those of its run in `owners`."""
    found_runs = runs.find_runs(connection, [owners.get(history.key, history.key) for history in histories])
    numbers = {history.key: found_runs[owners.get(history.key, history.key)] for history in histories}
    jobs: dict[int, Job] = {}
    settings: dict[int, Mapping[str, Mapping[str, Any]]] = {}
    for chunk in split(numbers.values()):
        latest = sa.select(sa.func.max(JobTable.id)).where(JobTable.run_id.in_(chunk)).group_by(JobTable.run_id)
        rows = connection.execute(
            sa.select(*JOB_COLUMNS, JobTable.run_id).where(JobTable.id.in_(latest), JobTable.cluster == cluster)
        )
        jobs |= {row[-1]: job_from_row(row) for row in rows}
        found = connection.execute(sa.select(RunTable.id, RunTable.retention_settings).where(RunTable.id.in_(chunk)))
        settings |= {
            row_id: retention.sort_retention_settings(found_settings or {}) for row_id, found_settings in found
        }
    return [
        PrunableRun(
            history=history,
            job=jobs.get(numbers[history.key]),
            retention_settings=settings.get(numbers[history.key], {}),
        )
        for history in histories
    ]


def _mark_pruned(
    connection: sa.Connection, key: RunKey, path: str, first_seen_at: datetime, pruned_at: datetime | None
) -> None:
    """Record that a checkpoint was moved to the trash, possibly after a scan noticed it; None: that it was restored.

    A scan between the restore and this call recorded the checkpoint as a new one; that row is deleted.
    """
    row_id = runs.find_run(connection, key)
    deleted_at = None if pruned_at is None else sa.func.coalesce(CheckpointTable.deleted_at, _instant(pruned_at))
    is_there = (CheckpointTable.run_id == row_id) & (CheckpointTable.path_hash == hash_path(path))
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
