"""Flags: one row each, inserted when the flag opens and updated by later changes."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Flag, Job, RunKey
from ckptd.core.notices import Notice
from ckptd.store import outbox, runs
from ckptd.store.database_errors import UnknownRunError
from ckptd.store.listing_readers import FlagReader
from ckptd.store.rows import JOB_COLUMNS, RUN_KEY_COLUMNS, job_from_row, run_key, split, table_of
from ckptd.store.tables import FlagTable, JobTable, RunTable
from ckptd.store.transactions import StorePart


class FlagStore(StorePart, FlagReader):
    """Open and resolved flags."""

    def list_open(self, cluster: str) -> tuple[Flag, ...]:
        """Return the open flags of a cluster, oldest first."""
        return self.read(cluster)

    def read_jobs(self, flags: Collection[Flag]) -> dict[tuple[RunKey, int | None], Job]:
        """Return the flagged jobs as of their last poll, by run and job id, including those that left the queue."""
        if not flags:
            return {}
        with self.database.reading() as connection:
            return _read_jobs(connection, flags)

    def record(self, changes: FlagChanges, now: datetime, notices: Collection[Notice] = ()) -> tuple[Flag, ...]:
        """Record the changes of one decision and its notices in one transaction; return the opened flags.

        The opened flags get their row ids here; the others already have theirs.

        Raises:
            UnknownRunError: a flag opens of a run that is not on record, and nothing was recorded.

        """
        if not changes:
            return ()
        with self.database.writing() as connection:
            opened = _record_flags(connection, changes, now)
            outbox.insert_notices(connection, notices)
            return opened


def _read_jobs(connection: sa.Connection, flags: Iterable[Flag]) -> dict[tuple[RunKey, int | None], Job]:
    wanted = {(flag.finding.run, flag.finding.job_id) for flag in flags if flag.finding.job_id is not None}
    result: dict[tuple[RunKey, int | None], Job] = {}
    for chunk in split({job_id for _, job_id in wanted}):
        rows = connection.execute(
            sa.select(*RUN_KEY_COLUMNS, *JOB_COLUMNS)
            .join(JobTable, JobTable.run_id == RunTable.id)
            .where(JobTable.cluster.in_({run.cluster for run, _ in wanted}), JobTable.job_id.in_(chunk))
            .order_by(JobTable.first_seen_at)
        )
        for row in rows:
            job = job_from_row(row[3:])
            if (run_key(row), job.job_id) in wanted:
                result[run_key(row), job.job_id] = job
    return result


def _record_flags(connection: sa.Connection, changes: FlagChanges, now: datetime) -> tuple[Flag, ...]:
    rows = runs.find_runs(connection, {flag.finding.run for flag in changes.opened})
    numbered = []
    for flag in changes.opened:
        if flag.finding.run not in rows:
            raise UnknownRunError(f"a flag of a run that is not on record: {flag.finding.run.directory!r}")
        values = _content(flag) | {"run_id": rows[flag.finding.run], "opened_at": flag.opened_at}
        result = connection.execute(sa.insert(FlagTable).values(**values))
        assert result.inserted_primary_key is not None
        numbered.append(replace(flag, flag_id=result.inserted_primary_key[0]))
    changed = [
        _content(flag) | {"worsened_at": flag.worsened_at, "key_id": flag.flag_id}
        for flag in (*changes.worsened, *changes.updated)
    ]
    if changed:
        table = table_of(FlagTable)
        connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), changed)
    for flag in changes.resolved:
        connection.execute(
            sa.update(FlagTable)
            .where(FlagTable.id == flag.flag_id, FlagTable.resolved_at.is_(None))
            .values(resolved_at=flag.resolved_at or now, evidence=dict(flag.finding.evidence))
        )
    return tuple(numbered)


def _content(flag: Flag) -> dict[str, Any]:
    finding = flag.finding
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "job_id": finding.job_id,
        "user": finding.user,
        "evidence": dict(finding.evidence),
        "advice": finding.recorded_advice,
        "audience": list(finding.audience),
    }
