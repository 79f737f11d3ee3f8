"""Flags over time: a row each from the edge that opened it, which later edges only add to."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Finding, Flag, RunKey
from ckptd.store import runs
from ckptd.store.engine import StoreError
from ckptd.store.rows import RUN_KEY_COLUMNS, run_key
from ckptd.store.tables import FlagTable, RunTable

_COLUMNS = [
    *RUN_KEY_COLUMNS,
    FlagTable.id,
    FlagTable.rule,
    FlagTable.severity,
    FlagTable.job_id,
    FlagTable.user,
    FlagTable.evidence,
    FlagTable.advice,
    FlagTable.tells,
    FlagTable.opened_at,
    FlagTable.worsened_at,
    FlagTable.resolved_at,
]


def read_flags(
    connection: sa.Connection, cluster: str | None, *, include_resolved: bool, run: RunKey | None = None
) -> tuple[Flag, ...]:
    """Return flags, oldest first; of all clusters, of all runs where None."""
    statement = sa.select(*_COLUMNS).join(RunTable, FlagTable.run_id == RunTable.id)
    if run is not None:
        statement = statement.where(FlagTable.run_id == runs.find_runs(connection, [run]).get(run))
    if cluster is not None:
        statement = statement.where(RunTable.cluster == cluster)
    if not include_resolved:
        statement = statement.where(FlagTable.resolved_at.is_(None))
    return tuple(_from_row(row) for row in connection.execute(statement.order_by(FlagTable.opened_at, FlagTable.id)))


def _from_row(row: Sequence[Any]) -> Flag:
    flag_id, rule, severity, job_id, user, evidence, advice, tells, opened_at, worsened_at, resolved_at = row[3:]
    finding = Finding(
        rule=rule,
        severity=severity,
        run=run_key(row),
        job_id=job_id,
        user=user,
        evidence=evidence,
        advice=advice,
        tells=tuple(tells),
    )
    return Flag(flag_id=flag_id, finding=finding, opened_at=opened_at, worsened_at=worsened_at, resolved_at=resolved_at)


def record_flags(connection: sa.Connection, changes: FlagChanges, now: datetime) -> tuple[Flag, ...]:
    """Write the edges of one decision; return the opened flags with their numbers."""
    rows = runs.find_runs(connection, {flag.finding.run for flag in changes.opened})
    numbered = []
    for flag in changes.opened:
        if flag.finding.run not in rows:
            raise StoreError(f"a flag of a run that is not on record: {flag.finding.run.directory!r}")
        values = _content(flag) | {"run_id": rows[flag.finding.run], "opened_at": flag.opened_at}
        result = connection.execute(sa.insert(FlagTable).values(**values))
        assert result.inserted_primary_key is not None
        numbered.append(replace(flag, flag_id=result.inserted_primary_key[0]))
    for flag in (*changes.worsened, *changes.updated):
        values = _content(flag) | {"worsened_at": flag.worsened_at}
        connection.execute(sa.update(FlagTable).where(FlagTable.id == flag.flag_id).values(**values))
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
        "advice": finding.advice,
        "tells": list(finding.tells),
    }
