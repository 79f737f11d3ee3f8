"""Runs: found by their key, inserted if new, joined when a job's directory is found."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core import queue
from ckptd.core.model import COPY, JobKey, RunKey
from ckptd.core.model.records import LocationRecord
from ckptd.core.model.resume_json import decode_resume
from ckptd.core.runs import candidate_reads
from ckptd.store import run_parts, run_rows
from ckptd.store.bulk_inserts import insert_rows
from ckptd.store.engine import select_through
from ckptd.store.location_tables import LocationTable
from ckptd.store.row_values import hash_path
from ckptd.store.rows import ROW_IDS, RUN_KEY_COLUMNS, run_key, split, table_of
from ckptd.store.run_rows import RunReader
from ckptd.store.tables import (
    AttemptTable,
    AuditTable,
    CheckpointTable,
    ClusterTable,
    FlagTable,
    JobTable,
    NoticeTable,
    RunTable,
)
from ckptd.store.transactions import StorePart, reading

MAX_WORK_DIRS = 8  # of one run, the newest jobs'
MAX_RESUMING_JOBS = 20  # of one run, the newest


class OpenResume(NamedTuple):
    """What a scan may still learn about what attempts of a run resumed from.

    `job_ids` are those of its latest jobs, newest first; `candidates` what the newest attempt may have loaded, where it
    helps to know which of them was read since its start.
    """

    job_ids: tuple[int, ...]
    started_at: datetime
    candidates: tuple[str, ...]


def ensure_cluster(connection: sa.Connection, cluster: str) -> None:
    """Insert the cluster's row if there is none."""
    if connection.scalar(_CLUSTER, {"cluster": cluster}) is None:
        connection.execute(sa.insert(ClusterTable).values(name=cluster))


_CLUSTER = sa.select(ClusterTable.name).where(ClusterTable.name == sa.bindparam("cluster"))
POLLS = sa.select(ClusterTable.polled_at, ClusterTable.polled_since).where(
    ClusterTable.name == sa.bindparam("cluster")
)  # the last successful one, and since when there was no gap


def find_runs(connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, int]:
    """Return the row ids of the recorded runs among these."""
    return run_rows.find_runs(select_through(connection), keys)


def find_run(connection: sa.Connection, key: RunKey) -> int:
    """Return the row id of a run.

    Raises:
        UnknownRunError: the run is not recorded.

    """
    return run_rows.find_run(select_through(connection), key)


class RunLocation(NamedTuple):
    """A run, its user, and how its directory was found."""

    key: RunKey
    user: str
    located_by: str | None


def insert_runs(connection: sa.Connection, runs: Iterable[RunLocation], now: datetime) -> None:
    """Record new runs."""
    values = [
        {
            "cluster": key.cluster,
            "uid": key.uid,
            "directory": key.directory,
            "directory_hash": hash_path(key.directory),
            "user": user,
            "located_by": located_by,
            "recorded_since": now,
            "revision": 0,
        }
        for key, user, located_by in runs
    ]
    insert_rows(connection, table_of(RunTable), values)


def touch_runs(connection: sa.Connection, row_ids: Collection[int]) -> None:
    """Increase the revision of changed runs, so that readers discard their cached copies."""
    for chunk in split(row_ids):
        connection.execute(_TOUCH, {"row_ids": chunk})


_TOUCH = sa.update(RunTable).where(RunTable.id.in_(ROW_IDS)).values(revision=RunTable.revision + 1)


def read_revisions(connection: sa.Connection, row_ids: Collection[int]) -> dict[int, int]:
    """Return the revision of each of these runs."""
    found: dict[int, int] = {}
    for chunk in split(row_ids):
        found.update((row_id, revision) for row_id, revision in connection.execute(_REVISIONS, {"row_ids": chunk}))
    return found


_REVISIONS = sa.select(RunTable.id, RunTable.revision).where(RunTable.id.in_(ROW_IDS))


