"""Runs: found by their key, made where they are new, joined when a job's directory becomes known."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core import tracking
from ckptd.core.model import Attempt, JobKey, RunKey
from ckptd.store.engine import StoreError
from ckptd.store.rows import ATTEMPT_COLUMNS, attempt_from_row, split
from ckptd.store.tables import (
    AttemptTable,
    AuditTable,
    CheckpointTable,
    ClusterTable,
    FlagTable,
    JobTable,
    NoticeTable,
    RunTable,
    hash_path,
)


def ensure_cluster(connection: sa.Connection, cluster: str) -> None:
    """Make the cluster's row where there is none."""
    found = connection.scalar(sa.select(ClusterTable.name).where(ClusterTable.name == cluster))
    if found is None:
        connection.execute(sa.insert(ClusterTable).values(name=cluster))


def find_runs(connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, int]:
    """Return the row numbers of the runs that are on record."""
    result: dict[RunKey, int] = {}
    for chunk in split(keys):
        wanted = set(chunk)
        hashes = [hash_path(key.directory) for key in chunk]
        rows = connection.execute(
            sa.select(RunTable.cluster, RunTable.uid, RunTable.directory, RunTable.id).where(
                RunTable.cluster.in_({key.cluster for key in chunk}), RunTable.directory_hash.in_(hashes)
            )
        )
        for cluster, uid, directory, row_id in rows:
            key = RunKey(cluster, uid, directory)
            if key in wanted:
                result[key] = row_id
    return result


def find_run(connection: sa.Connection, key: RunKey) -> int:
    """Return the row number of a run.

    Raises:
        StoreError: there is no such run on record.

    """
    found = find_runs(connection, [key])
    if key not in found:
        raise StoreError(f"no run of user {key.uid} at {key.directory!r} is on record")
    return found[key]


class Location(NamedTuple):
    """A run, its user, and how its directory was found."""

    key: RunKey
    user: str
    located_by: str | None


def insert_runs(connection: sa.Connection, runs: Iterable[Location], now: datetime) -> None:
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
    if values:
        connection.execute(sa.insert(RunTable), values)


def touch_runs(connection: sa.Connection, row_ids: Collection[int]) -> None:
    """Raise the revision of runs that changed, so that no reader takes its older copy for the record."""
    for chunk in split(row_ids):
        connection.execute(sa.update(RunTable).where(RunTable.id.in_(chunk)).values(revision=RunTable.revision + 1))


def assign_run(connection: sa.Connection, jobs: Collection[JobKey], location: Location, now: datetime) -> None:
    """Make jobs part of a run, with their attempts that ran nowhere else; see Store.assign_run."""
    key, _, located_by = location
    found = find_runs(connection, [key])
    if key not in found:
        insert_runs(connection, [location], now)
        found = find_runs(connection, [key])
    target = found[key]
    if located_by is not None:
        connection.execute(
            sa.update(RunTable)
            .where(RunTable.id == target, RunTable.located_by.is_distinct_from(located_by))
            .values(located_by=located_by)
        )
    moved = _find_jobs_elsewhere(connection, jobs, target)
    if not moved:
        return
    left = set(moved.values())
    for chunk in split(moved):
        connection.execute(sa.update(JobTable).where(JobTable.id.in_(chunk)).values(run_id=target))
        connection.execute(
            sa.update(AttemptTable)
            .where(AttemptTable.job_row.in_(chunk))
            .where(AttemptTable.ended_at.is_(None) | AttemptTable.run_id.in_(_unlocated(left)))
            .values(run_id=target)
        )
    _absorb_empty(connection, left, target)
    assign_kinds(connection, target)
    touch_runs(connection, {target, *left})


def _find_jobs_elsewhere(connection: sa.Connection, jobs: Collection[JobKey], target: int) -> dict[int, int]:
    result: dict[int, int] = {}
    for chunk in split(jobs):
        wanted = set(chunk)
        rows = connection.execute(
            sa.select(JobTable.id, JobTable.run_id, JobTable.cluster, JobTable.job_id, JobTable.first_seen_at).where(
                JobTable.job_id.in_({job.job_id for job in chunk}), JobTable.run_id != target
            )
        )
        result |= {row.id: row.run_id for row in rows if JobKey(row.cluster, row.job_id, row.first_seen_at) in wanted}
    return result


def _unlocated(row_ids: Collection[int]) -> sa.Select[Any]:
    return sa.select(RunTable.id).where(RunTable.id.in_(row_ids), RunTable.directory.not_like("/%"))


def _absorb_empty(connection: sa.Connection, left: set[int], target: int) -> None:
    """Hand all that is known of runs that were only a name for a job without a directory to the run that it joined."""
    empty = connection.scalars(_unlocated(left).where(~sa.exists().where(JobTable.run_id == RunTable.id))).all()
    for chunk in split(empty):
        for mapped in (FlagTable, NoticeTable, AuditTable, CheckpointTable):
            connection.execute(sa.update(mapped).where(mapped.run_id.in_(chunk)).values(run_id=target))
        since = connection.scalar(sa.select(sa.func.min(RunTable.recorded_since)).where(RunTable.id.in_(chunk)))
        connection.execute(
            sa.update(RunTable)
            .where(RunTable.id == target, RunTable.recorded_since > since)
            .values(recorded_since=since)
        )
        connection.execute(sa.delete(RunTable).where(RunTable.id.in_(chunk)))


def assign_kinds(connection: sa.Connection, run_id: int) -> None:
    """Say anew how each attempt of a run came to be, after other attempts joined it."""
    rows = connection.execute(
        sa.select(AttemptTable.id, JobTable.cluster, JobTable.job_id, JobTable.first_seen_at, *ATTEMPT_COLUMNS)
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .where(AttemptTable.run_id == run_id)
        .order_by(AttemptTable.started_at, AttemptTable.id)
    ).all()
    earlier: list[Attempt] = []
    for row in rows:
        attempt = attempt_from_row(JobKey(*row[1:4]), row[4:])
        kind = tracking.assign_kind(tuple(earlier), attempt)
        if kind is not attempt.kind:
            connection.execute(sa.update(AttemptTable).where(AttemptTable.id == row[0]).values(kind=kind))
        earlier.append(attempt)


def find_runs_of_job(connection: sa.Connection, job_id: int, cluster: str | None) -> tuple[RunKey, ...]:
    """Return the runs that a job id is or was part of, the latest first."""
    statement = (
        sa.select(RunTable.cluster, RunTable.uid, RunTable.directory)
        .join(AttemptTable, AttemptTable.run_id == RunTable.id)
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .where(JobTable.job_id == job_id)
        .order_by(AttemptTable.started_at.desc())
    )
    if cluster is not None:
        statement = statement.where(JobTable.cluster == cluster)
    return tuple(dict.fromkeys(RunKey(*row) for row in connection.execute(statement)))


def find_runs_at(connection: sa.Connection, directory: str, cluster: str | None) -> tuple[RunKey, ...]:
    """Return the runs of a directory."""
    statement = sa.select(RunTable.cluster, RunTable.uid, RunTable.directory).where(
        RunTable.directory_hash == hash_path(directory), RunTable.directory == directory
    )
    if cluster is not None:
        statement = statement.where(RunTable.cluster == cluster)
    return tuple(RunKey(*row) for row in connection.execute(statement.order_by(RunTable.id)))
