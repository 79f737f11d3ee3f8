"""Records of runs, read with a few queries regardless of their number.

Runs whose revision, read in the same transaction, did not change are taken from a cache. The number of checkpoints in
the cache is bounded.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core.discovery.generic_job_names import is_generic
from ckptd.core.model import (
    SUSPENDED_STATES,
    CheckpointState,
    CopyLocation,
    Job,
    JobState,
    NamedLocation,
    RecordedCheckpoint,
    Role,
    RunKey,
    RunRecord,
    Scan,
    Totals,
    Unknown,
    UserSettings,
)
from ckptd.core.runs.attempt_progress import SavedProgress, measure_reaches
from ckptd.core.runs.cadence import with_rhythm
from ckptd.core.runs.user_settings import parse_user_settings
from ckptd.store import checkpoints, jobs, locations, restart_state, runs
from ckptd.store.columns import Json
from ckptd.store.rows import JOB_COLUMNS, RUN_KEY_COLUMNS, job_from_row, run_key, split
from ckptd.store.tables import CheckpointTable, ClusterTable, FlagTable, JobTable, RunTable, hash_path
from ckptd.store.transactions import Database, StorePart, reading

# newest ones in a history, and newest ones that were complete once: enough for medians of intervals, and failed saves
# hide none that a restart can load; pruning reads all of them
CHECKPOINT_LIMIT = 64
HELD_COUNT = 200_000  # checkpoints in memory, about 1.5 kB each

_RUN_COLUMNS = [
    RunTable.user,
    RunTable.located_by,
    RunTable.recorded_since,
    RunTable.problems,
    RunTable.leftovers,
    RunTable.free_bytes,
    RunTable.total_bytes,
    RunTable.quota_left_bytes,
    RunTable.quota_error,
    RunTable.filesystem_type,
    RunTable.unknown_what,
    RunTable.unknown_reason,
]
_LEARNED_COLUMNS = [RunTable.user_settings, RunTable.free_space_samples]


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


class HistoryStore(StorePart):
    """Records of runs, for rules, pages and pruning."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.cache = HistoryCache()

    @reading
    def read(
        self,
        connection: sa.Connection,
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
        found = self.cache.read(connection, cluster, keys, is_active_only=active_only)
        if forgets_others and keys is not None:
            self.cache.forget_others(keys)
        return found

    @reading
    def read_changed(self, connection: sa.Connection, known: Mapping[RunKey, tuple[int, int] | None]) -> ChangedRecords:
        """Return the records of those runs whose row or revision is not the known one; None: nothing is known.

        Nothing is cached: the caller keeps the records. What changes with every poll and scan is as it was recorded.
        """
        numbers = runs.find_runs(connection, known)
        revisions: dict[int, int] = {}
        for chunk in split(numbers.values()):
            statement = sa.select(RunTable.id, RunTable.revision).where(RunTable.id.in_(chunk))
            revisions.update((row_id, revision) for row_id, revision in connection.execute(statement))
        changed = {row_id: key for key, row_id in numbers.items() if known[key] != (row_id, revisions[row_id])}
        fresh = _load(connection, sorted(changed), is_whole=False)
        records = {
            changed[row_id]: RevisedRecord(row_id, held.revision, held.history) for row_id, held in fresh.items()
        }
        return ChangedRecords(records, frozenset(known.keys() - numbers.keys()))


class HistoryCache:
    """Reads histories and caches those that did not change."""

    def __init__(self, *, held_count: int = HELD_COUNT, is_whole: bool = False) -> None:
        self._is_whole = is_whole  # with all checkpoints that are there, and the latest gone ones
        self._held: dict[int, _Held] = {}
        self._held_count = held_count

    def read(
        self, connection: sa.Connection, cluster: str, keys: Collection[RunKey] | None, *, is_active_only: bool
    ) -> list[RunRecord]:
        """Return the histories of the runs with these keys (None: all of the cluster), in the order of row ids."""
        polled_at = connection.scalar(sa.select(ClusterTable.polled_at).where(ClusterTable.name == cluster))
        wanted = _select_runs(connection, cluster, keys, is_active_only=is_active_only)
        fresh = self._load_changed(connection, wanted)
        others = _read_other_writers(connection, cluster)
        result = [_bring_up(self._find(each, fresh), polled_at, each, others) for each in wanted]
        named = locations.read_locations(connection, [each.row_id for each in wanted])
        copied = {
            key
            for each, record in zip(wanted, result, strict=True)
            for key in locations.list_keys(record.key, named.get(each.row_id, ()))
        }
        further = _select_runs(connection, cluster, copied, is_active_only=False) if copied else []
        fresh |= self._load_changed(connection, further)
        copies = [_bring_up(self._find(each, fresh), polled_at, each, others) for each in further]
        self._hold(fresh, {each.row_id for each in (*wanted, *further)} if keys is None else None)
        by_key = {record.key: record for record in copies}
        return [
            replace(record, copies=_copies_of(record.key, named[each.row_id], by_key))
            if each.row_id in named
            else record
            for each, record in zip(wanted, result, strict=True)
        ]

    def _load_changed(self, connection: sa.Connection, wanted: Collection[_Wanted]) -> dict[int, _Held]:
        changed = [each.row_id for each in wanted if not self._is_held(each)]
        return _load(connection, changed, is_whole=self._is_whole)

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
            )
        )
    return tuple(found)


