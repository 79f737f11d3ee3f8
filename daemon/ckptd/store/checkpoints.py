"""Checkpoints, and what each scan of a run's directory found."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import Checkpoint, JobKey, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.model.records import RevisionRise, ScanRecord
from ckptd.core.rows.stored_checkpoints import RowContext, key_of_path, shorten_path
from ckptd.core.rows.stored_unrecognised import encode_unrecognised
from ckptd.core.runs.ownership import PreviousScan
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.store import (
    adopted_checkpoints,
    checkpoint_rows,
    jobs,
    lost_work,
    new_checkpoints,
    restart_state,
    resumed_from,
    runs,
    saved_states,
)
from ckptd.store.attempt_rows import read_attempts
from ckptd.store.engine import select_through
from ckptd.store.recorded_rows import RecordedRows
from ckptd.store.revision_rises import list_rises
from ckptd.store.rows import ROW_IDS, split, table_of
from ckptd.store.tables import CheckpointTable, ClusterTable, RunTable
from ckptd.store.transactions import StorePart, reading, writing, writing_if_any

GONE_COUNT = 20_000  # deleted checkpoints of a run that stay recorded: names change faster than records expire
GONE_SLACK = 1.05  # so many times as many may be there for a while


class CheckpointStore(StorePart):
    """Checkpoints, and what each scan of a run's directory found."""

    def read(self, run: RunKey) -> tuple[RecordedCheckpoint, ...]:
        """Return a run's present checkpoints and its latest deleted ones, oldest first."""
        return self.read_many([run]).get(run, ())

    @reading
    def read_many(
        self, connection: sa.Connection, keys: Collection[RunKey]
    ) -> dict[RunKey, tuple[RecordedCheckpoint, ...]]:
        """Return the same for many runs; omit runs that are not recorded."""
        return checkpoint_rows.read_recorded(select_through(connection), keys)

    @reading
    def read_present(self, connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, RecordedRows]:
        """Return the checkpoints of these runs that are not deleted, oldest first; omit runs that are not recorded."""
        return checkpoint_rows.read_present(select_through(connection), keys)

    @reading
    def read_deleted_alike(
        self, connection: sa.Connection, found: Mapping[RunKey, Collection[Checkpoint]]
    ) -> dict[RunKey, tuple[RecordedCheckpoint, ...]]:
        """Return the deleted checkpoints that ones found by a scan may be; see `merge_scan`."""
        return checkpoint_rows.read_deleted_alike(select_through(connection), found)

    @writing
    def record_scans(self, connection: sa.Connection, looks: Collection[ScanRecord]) -> dict[RunKey, RevisionRise]:
        """Record what scans of runs' directories found, completely or not at all.

        A run that is no longer recorded, because it joined another one meanwhile, is skipped. Returned are the
        revisions of the runs with changes, if these are on record now and nothing else about their checkpoints changed;
        and of the others, if something beside their checkpoints did.
        """
        by_run = {look.run: look for look in looks}
        rows = {row_id: by_run[key] for key, row_id in runs.find_runs(connection, by_run).items()}
        before = _write_looks(connection, rows)
        restart_state.record_free_space(
            connection,
            {row_id: look.free_space_samples for row_id, look in rows.items() if look.free_space_samples is not None},
        )
        scans = {row_id: look.scan for row_id, look in rows.items() if isinstance(look.scan, Scan)}
        declaring = resumed_from.record_declared(connection, {row_id: scan.declared for row_id, scan in scans.items()})
        read_since = resumed_from.record_reads(
            connection, {row_id: scan.reads for row_id, scan in scans.items() if scan.reads}
        )
        recorded = _record_changes(connection, {row_id: look.changes for row_id, look in rows.items()})
        unchanged = [row_id for row_id, look in rows.items() if row_id in scans and look.changes.is_empty]
        adopted = adopted_checkpoints.adopt(connection, unchanged, GONE_COUNT)
        runs.touch_runs(connection, adopted)
        resumed_from.record_resumes(
            connection, {*resumed_from.list_unasked(connection, scans), *declaring, *read_since, *adopted}
        )
        lost_work.write_lines(connection, scans)
        _update_originals(connection, {row_id: look.changes for row_id, look in rows.items()})
        for cluster in {look.run.cluster for look in rows.values()}:
            found = [scan.scanned_at for row_id, scan in scans.items() if rows[row_id].run.cluster == cluster]
            if found:
                _record_cluster_scan(connection, cluster, max(found))
        after = runs.read_revisions(connection, recorded)
        same = {row_id: before[row_id] for row_id, look in rows.items() if look.changes.is_empty}
        risen = list_rises(connection, same, without=adopted)
        return risen | {rows[row_id].run: RevisionRise(before[row_id], after[row_id]) for row_id in recorded}

    @writing_if_any
    def record_searches(self, connection: sa.Connection, found: Mapping[RunKey, Unknown | None]) -> None:
        """Record why searches could not find runs' directories; None: the search was complete and found none."""
        rows = {row_id: found[key] for key, row_id in runs.find_runs(connection, found).items()}
        is_told = RunTable.unknown_what.is_not(None)
        settled = [row_id for row_id, doubt in rows.items() if doubt is None]
        changed: list[int] = []
        for chunk in split(settled):
            changed += connection.scalars(sa.select(RunTable.id).where(RunTable.id.in_(chunk), is_told))
        for chunk in split(changed):
            update = sa.update(RunTable).where(RunTable.id.in_(chunk))
            connection.execute(update.values(unknown_what=None, unknown_reason=None))
        doubts = {row_id: doubt for row_id, doubt in rows.items() if doubt is not None}
        values = [
            {"key_id": row, "unknown_what": each.what, "unknown_reason": each.reason} for row, each in doubts.items()
        ]
        if values:
            table = table_of(RunTable)
            connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)
        runs.touch_runs(connection, [*changed, *doubts])

    @reading
    def read_last_scans(
        self, connection: sa.Connection, cluster: str, keys: Collection[RunKey]
    ) -> dict[RunKey, PreviousScan]:
        """Return the last scan of each of these runs that is recorded, with its attempts, oldest first."""
        polled_at, polled_since = connection.execute(runs.POLLS, {"cluster": cluster}).one_or_none() or (None, None)
        rows = runs.find_runs(connection, keys)
        attempts = read_attempts(select_through(connection), rows.values())
        looks = {}
        for chunk in split(rows.values()):
            found = connection.execute(_LAST_LOOKS, {"row_ids": chunk})
            looks.update({row_id: (scanned_at, bool(whole)) for row_id, scanned_at, whole in found})
        return {
            key: PreviousScan(
                attempts=tuple(attempts[row_id]),
                scanned_at=looks[row_id][0],
                is_whole=looks[row_id][1],
                polled_at=polled_at,
                polled_since=polled_since,
            )
            for key, row_id in rows.items()
        }

    @writing
    def record_changes(self, connection: sa.Connection, run: RunKey, changes: CheckpointChanges) -> None:
        """Record new facts about some checkpoints of a run without a complete scan.

        This does not change whether they exist, because a later scan may have been recorded meanwhile.
        """
        _record_changes(connection, {runs.find_run(connection, run): changes}, is_scan=False)

    @writing
    def set_pinned(self, connection: sa.Connection, run: RunKey, path: str, *, is_pinned: bool) -> int:
        """Pin or unpin the present checkpoints at a path; return how many there are."""
        row_id = runs.find_run(connection, run)
        is_meant = is_at(row_id, shorten_path(path, run.directory)) & CheckpointTable.deleted_at.is_(None)
        found = connection.execute(sa.update(CheckpointTable).where(is_meant).values(is_pinned=is_pinned)).rowcount
        if found:
            runs.touch_runs(connection, [row_id])
        return found