def assign_runs(connection: sa.Connection, found: Collection[LocationRecord], now: datetime) -> set[int]:
    """Assign jobs to runs, with the attempts that have no other directory; see LocatedRunStore.record.

    Return the runs that got checkpoints of others.
    """
    for cluster in {each.run.cluster for each in found}:
        ensure_cluster(connection, cluster)
    keys = {each.run: RunLocation(each.run, each.user, each.located_by) for each in found}
    known = find_runs(connection, keys)
    joined = {each.run for each in found if each.jobs or each.run.is_located}
    insert_runs(connection, [place for key, place in keys.items() if key not in known and key in joined], now)
    targets = find_runs(connection, keys)
    _record_locators(connection, {targets[each.run]: each.located_by for each in found if each.located_by})
    continued = {each.continues: targets[each.run] for each in found if each.continues is not None}
    _continue_runs(connection, {row_id: continued[key] for key, row_id in find_runs(connection, continued).items()})
    moves = _find_moves(connection, {job: targets[each.run] for each in found for job in each.jobs})
    absorbing: set[int] = set()
    if moves:
        _move_jobs(connection, moves)
        absorbing = _absorb_empty(connection, {move.left: move.target for move in moves})
        assign_kinds(connection, {move.target for move in moves})
        touch_runs(connection, {row_id for move in moves for row_id in (move.target, move.left)})
    return absorbing


def _record_locators(connection: sa.Connection, locators: Mapping[int, str]) -> None:
    for chunk in split(locators):
        rows = connection.execute(sa.select(RunTable.id, RunTable.located_by).where(RunTable.id.in_(chunk))).all()
        for row_id, located_by in rows:
            if located_by != locators[row_id]:
                statement = sa.update(RunTable).where(RunTable.id == row_id)
                connection.execute(statement.values(located_by=locators[row_id]))


class _Move(NamedTuple):
    """Row ids of a job, of the run that it leaves, and of the run that it joins."""

    job: int
    left: int
    target: int


def _find_moves(connection: sa.Connection, targets: Mapping[JobKey, int]) -> list[_Move]:
    """Return the jobs that are assigned to a different run."""
    moves: list[_Move] = []
    for chunk in split(targets):
        wanted = set(chunk)
        columns: list[Any] = [JobTable.id, JobTable.run_id, JobTable.cluster, JobTable.job_id, JobTable.first_seen_at]
        rows = connection.execute(
            sa.select(*columns).where(
                JobTable.cluster.in_({job.cluster for job in chunk}), JobTable.job_id.in_({job.job_id for job in chunk})
            )
        )
        for row_id, left, *key in rows:
            job = JobKey(*key)
            if job in wanted and targets[job] != left:
                moves.append(_Move(row_id, left, targets[job]))
    return moves


def _move_jobs(connection: sa.Connection, moves: Collection[_Move]) -> None:
    values = [{"key_job": move.job, "key_left": move.left, "key_target": move.target} for move in moves]
    connection.execute(_MOVE_JOB, values)
    connection.execute(_MOVE_ATTEMPTS, values)


_jobs, _attempts = table_of(JobTable), table_of(AttemptTable)
_MOVED: sa.BindParameter[int] = sa.bindparam("key_job")
_TARGET = sa.bindparam("key_target", type_=JobTable.run_id.type)
_UNLOCATED = sa.select(RunTable.id).where(RunTable.id == sa.bindparam("key_left"), RunTable.directory.not_like("/%"))
_MOVE_JOB = sa.update(_jobs).where(_jobs.c.id == _MOVED).values(run_id=_TARGET)
_MOVE_ATTEMPTS = (
    sa.update(_attempts)
    .where(_attempts.c.job_row == _MOVED, _attempts.c.ended_at.is_(None) | _attempts.c.run_id.in_(_UNLOCATED))
    .values(run_id=_TARGET)
)


def _continue_runs(connection: sa.Connection, targets: Mapping[int, int]) -> None:
    """Move jobs, attempts, flags and notices of runs to the runs where they go on; checkpoints stay with theirs."""
    values = [{"key_left": left, "key_target": target} for left, target in targets.items()]
    if not values:
        return
    target = sa.bindparam("key_target", type_=RunTable.id.type)
    for table in map(table_of, (JobTable, AttemptTable, FlagTable, NoticeTable)):
        is_left = table.c.run_id == sa.bindparam("key_left")
        connection.execute(sa.update(table).where(is_left).values(run_id=target), values)
    _record_locators(connection, dict.fromkeys(targets, COPY))
    assign_kinds(connection, targets.values())
    touch_runs(connection, {*targets, *targets.values()})