def _select_runs(
    connection: sa.Connection, cluster: str, keys: Collection[RunKey] | None, *, is_active_only: bool
) -> list[_Wanted]:
    columns: list[Any] = [
        RunTable.id,
        RunTable.revision,
        RunTable.uid,
        RunTable.directory_hash,
        RunTable.scanned_at,
        RunTable.free_bytes,
        RunTable.quota_left_bytes,
    ]
    statement = sa.select(*columns).where(RunTable.cluster == cluster)
    if is_active_only:
        open_runs = sa.select(JobTable.run_id).where(JobTable.cluster == cluster, JobTable.ended_at.is_(None))
        flagged_runs = sa.select(FlagTable.run_id).where(FlagTable.resolved_at.is_(None))
        statement = statement.where(RunTable.id.in_(open_runs.union(flagged_runs)))
    if keys is None:
        return [_Wanted(*row) for row in connection.execute(statement.order_by(RunTable.id))]
    result: list[_Wanted] = []
    for chunk in split(runs.find_runs(connection, keys).values()):
        result += [_Wanted(*row) for row in connection.execute(statement.where(RunTable.id.in_(chunk)))]
    return sorted(result, key=lambda each: each.row_id)


def _load(connection: sa.Connection, row_ids: Collection[int], *, is_whole: bool) -> dict[int, _Held]:
    result: dict[int, _Held] = {}
    for chunk in split(row_ids):
        open_jobs, suspended = _load_jobs(connection, chunk)
        attempts = jobs.read_attempts(connection, chunk)
        found = _load_checkpoints(connection, chunk, is_whole=is_whole)
        saved = _load_saved(connection, [row_id for row_id in chunk if len(found[row_id]) >= CHECKPOINT_LIMIT])
        savers = _find_savers(connection, chunk)
        totals = _load_totals(connection, list(saved))
        rows = connection.execute(
            sa.select(
                RunTable.id,
                RunTable.revision,
                RunTable.scanned_at,
                *_LEARNED_COLUMNS,
                *RUN_KEY_COLUMNS,
                *_RUN_COLUMNS,
            ).where(RunTable.id.in_(chunk))
        )
        for row_id, revision, scanned_at, user_settings, free_space, *rest in rows:
            key, (user, located_by, since, *look) = run_key(rest), rest[3:]
            history = RunRecord(
                key=key,
                user=user,
                located_by=located_by,
                jobs=tuple(open_jobs[row_id]),
                suspended_until=suspended[row_id],
                attempts=tuple(attempts[row_id]),
                checkpoints=tuple(found[row_id]),
                polled_at=None,
                scan=_scan(key, scanned_at, look, found[row_id]),
                recorded_since=since,
                user_settings=parse_user_settings(user_settings) if user_settings else UserSettings(),
                free_space_samples=restart_state.decode_free_space(free_space),
                has_saved_before=row_id in savers,
                is_truncated=row_id in saved,
                totals=totals.get(row_id),
                reaches=measure_reaches(attempts[row_id], saved[row_id]) if row_id in saved else None,
            )
            held = history if is_whole else with_rhythm(history)  # pruning asks for none
            result[row_id] = _Held(revision, hash_path(key.directory), held)
    return result


