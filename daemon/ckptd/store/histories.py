"""Records of runs, read with a few queries regardless of their number.

Runs whose revision, read in the same transaction, did not change are taken from a cache. The number of checkpoints in
the cache is bounded. Plain SQL, so that commands read the same records without SQLAlchemy.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import SUSPENDED_STATES, CopyLocation, Job, NamedLocation, RunKey, RunRecord, Scan, Unknown
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import encode_text
from ckptd.core.runs.earlier_directories import join_earlier
from ckptd.store.fresh_checkpoints import (
    FreshCheckpoints,
    SelectedCheckpoints,
    ShownCheckpoints,
    follow,
    select_checkpoints,
)
from ckptd.store.history_rows import CHECKPOINT_LIMIT, Others, load_records, read_other_writers
from ckptd.store.named_locations import list_keys, read_locations
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import Columns, list_numbers
from ckptd.store.read_parts import Readable, ReadPart, selecting
from ckptd.store.row_values import hash_path, split
from ckptd.store.run_parts import read_part_writers
from ckptd.store.run_rows import find_revisions, find_runs

HELD_COUNT = 200_000  # checkpoints in memory, about 1.5 kB each


@dataclass(frozen=True, slots=True)
class _Held:
    revision: int
    directory_hash: str  # a database may give the number of a row that was deleted to another
    history: RunRecord


class _Wanted(NamedTuple):
    row_id: int
    revision: int
    uid: int
    directory_hash: str
    scanned_at: datetime | None
    free_bytes: int | None
    quota_left_bytes: int | None


class ChangedRecords(NamedTuple):
    """The records of runs whose revision changed, oldest row first, and the runs that are no longer recorded."""

    records: dict[RunKey, "RevisedRecord"]
    missing: frozenset[RunKey]


class RevisedRecord(NamedTuple):
    """A run's record with its place in the order of runs and its revision, read in one transaction."""

    row_id: int
    revision: int
    record: RunRecord
    shown: ShownCheckpoints | None = None  # of the record; None: not looked at yet


class HistoryReader(ReadPart):
    """Records of runs, for rules, pages and commands."""

    def __init__(self, database: Readable) -> None:
        super().__init__(database)
        self.cache = HistoryCache()
        self.fresh = FreshCheckpoints()

    @selecting
    def read(
        self,
        select: Select,
        cluster: str,
        keys: Collection[RunKey] | None = None,
        *,
        active_only: bool = False,
        forgets_others: bool = False,
    ) -> list[RunRecord]:
        """Return the records of these runs, or of all runs of the cluster if `keys` is None.

        Active runs are those with an open job or an open flag: a flag must resolve when its run's jobs have ended.
        With `forgets_others`, no other run stays in the cache.
        A record contains only the newest checkpoints (CHECKPOINT_LIMIT); CheckpointStore.read returns all.
        """
        found = self.cache.read(select, cluster, keys, is_active_only=active_only)
        if forgets_others and keys is not None:
            self.cache.forget_others(keys)
        return found

    @selecting
    def read_changed(self, select: Select, known: Mapping[RunKey, "RevisedRecord | None"]) -> ChangedRecords:
        """Return the records of those runs whose row or revision is not the known one; None: nothing is known.

        Nothing is cached: the caller keeps the records. What changes with every poll and scan is as it was recorded.
        """
        found = find_revisions(select, known)
        places = {key: None if each is None else (each.row_id, each.revision) for key, each in known.items()}
        changed = {row[0]: key for key, row in found.items() if places[key] != row}
        selected = {row_id: self._select_fresh(key, found[key], known[key]) for row_id, key in changed.items()}
        kept = {row_id: each for row_id, each in selected.items() if each is not None}
        fresh = load_records(select, sorted(changed), is_whole=False, selected=kept)
        records = {
            changed[row_id]: RevisedRecord(row_id, revision, record) for row_id, (revision, record) in fresh.items()
        }
        return ChangedRecords(records, frozenset(known.keys() - found.keys()))

    def _select_fresh(
        self, key: RunKey, row: tuple[int, int], known: "RevisedRecord | None"
    ) -> SelectedCheckpoints | None:
        """Return what a run's history has of its checkpoints, if that follows from a scan that was just recorded."""
        row_id, revision = row
        update = self.fresh.take(key, revision)
        if update is None:
            return None
        if update.before is None:
            return select_checkpoints(update.changes.appeared, key.uid, CHECKPOINT_LIMIT)
        if known is None or (known.row_id, known.revision) != (row_id, update.before):
            return None
        shown = known.shown or ShownCheckpoints.of(known.record.checkpoints)
        return follow(known.record, update, CHECKPOINT_LIMIT, shown)