def is_at(row_id: int, path: str) -> sa.ColumnElement[bool]:
    """Return the condition for the checkpoints of a run at a shortened path."""
    is_of_run = (CheckpointTable.run_id == row_id) & (CheckpointTable.path_key == key_of_path(path))
    return is_of_run & (CheckpointTable.path == path)


def _record_changes(
    connection: sa.Connection, by_row: Mapping[int, CheckpointChanges], *, is_scan: bool = True
) -> set[int]:
    """Record changes; return the runs with changes of which none was left out."""
    touched = {row_id: changes for row_id, changes in by_row.items() if not changes.is_empty}
    if not touched:
        return set()
    contexts = _read_contexts(connection, touched)
    everything = [each for c in touched.values() for each in (*c.gone, *c.changed, *c.appeared) if each.attempt]
    attempts = jobs.find_attempt_rows(connection, [each.attempt for each in everything if each.attempt])
    updated = {row_id: (*changes.gone, *changes.changed) for row_id, changes in touched.items()}
    _update(connection, updated, contexts, attempts, is_scan=is_scan)
    left_out = new_checkpoints.insert(
        connection, {row_id: changes.appeared for row_id, changes in touched.items()}, contexts, attempts
    )
    saves = [
        (each.completed_at, attempts.get(each.attempt)) for each in everything if each.completed_at and each.attempt
    ]
    saved = sorted((completed_at, attempt_id) for completed_at, attempt_id in saves if attempt_id is not None)
    lost_work.reopen_dated(connection, {row_id: changes.changed for row_id, changes in touched.items()})
    lost_work.reopen_found(connection, {row_id: changes.appeared for row_id, changes in touched.items()})
    lost_work.reopen_late(connection, {attempt_id: completed_at for completed_at, attempt_id in saved}, list(touched))
    adopted = adopted_checkpoints.adopt(connection, touched, GONE_COUNT) if is_scan else []
    forgotten = _forget_gone(connection, [row_id for row_id, changes in touched.items() if changes.gone])
    runs.touch_runs(connection, touched)
    resumed_from.record_resumes(connection, touched)
    return {*touched} - left_out - forgotten - {*adopted}