def _load_jobs(
    connection: sa.Connection, row_ids: list[int]
) -> tuple[dict[int, list[Job]], dict[int, dict[int, datetime]]]:
    """Return the open jobs of each run, and the end of the last suspension of those that were suspended."""
    result: dict[int, list[Job]] = defaultdict(list)
    suspended: dict[int, dict[int, datetime]] = defaultdict(dict)
    rows = connection.execute(
        sa.select(*JOB_COLUMNS, JobTable.suspended_until, JobTable.run_id)
        .where(JobTable.run_id.in_(row_ids), JobTable.ended_at.is_(None))
        .order_by(JobTable.id)
    )
    for row in rows:
        *_, until, row_id = row
        job = job_from_row(row)
        result[row_id].append(job)
        if until is not None:
            suspended[row_id][job.job_id] = until
    return result, suspended


def _load_checkpoints(
    connection: sa.Connection, row_ids: list[int], *, is_whole: bool
) -> dict[int, list[RecordedCheckpoint]]:
    order = sa.func.row_number().over(
        partition_by=CheckpointTable.run_id,
        order_by=[CheckpointTable.first_seen_at.desc(), CheckpointTable.modified_at.desc(), CheckpointTable.id],
    )
    was_complete = CheckpointTable.completed_at.is_not(None)
    was_state = was_complete & (CheckpointTable.role == Role.STATE)
    is_usable = CheckpointTable.deleted_at.is_(None) & (CheckpointTable.state == CheckpointState.COMPLETE)
    by_progress = [
        sa.func.coalesce(CheckpointTable.step, -1).desc(),
        sa.func.coalesce(CheckpointTable.epoch, -1.0).desc(),
        CheckpointTable.first_seen_at.desc(),
        CheckpointTable.id.desc(),
    ]
    ranked = (
        sa.select(
            CheckpointTable.id,
            order.label("place"),
            _rank_among(was_complete, CheckpointTable.completed_at.desc(), CheckpointTable.id).label("completed"),
            _rank_among(was_complete, *by_progress).label("reach"),
            # data beside the states must not hide them, however often they are written
            _rank_among(was_state, CheckpointTable.completed_at.desc(), CheckpointTable.id).label("states"),
            _rank_among(was_state, *by_progress).label("state_reach"),
            _rank_among(is_usable, CheckpointTable.modified_at.desc(), CheckpointTable.id).label("usable"),
            _rank_among(is_usable, *by_progress).label("usable_reach"),
            was_complete.label("was_complete"),
            was_state.label("was_state"),
            is_usable.label("is_usable"),
        )
        .where(CheckpointTable.run_id.in_(row_ids))
        .subquery()
    )
    limit = checkpoints.REMEMBERED_COUNT if is_whole else CHECKPOINT_LIMIT
    newest = sa.select(ranked.c.id).where(
        (ranked.c.place <= limit)
        # include the furthest one, however old: rules compare a restart's progress with it
        | (ranked.c.was_complete & ((ranked.c.completed <= limit) | (ranked.c.reach == 1)))
        | (ranked.c.was_state & ((ranked.c.states <= limit) | (ranked.c.state_reach == 1)))
        | (ranked.c.is_usable & ((ranked.c.usable == 1) | (ranked.c.usable_reach == 1)))
    )
    is_wanted = CheckpointTable.id.in_(newest) | CheckpointTable.id.in_(_select_odd(row_ids))
    if is_whole:
        is_wanted = is_wanted | (CheckpointTable.run_id.in_(row_ids) & CheckpointTable.deleted_at.is_(None))
    return checkpoints.read_where(connection, is_wanted)