class HistoryCache:
    """Reads histories and caches those that did not change."""

    def __init__(self, *, held_count: int = HELD_COUNT, is_whole: bool = False) -> None:
        self._is_whole = is_whole  # with all checkpoints that are there, and the latest deleted ones
        self._held: dict[int, _Held] = {}
        self._held_count = held_count

    def read(
        self, select: Select, cluster: str, keys: Collection[RunKey] | None, *, is_active_only: bool
    ) -> list[RunRecord]:
        """Return the histories of the runs with these keys (None: all of the cluster), in the order of row ids."""
        polled = select("SELECT polled_at FROM clusters WHERE name = :cluster", {"cluster": encode_text(cluster)})
        polled_at = next((instant(row[0]) for row in polled), None)
        wanted = _select_runs(select, cluster, keys, is_active_only=is_active_only)
        fresh = self._load_changed(select, wanted)
        others = read_other_writers(select, cluster)
        elsewhere = read_part_writers(select, [each.row_id for each in wanted])
        result = [
            _bring_up(self._find(each, fresh), polled_at, each, others, elsewhere.get(each.row_id, ()))
            for each in wanted
        ]
        named = read_locations(select, [each.row_id for each in wanted])
        copied = {
            key
            for each, record in zip(wanted, result, strict=True)
            for key in list_keys(record.key, named.get(each.row_id, ()))
        }
        further = _select_runs(select, cluster, copied, is_active_only=False) if copied else []
        fresh |= self._load_changed(select, further)
        copies = [_bring_up(self._find(each, fresh), polled_at, each, others) for each in further]
        self._hold(fresh, {each.row_id for each in (*wanted, *further)} if keys is None else None)
        by_key = {record.key: record for record in copies}
        return [
            self._join(record, _copies_of(record.key, named[each.row_id], by_key)) if each.row_id in named else record
            for each, record in zip(wanted, result, strict=True)
        ]

    def _join(self, record: RunRecord, locations: tuple[CopyLocation, ...]) -> RunRecord:
        """Add the further locations; pruning plans each of them by itself."""
        return replace(record, copies=locations) if self._is_whole else join_earlier(record, locations)

    def _load_changed(self, select: Select, wanted: Collection[_Wanted]) -> dict[int, _Held]:
        changed = [each.row_id for each in wanted if not self._is_held(each)]
        return {
            row_id: _Held(revision, hash_path(record.key.directory), record)
            for row_id, (revision, record) in load_records(select, changed, is_whole=self._is_whole).items()
        }

    def _find(self, wanted: _Wanted, fresh: Mapping[int, _Held]) -> _Held:
        return fresh.get(wanted.row_id) or self._held[wanted.row_id]

    def forget_others(self, keys: Collection[RunKey]) -> None:
        """Remove all other runs from the cache."""
        wanted = set(keys)
        self._held = {row_id: held for row_id, held in self._held.items() if held.history.key in wanted}

    def _is_held(self, wanted: _Wanted) -> bool:
        held = self._held.get(wanted.row_id)
        return (
            held is not None
            and held.revision == wanted.revision
            and held.directory_hash == wanted.directory_hash
            and held.history.key.uid == wanted.uid
        )

    def _hold(self, fresh: dict[int, _Held], only: set[int] | None) -> None:
        held = {**self._held, **fresh}
        if only is not None:
            held = {row_id: entry for row_id, entry in held.items() if row_id in only}
        left_count = self._held_count
        kept: dict[int, _Held] = {}
        for row_id, entry in held.items():
            left_count -= len(entry.history.checkpoints) + 1
            if left_count < 0:
                break
            kept[row_id] = entry
        self._held = kept


