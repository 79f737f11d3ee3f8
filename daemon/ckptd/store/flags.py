"""Flags over time: a row each from the edge that opened it, which later edges only add to."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import Flag
from ckptd.store import runs
from ckptd.store.errors import StoreError
from ckptd.store.tables import FlagTable


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