def _find_savers(connection: sa.Connection, row_ids: list[int]) -> set[int]:
    """Return the runs without a directory whose users' other jobs of the same name and place saved checkpoints.

    A name that jobs of any kind have tells nothing.
    """
    is_unlocated = RunTable.directory.not_like("/%")
    columns: list[Any] = [RunTable.cluster, RunTable.uid, JobTable.name, JobTable.work_dir]
    rows = connection.execute(
        sa.select(JobTable.run_id, *columns)
        .join(RunTable, RunTable.id == JobTable.run_id)
        .where(JobTable.run_id.in_(row_ids), JobTable.ended_at.is_(None), is_unlocated, JobTable.work_dir.is_not(None))
    )
    wanted = {row[0]: tuple(row[1:]) for row in rows if not is_generic(row.name)}
    if not wanted:
        return set()
    names = {each[2] for each in wanted.values()}
    has_saved = sa.exists().where(CheckpointTable.run_id == RunTable.id, CheckpointTable.completed_at.is_not(None))
    saving: set[tuple[Any, ...]] = set()
    for chunk in split(names):
        found = connection.execute(
            sa.select(*columns)
            .distinct()
            .join(RunTable, RunTable.id == JobTable.run_id)
            .where(RunTable.uid.in_({each[1] for each in wanted.values()}), JobTable.name.in_(chunk))
            .where(RunTable.directory.like("/%"), has_saved)
        )
        saving |= {tuple(row) for row in found}
    return {row_id for row_id, each in wanted.items() if each in saving}


def _rank_among(is_one: sa.ColumnElement[bool], *order: Any) -> sa.Over[int]:
    """Number the checkpoints of each run that fulfil a condition, in an order; the others come behind them."""
    return sa.func.row_number().over(
        partition_by=CheckpointTable.run_id, order_by=[sa.case((is_one, 0), else_=1), *order]
    )


def _load_totals(connection: sa.Connection, row_ids: list[int]) -> dict[int, Totals]:
    """Return what all checkpoints that are there add up to, of each run."""
    is_present = CheckpointTable.run_id.in_(row_ids) & CheckpointTable.deleted_at.is_(None)
    good = (
        sa.select(CheckpointTable.run_id, sa.func.max(CheckpointTable.modified_at).label("modified_at"))
        .where(is_present, CheckpointTable.state == CheckpointState.COMPLETE)
        .group_by(CheckpointTable.run_id)
        .subquery()
    )
    is_later = good.c.modified_at.is_(None) | (CheckpointTable.modified_at > good.c.modified_at)
    is_damaged = (CheckpointTable.state == CheckpointState.DAMAGED) & is_later
    rows = connection.execute(
        sa.select(
            CheckpointTable.run_id,
            sa.func.count(),
            sa.func.sum(
                sa.cast(CheckpointTable.size_bytes, sa.Float)
            ),  # sparse files may claim more than a whole number holds
            sa.func.sum(sa.case((is_damaged, 1), else_=0)),
        )
        .outerjoin(good, good.c.run_id == CheckpointTable.run_id)
        .where(is_present)
        .group_by(CheckpointTable.run_id)
    )
    found = {row_id: Totals(int(count), int(size), int(damaged)) for row_id, count, size, damaged in rows}
    return {row_id: found.get(row_id, Totals(0, 0, 0)) for row_id in row_ids}