def _copies_of(
    key: RunKey, named: Iterable[NamedLocation], by_key: Mapping[RunKey, RunRecord]
) -> tuple[CopyLocation, ...]:
    """Return the further locations of a run, with what the last scan found in each."""
    found: list[CopyLocation] = []
    for each in named:
        record = by_key.get(key._replace(directory=each.directory)) if each.is_scanned else None
        trouble = None if each.trouble is None else Unknown(what=each.directory, reason=each.trouble)
        found.append(
            CopyLocation(
                directory=each.directory,
                scan=trouble if record is None else record.scan,
                checkpoints=() if record is None else record.checkpoints,
                is_absent=each.is_absent,
                is_earlier=each.is_earlier,
            )
        )
    return tuple(found)


_ACTIVE = """
AND r.id IN (
    SELECT run_id FROM jobs WHERE cluster = :cluster AND ended_at IS NULL
    UNION SELECT run_id FROM flags WHERE resolved_at IS NULL
)
"""
_WANTED = Columns(("id", "revision", "uid", "directory_hash", "scanned_at", "free_bytes", "quota_left_bytes"))


def _select_runs(
    select: Select, cluster: str, keys: Collection[RunKey] | None, *, is_active_only: bool
) -> list[_Wanted]:
    statement = f"SELECT {_WANTED.of('r')} FROM runs r WHERE r.cluster = :cluster {_ACTIVE if is_active_only else ''}"  # noqa: S608
    values = {"cluster": encode_text(cluster)}
    if keys is None:
        return [_Wanted(*_WANTED.decode(row)) for row in select(f"{statement} ORDER BY r.id", values)]
    result: list[_Wanted] = []
    for chunk in split(find_runs(select, keys).values()):
        rows = select(f"{statement} AND r.id IN ({list_numbers(chunk)})", values)
        result += [_Wanted(*_WANTED.decode(row)) for row in rows]
    return sorted(result, key=lambda each: each.row_id)


def _bring_up(
    held: _Held,
    polled_at: datetime | None,
    row: _Wanted,
    others: Others,
    elsewhere: Iterable[tuple[Job, str]] = (),
) -> RunRecord:
    """Return a history with the data that changes at every poll and scan: times, free space, other writers."""
    history = held.history
    scan = history.scan
    if isinstance(scan, Scan) and row.scanned_at is not None and scan.scanned_at != row.scanned_at:
        scan = replace(
            scan, scanned_at=row.scanned_at, free_bytes=row.free_bytes, quota_left_bytes=row.quota_left_bytes
        )
    shared = others.get((history.key.cluster, history.key.directory), ())
    return replace(
        history,
        jobs=tuple(with_time_left(job, polled_at) for job in history.jobs),
        suspended_until=_suspensions(history, polled_at),
        polled_at=polled_at,
        scan=scan,
        other_writers=(*((job, user) for key, job, user in shared if key != history.key), *elsewhere),
    )


def _suspensions(history: RunRecord, polled_at: datetime | None) -> Mapping[int, datetime]:
    """Return when each job was last suspended; for a job that is suspended, the time of the last poll."""
    now = [job.job_id for job in history.jobs if job.state in SUSPENDED_STATES]
    if not now or polled_at is None:
        return history.suspended_until
    return {**history.suspended_until, **dict.fromkeys(now, polled_at)}


def with_time_left(job: Job, at: datetime | None) -> Job:
    """Return a job with its time left at an instant; it decreases for running jobs only."""
    if at is None or job.ends_at is None or job.time_left is None or not job.is_running:
        return job
    return replace(job, time_left=max(job.ends_at - at, timedelta(0)))
