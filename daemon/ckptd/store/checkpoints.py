"""Checkpoints, and what each look at a run's directory found."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import JobKey, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.progress import CheckpointChanges
from ckptd.store import jobs, ledger, resumes, runs
from ckptd.store.rows import (
    CHECKPOINT_COLUMNS,
    RECORD_COLUMNS,
    checkpoint_from_row,
    checkpoint_to_row,
    split,
    table_of,
)
from ckptd.store.tables import AttemptTable, CheckpointTable, ClusterTable, JobTable, RunTable

REMEMBERED_COUNT = 256  # gone checkpoints of a run that are compared with what a look finds

_ATTEMPT_COLUMNS = [JobTable.cluster, JobTable.job_id, JobTable.first_seen_at, AttemptTable.restart_count]
_COLUMNS = [CheckpointTable.run_id, *_ATTEMPT_COLUMNS, *RECORD_COLUMNS, *CHECKPOINT_COLUMNS]


def read_recorded(connection: sa.Connection, key: RunKey) -> tuple[RecordedCheckpoint, ...]:
    """Return all present checkpoints of a run and the latest gone ones, oldest first."""
    row_id = runs.find_runs(connection, [key]).get(key)
    if row_id is None:
        return ()
    is_present = CheckpointTable.gone_at.is_(None)
    of_run = select_checkpoints().where(CheckpointTable.run_id == row_id)
    newest_gone = of_run.where(~is_present).order_by(CheckpointTable.gone_at.desc()).limit(REMEMBERED_COUNT)
    rows = [*connection.execute(of_run.where(is_present)), *connection.execute(newest_gone)]
    found = [from_row(row) for row in rows]
    return tuple(sorted(found, key=age_order))


def select_checkpoints() -> sa.Select[Any]:
    """Return the query whose rows `from_row` reads; its first column is the run's row number."""
    return (
        sa.select(*_COLUMNS)
        .outerjoin(AttemptTable, CheckpointTable.attempt_id == AttemptTable.id)
        .outerjoin(JobTable, AttemptTable.job_row == JobTable.id)
    )


def from_row(row: Sequence[Any]) -> RecordedCheckpoint:
    _, cluster, job_id, first_seen_at, restart_count, *rest = row
    attempt = (JobKey(cluster, job_id, first_seen_at), restart_count) if cluster is not None else None
    return checkpoint_from_row(rest[: len(RECORD_COLUMNS)], rest[len(RECORD_COLUMNS) :], attempt)


def age_order(recorded: RecordedCheckpoint) -> tuple[datetime, datetime, str]:
    return recorded.first_seen_at, recorded.checkpoint.modified_at, str(recorded.checkpoint.path)


def record_scan(connection: sa.Connection, key: RunKey, changes: CheckpointChanges, scan: Scan | Unknown) -> None:
    """Write what one look at a run's directory changed, and how far it can be trusted."""
    row_id = runs.find_run(connection, key)
    _write_look(connection, row_id, scan)
    if isinstance(scan, Scan):
        note_cluster_scan(connection, key.cluster, scan.scanned_at)
    _record_changes(connection, row_id, changes)
    if isinstance(scan, Scan):
        ledger.write_lines(connection, [row_id])


def record_changes(connection: sa.Connection, key: RunKey, changes: CheckpointChanges) -> None:
    """Write what is known of some checkpoints of a run beside a look at all of them."""
    _record_changes(connection, runs.find_run(connection, key), changes)


def _record_changes(connection: sa.Connection, row_id: int, changes: CheckpointChanges) -> None:
    if changes.is_empty:
        return
    everything = (*changes.gone, *changes.changed, *changes.appeared)
    attempts = jobs.find_attempt_rows(connection, [known.attempt for known in everything if known.attempt])
    _update(connection, row_id, (*changes.gone, *changes.changed), attempts)
    if changes.appeared:
        values = [_to_row(known, row_id, attempts) for known in changes.appeared]
        connection.execute(sa.insert(CheckpointTable), values)
    runs.touch_runs(connection, [row_id])
    resumes.note_resumes(connection, [row_id])