def _absorb_empty(connection: sa.Connection, targets: Mapping[int, int]) -> set[int]:
    """Move the data of runs that stood for one job without a directory to the run that the job joined.

    Return the runs that got checkpoints.
    """
    absorbing: set[int] = set()
    for chunk in split(targets):
        rows = connection.execute(_EMPTY, {"row_ids": chunk}).all()
        values = [{"key_left": left, "key_target": targets[left], "key_since": since} for left, since in rows]
        if not values:
            continue
        saved = sa.select(CheckpointTable.run_id).where(CheckpointTable.run_id.in_([row_id for row_id, _ in rows]))
        absorbing.update(targets[row_id] for row_id in connection.scalars(saved.distinct()))
        target = sa.bindparam("key_target", type_=RunTable.id.type)
        for table in map(table_of, (FlagTable, NoticeTable, AuditTable, CheckpointTable)):
            is_left = table.c.run_id == sa.bindparam("key_left")
            connection.execute(sa.update(table).where(is_left).values(run_id=target), values)
        table = table_of(RunTable)
        since = sa.bindparam("key_since", type_=table.c.recorded_since.type)
        is_later = (table.c.id == target) & (table.c.recorded_since > since)
        connection.execute(sa.update(table).where(is_later).values(recorded_since=since), values)
        left = [each["key_left"] for each in values]
        connection.execute(sa.delete(LocationTable).where(LocationTable.run_id.in_(left)))  # the next search adds them
        connection.execute(sa.delete(RunTable).where(RunTable.id.in_(left)))
    return absorbing


_EMPTY = sa.select(RunTable.id, RunTable.recorded_since).where(
    RunTable.id.in_(ROW_IDS), RunTable.directory.not_like("/%"), ~sa.exists().where(JobTable.run_id == RunTable.id)
)


def assign_kinds(connection: sa.Connection, run_ids: Collection[int]) -> None:
    """Set the kind of each attempt of these runs again, after other attempts joined them."""
    changed: list[dict[str, Any]] = []
    parts = run_parts.find_parts(select_through(connection), run_ids)
    for run_id, others in parts.items():  # attempts of the other parts count, and are their daemons' to change
        changed += _list_new_kinds(connection, dict.fromkeys((run_id, *others), run_id), [run_id])
    for chunk in split(run_id for run_id in run_ids if run_id not in parts):
        changed += _list_new_kinds(connection, {run_id: run_id for run_id in chunk}, chunk)
    if changed:
        table = table_of(AttemptTable)
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), changed)


def _list_new_kinds(connection: sa.Connection, joined: Mapping[int, int], own: Collection[int]) -> list[dict[str, Any]]:
    """Return the attempts of `own` runs whose kind changes; `joined` says which rows are one run."""
    lead: list[Any] = [AttemptTable.id, AttemptTable.run_id, AttemptTable.kind]
    origin: list[Any] = [AttemptTable.job_row, AttemptTable.restart_count, AttemptTable.array_job_id]
    rows = connection.execute(
        sa.select(*lead, *origin)
        .where(AttemptTable.run_id.in_(joined))
        .order_by(AttemptTable.started_at, AttemptTable.id)
    )
    origins: dict[int, queue.RestartClassifier] = defaultdict(queue.RestartClassifier)
    changed: list[dict[str, Any]] = []
    for attempt_id, run_id, known, *values in rows:
        kind = origins[joined[run_id]].assign(*values)
        if kind is not known and run_id in own:
            changed.append({"key_id": attempt_id, "kind": kind})
    return changed