def _read_contexts(connection: sa.Connection, row_ids: Collection[int]) -> dict[int, RowContext]:
    """Return what the rows of these runs leave out, and let no other transaction add checkpoints to them meanwhile."""
    found: dict[int, RowContext] = {}
    for chunk in split(sorted(row_ids)):
        rows = connection.execute(_LOCKED_RUNS, {"row_ids": chunk})
        found.update((row_id, RowContext(directory, uid)) for row_id, directory, uid in rows)
    return found


_LOCKED_RUNS = (
    sa.select(RunTable.id, RunTable.directory, RunTable.uid)
    .where(RunTable.id.in_(ROW_IDS))
    .order_by(RunTable.id)
    .with_for_update(key_share=True)
)


def _update_originals(connection: sa.Connection, by_row: Mapping[int, CheckpointChanges]) -> None:
    """Ask again what the runs lost and resumed from whose copies these are."""
    appeared = {row_id: changes.appeared for row_id, changes in by_row.items() if changes.appeared}
    primaries = saved_states.find_primary_rows(connection, appeared)
    if primaries:
        since = min(each.checkpoint.modified_at for changes in appeared.values() for each in changes)
        lost_work.reopen_since(connection, primaries, since)
        lost_work.write_lines(connection, primaries)
        resumed_from.record_resumes(connection, primaries)


def _forget_gone(connection: sa.Connection, row_ids: Collection[int]) -> set[int]:
    """Delete the rows of the longest-deleted checkpoints of runs that have very many; keep those that ckptd removed.

    Return the runs that lost some. Many go at once, because their records must be read anew.
    """
    forgotten: set[int] = set()
    for chunk in split(row_ids):
        of_runs = sa.select(CheckpointTable.run_id).where(CheckpointTable.run_id.in_(chunk))
        many = of_runs.group_by(CheckpointTable.run_id).having(sa.func.count() > GONE_COUNT * GONE_SLACK)
        for row_id in connection.scalars(many).all():
            is_gone = (CheckpointTable.run_id == row_id) & CheckpointTable.deleted_at.is_not(None)
            gone = sa.select(CheckpointTable.id).where(is_gone)
            gone_count = connection.scalar(sa.select(sa.func.count()).select_from(gone.subquery())) or 0
            if gone_count <= GONE_COUNT * GONE_SLACK:
                continue
            old = gone.order_by(CheckpointTable.deleted_at.desc(), CheckpointTable.id.desc()).offset(GONE_COUNT)
            is_old = CheckpointTable.id.in_(old) & CheckpointTable.pruned_at.is_(None)
            if connection.execute(sa.delete(CheckpointTable).where(is_old)).rowcount:
                forgotten.add(row_id)
    return forgotten