def _write_look(connection: sa.Connection, row_id: int, scan: Scan | Unknown) -> None:
    """Write the look itself; the revision rises only when it says something else than the last one did."""
    if isinstance(scan, Unknown):
        values: dict[str, Any] = {"unknown_what": scan.what, "unknown_reason": scan.reason}
    else:
        values = {
            "unknown_what": None,
            "unknown_reason": None,
            "problems": [[problem.what, problem.reason] for problem in scan.problems] or None,
            "leftovers": list(scan.leftovers) or None,
            "free_bytes": scan.free_bytes,
            "total_bytes": scan.total_bytes,
            "filesystem_type": scan.filesystem_type,
        }
    named = [getattr(RunTable, name) for name in values]
    before = connection.execute(sa.select(*named).where(RunTable.id == row_id)).one()
    if list(before) != list(values.values()):
        values["revision"] = RunTable.revision + 1
    if isinstance(scan, Scan):
        values["scanned_at"] = scan.scanned_at
    connection.execute(sa.update(RunTable).where(RunTable.id == row_id).values(**values))


def record_unchanged(connection: sa.Connection, keys: Collection[RunKey], scanned_at: datetime) -> None:
    """Write that a look found these runs' directories as they were."""
    for chunk in split(runs.find_runs(connection, keys).values()):
        connection.execute(sa.update(RunTable).where(RunTable.id.in_(chunk)).values(scanned_at=scanned_at))
        ledger.write_lines(connection, chunk)
    for cluster in {key.cluster for key in keys}:
        note_cluster_scan(connection, cluster, scanned_at)


def note_cluster_scan(connection: sa.Connection, cluster: str, scanned_at: datetime) -> None:
    is_older = ClusterTable.scanned_at.is_(None) | (ClusterTable.scanned_at < scanned_at)
    connection.execute(
        sa.update(ClusterTable).where(ClusterTable.name == cluster, is_older).values(scanned_at=scanned_at)
    )


def set_pinned(connection: sa.Connection, key: RunKey, path: str, *, is_pinned: bool) -> int:
    """Pin or unpin the present checkpoints at a path; return how many there are."""
    row_id = runs.find_run(connection, key)
    rows = connection.execute(
        sa.select(CheckpointTable.id, CheckpointTable.path).where(
            CheckpointTable.run_id == row_id, CheckpointTable.gone_at.is_(None)
        )
    )
    found = [checkpoint_id for checkpoint_id, known in rows if known == path]
    for chunk in split(found):
        connection.execute(sa.update(CheckpointTable).where(CheckpointTable.id.in_(chunk)).values(is_pinned=is_pinned))
    if found:
        runs.touch_runs(connection, [row_id])
    return len(found)


def _update(
    connection: sa.Connection,
    row_id: int,
    changed: Iterable[RecordedCheckpoint],
    attempts: dict[tuple[JobKey, int], int],
) -> None:
    table = table_of(CheckpointTable)
    values = []
    for known in changed:
        row = _to_row(known, row_id, attempts)
        del row["is_pinned"], row["pruned_at"]  # a person or an act may have changed them since it was read
        keys = {f"key_{name}": row.pop(name) for name in ("run_id", "path_hash", "format", "first_seen_at")}
        values.append(row | keys)
    if values:
        statement = sa.update(table).where(
            table.c.run_id == sa.bindparam("key_run_id"),
            table.c.path_hash == sa.bindparam("key_path_hash"),
            table.c.format == sa.bindparam("key_format"),
            table.c.first_seen_at == sa.bindparam("key_first_seen_at"),
        )
        connection.execute(statement, values)


def _to_row(known: RecordedCheckpoint, row_id: int, attempts: dict[tuple[JobKey, int], int]) -> dict[str, Any]:
    attempt_id = attempts.get(known.attempt) if known.attempt else None
    return checkpoint_to_row(known) | {"run_id": row_id, "attempt_id": attempt_id}