class RunStore(StorePart, RunReader):
    """Runs: their keys, directories and revisions."""

    @reading
    def read_revisions(self, connection: sa.Connection, cluster: str) -> dict[RunKey, int]:
        """Return the revision of every run with a known directory; it increases with every change of the run."""
        columns: list[Any] = [*RUN_KEY_COLUMNS, RunTable.revision]
        statement = sa.select(*columns).where(RunTable.cluster == cluster)
        rows = connection.execute(statement.where(RunTable.directory.like("/%")).order_by(RunTable.id))
        return {run_key(row): row[-1] for row in rows}

    @reading
    def read_revisions_of(self, connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, int]:
        """Return the revision of each recorded run, which rises whenever its record changes."""
        numbers = {row_id: key for key, row_id in find_runs(connection, keys).items()}
        return {numbers[row_id]: revision for row_id, revision in read_revisions(connection, numbers).items()}

    @reading
    def list_never_scanned(self, connection: sa.Connection, keys: Collection[RunKey]) -> set[RunKey]:
        """Return those of these runs of which no scan is recorded."""
        numbers = {row_id: key for key, row_id in find_runs(connection, keys).items()}
        scanned: set[RunKey] = set()
        for chunk in split(numbers):
            is_scanned = RunTable.id.in_(chunk) & RunTable.scanned_at.is_not(None)
            scanned.update(numbers[row_id] for row_id in connection.scalars(sa.select(RunTable.id).where(is_scanned)))
        return {*keys} - scanned

    @reading
    def read_work_dirs(self, connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, tuple[str, ...]]:
        """Return the working directories of each run's jobs, the newest job's first."""
        found: dict[RunKey, dict[str, None]] = {}
        for chunk in split(find_runs(connection, keys).values()):
            for row in connection.execute(_WORK_DIRS, {"row_ids": chunk}):
                found.setdefault(run_key(row), {})[row[3]] = None
        return {key: tuple(places)[:MAX_WORK_DIRS] for key, places in found.items()}

    @reading
    def read_open_resumes(self, connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, OpenResume]:
        """Return for each run what a scan may still learn about what its latest attempts resumed from."""
        found: dict[RunKey, dict[int, None]] = {}
        newest: dict[RunKey, tuple[int, datetime]] = {}
        for chunk in split(find_runs(connection, keys).values()):
            for row in connection.execute(_OPEN_RESUMES, {"row_ids": chunk}):
                found.setdefault(run_key(row), {})[row[3]] = None
                newest.setdefault(run_key(row), (row[4], row[5]))
        candidates = _read_candidates(connection, [attempt_id for attempt_id, _ in newest.values()])
        return {
            key: OpenResume(tuple(job_ids)[:MAX_RESUMING_JOBS], started_at, candidates.get(attempt_id, ()))
            for key, job_ids in found.items()
            for attempt_id, started_at in [newest[key]]
        }


def _read_candidates(connection: sa.Connection, attempt_ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return by attempt the paths of which it helps to know whether they were read."""
    found: dict[int, tuple[str, ...]] = {}
    for chunk in split(attempt_ids):
        for attempt_id, resume in connection.execute(_RESUMES, {"row_ids": chunk}):
            found[attempt_id] = () if resume is None else candidate_reads.list_asked(decode_resume(resume))
    return found


_RESUMES = sa.select(AttemptTable.id, AttemptTable.resume).where(AttemptTable.id.in_(ROW_IDS))
_OF_JOBS: list[Any] = [*RUN_KEY_COLUMNS, JobTable.work_dir]
_WORK_DIRS = (
    sa.select(*_OF_JOBS)
    .join(JobTable, JobTable.run_id == RunTable.id)
    .where(RunTable.id.in_(ROW_IDS), JobTable.work_dir.is_not(None))
    .group_by(*_OF_JOBS)
    .order_by(sa.func.max(JobTable.id).desc())
)
_OF_ATTEMPTS: list[Any] = [*RUN_KEY_COLUMNS, JobTable.job_id, AttemptTable.id, AttemptTable.started_at]
_OPEN_RESUMES = (
    sa.select(*_OF_ATTEMPTS)
    .join(AttemptTable, AttemptTable.run_id == RunTable.id)
    .join(JobTable, AttemptTable.job_row == JobTable.id)
    .where(RunTable.id.in_(ROW_IDS), AttemptTable.is_resume_final.is_not(True))
    .order_by(AttemptTable.started_at.desc(), AttemptTable.id.desc())
)