_LOOK_COLUMNS: list[Any] = [
    RunTable.unknown_what,
    RunTable.unknown_reason,
    RunTable.problems,
    RunTable.leftovers,
    RunTable.unrecognised_file,
    RunTable.filesystem_type,
    RunTable.quota_error,
    RunTable.links,
]
_MOVING_COLUMNS: list[Any] = [
    RunTable.free_bytes,
    RunTable.total_bytes,
    RunTable.quota_left_bytes,
    RunTable.scanned_at,
]  # with every scan, so the revision does not increase
_runs = table_of(RunTable)
_LAST_LOOKS = sa.select(
    RunTable.id, RunTable.scanned_at, RunTable.unknown_what.is_(None) & RunTable.problems.is_(None)
).where(RunTable.id.in_(ROW_IDS))
_AT = sa.bindparam("key_at", type_=ClusterTable.scanned_at.type)
_WRITE_CLUSTER_SCAN = (
    sa.update(ClusterTable)
    .where(
        ClusterTable.name == sa.bindparam("key_cluster"),
        ClusterTable.scanned_at.is_(None) | (ClusterTable.scanned_at < _AT),
    )
    .values(scanned_at=_AT)
)
_LOOKS = (
    sa.select(_runs.c.id, _runs.c.revision, *_LOOK_COLUMNS, *_MOVING_COLUMNS)
    .where(_runs.c.id.in_(ROW_IDS))
    .order_by(_runs.c.id)
    .with_for_update(key_share=True)
)
_WRITE_LOOK = (
    sa.update(_runs)
    .where(_runs.c.id == sa.bindparam("key_id"))
    .values(revision=_runs.c.revision + sa.bindparam("rise", type_=sa.Integer()))
)


def _write_looks(connection: sa.Connection, looks: Mapping[int, ScanRecord]) -> dict[int, int]:
    """Write the results of scans; increase the revision only of runs whose result changed.

    Return the revisions before, and let no other transaction change these runs meanwhile.
    """
    revisions: dict[int, int] = {}
    names = [column.name for column in (*_LOOK_COLUMNS, *_MOVING_COLUMNS)]
    values = []
    for chunk in split(sorted(looks)):
        for row_id, revision, *before in connection.execute(_LOOKS, {"row_ids": chunk}):
            revisions[row_id] = revision
            after = _look_values(looks[row_id].scan, before)
            is_first = before[-1] is None
            rise = is_first or before[: len(_LOOK_COLUMNS)] != after[: len(_LOOK_COLUMNS)]
            values.append({"key_id": row_id, "rise": int(rise), **dict(zip(names, after, strict=True))})
    if values:
        connection.execute(_WRITE_LOOK, values)
    return revisions


def _look_values(scan: Scan | Unknown, before: list[Any]) -> list[Any]:
    """Return a scan's values in the order of the columns; a failed scan keeps the values of the last one."""
    if isinstance(scan, Unknown):
        return [scan.what, scan.reason, *before[2:]]
    problems = [[problem.what, problem.reason] for problem in scan.problems] or None
    unrecognised = encode_unrecognised(scan.unrecognised)
    found = [None, None, problems, list(scan.leftovers) or None, unrecognised, scan.filesystem_type]
    links = [list(link) for link in scan.links] or None
    moving = [scan.free_bytes, scan.total_bytes, scan.quota_left_bytes, scan.scanned_at]
    return [*found, scan.quota_error, links, *moving]


def _record_cluster_scan(connection: sa.Connection, cluster: str, scanned_at: datetime) -> None:
    connection.execute(_WRITE_CLUSTER_SCAN, {"key_cluster": cluster, "key_at": scanned_at})


def _update(
    connection: sa.Connection,
    changed: Mapping[int, Iterable[RecordedCheckpoint]],
    contexts: Mapping[int, RowContext],
    attempts: dict[tuple[JobKey, int], int],
    *,
    is_scan: bool,
) -> None:
    pairs = ((row_id, known) for row_id, found in changed.items() for known in found)
    while some := list(islice(pairs, new_checkpoints.AT_ONCE)):
        values = []
        for row_id, known in some:
            row = new_checkpoints.to_row(known, row_id, contexts[row_id], attempts)
            # a person, an act or a comparison may have changed them since it was read
            del row["is_pinned"], row["pruned_at"], row["comparisons"]
            keys = {f"key_{name}": row.pop(name) for name in _KEY}
            deleted_at = row.pop("deleted_at")
            values.append(row | keys | ({"found_deleted_at": deleted_at} if is_scan else {}))
        connection.execute(_UPDATE_FOUND if is_scan else _UPDATE, values)


def _update_found() -> sa.Update:
    """Return the update of what a scan found; what was moved to the trash since then stays there."""
    columns = table_of(CheckpointTable).c
    found = sa.bindparam("found_deleted_at", type_=columns.deleted_at.type)
    in_trash = sa.func.coalesce(columns.deleted_at, found)
    return _UPDATE.values(deleted_at=sa.case((columns.pruned_at.is_(None), found), else_=in_trash))


_KEY = ("run_id", "path_key", "path", "format", "first_seen_at")
_UPDATE = sa.update(table_of(CheckpointTable)).where(
    *(table_of(CheckpointTable).c[name] == sa.bindparam(f"key_{name}") for name in _KEY)
)
_UPDATE_FOUND = _update_found()