def _select_odd(row_ids: list[int]) -> sa.Select[Any]:
    """Select present checkpoints that can open a flag at any age: unsafe, of another owner, or unfinished.

    The limit per run is that of its newest checkpoints; if there are more, those selected suffice for the flag.
    """
    owners = sa.type_coerce(CheckpointTable.owner_uids, sa.Text)
    own = sa.literal("[") + sa.cast(RunTable.uid, sa.Text) + sa.literal("]")
    is_odd = (
        (CheckpointTable.unsafe != sa.literal([], Json))
        | owners.not_in([own, sa.literal("[]")])
        | (CheckpointTable.state == CheckpointState.WRITING)
    )
    place = sa.func.row_number().over(
        partition_by=CheckpointTable.run_id, order_by=[CheckpointTable.first_seen_at.desc(), CheckpointTable.id]
    )
    odd = (
        sa.select(CheckpointTable.id, place.label("place"))
        .join(RunTable, RunTable.id == CheckpointTable.run_id)
        .where(CheckpointTable.run_id.in_(row_ids), CheckpointTable.deleted_at.is_(None), is_odd)
        .subquery()
    )
    return sa.select(odd.c.id).where(odd.c.place <= CHECKPOINT_LIMIT)


def _load_saved(connection: sa.Connection, row_ids: list[int]) -> dict[int, list[SavedProgress]]:
    """Return the completion time and progress of every checkpoint of these runs, without a limit."""
    result: dict[int, list[SavedProgress]] = {row_id: [] for row_id in row_ids}
    rows = connection.execute(
        sa.select(
            CheckpointTable.run_id,
            CheckpointTable.completed_at,
            CheckpointTable.step,
            CheckpointTable.epoch,
            CheckpointTable.role,
        ).where(CheckpointTable.run_id.in_(row_ids), CheckpointTable.completed_at.is_not(None))
    )
    for row_id, completed_at, step, epoch, role in rows:
        if completed_at is not None:
            result[row_id].append(SavedProgress(completed_at, step, epoch, is_state=role is Role.STATE))
    return result


def _scan(
    key: RunKey, scanned_at: datetime | None, look: list[Any], found: list[RecordedCheckpoint]
) -> Scan | Unknown | None:
    problems, leftovers, free_bytes, total_bytes, quota_left, quota_error, kind, what, reason = look
    if what is not None:
        return Unknown(what=what, reason=reason)
    if scanned_at is None:
        return None
    return Scan(
        directory=PurePosixPath(key.directory),
        scanned_at=scanned_at,
        checkpoints=tuple(known.checkpoint for known in found if known.deleted_at is None),
        problems=tuple(Unknown(what=problem[0], reason=problem[1]) for problem in problems or ()),
        leftovers=tuple(leftovers or ()),
        free_bytes=free_bytes,
        total_bytes=total_bytes,
        quota_left_bytes=quota_left,
        quota_error=quota_error,
        filesystem_type=kind,
    )


Others = dict[tuple[str, str], list[tuple[RunKey, Job, str]]]


def _read_other_writers(connection: sa.Connection, cluster: str) -> Others:
    """Return the running jobs of the directories that several users' runs share, by directory."""
    shared = (
        sa.select(RunTable.directory_hash)
        .where(RunTable.cluster == cluster, RunTable.directory.like("/%"))
        .group_by(RunTable.directory_hash)
        .having(sa.func.count() > 1)
    )
    rows = connection.execute(
        sa.select(*RUN_KEY_COLUMNS, RunTable.user, *JOB_COLUMNS)
        .join(JobTable, JobTable.run_id == RunTable.id)
        .where(
            RunTable.cluster == cluster,
            RunTable.directory_hash.in_(shared),
            JobTable.ended_at.is_(None),
            JobTable.state == JobState.RUNNING,
        )
    )
    result: Others = defaultdict(list)
    for row in rows:
        key = run_key(row)
        result[key.cluster, key.directory].append((key, job_from_row(row[4:]), str(row[3])))
    return result


def _bring_up(held: _Held, polled_at: datetime | None, row: _Wanted, others: Others) -> RunRecord:
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
        other_writers=tuple((job, user) for key, job, user in shared if key != history.key),
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
