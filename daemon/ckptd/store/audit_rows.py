"""Reads recorded actions with plain SQL."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ckptd.core.model import RunKey
from ckptd.core.model.records import AuditEntry
from ckptd.core.rows.text_escapes import encode_text
from ckptd.store.plain_reads import Select, count_audited_by_owner
from ckptd.store.plain_rows import RUN_KEY, Columns
from ckptd.store.read_parts import ReadPart, selecting
from ckptd.store.run_rows import find_run

_COLUMNS = Columns(("id", "plan_id", "actor", "action", "target", "begun_at", "finished_at", "outcome"))


class AuditReader(ReadPart):
    """The log of ckptd's actions."""

    @selecting
    def list_newest(
        self,
        select: Select,
        cluster: str,
        *,
        run: RunKey | None = None,
        unfinished_only: bool = False,
        begun_since: datetime | None = None,
        limit: int = 1000,
    ) -> tuple[AuditEntry, ...]:
        """Return the newest actions, newest first.

        Raises:
            UnknownRunError: the run is not recorded.

        """
        conditions = ["u.cluster = :cluster"]
        values: dict[str, object] = {"cluster": encode_text(cluster), "limit": limit}
        if run is not None:
            conditions.append("u.run_id = :run_id")
            values["run_id"] = find_run(select, run)
        if unfinished_only:
            conditions.append("u.finished_at IS NULL")
        if begun_since is not None:
            conditions.append("u.begun_at >= :begun_since")
            values["begun_since"] = begun_since
        statement = f"""
            SELECT {RUN_KEY.of("r")}, u.reasons, u.details, {_COLUMNS.of("u")}
            FROM audit u LEFT JOIN runs r ON u.run_id = r.id
            WHERE {" AND ".join(conditions)} ORDER BY u.id DESC LIMIT :limit
        """  # noqa: S608 - the conditions are this function's own
        return tuple(_entry(cluster, row) for row in select(statement, values))

    @selecting
    def count_by_owner(self, select: Select, cluster: str, actor: str, since: datetime) -> dict[tuple[str, int], int]:
        """Return how many actions of an actor started since then, by action and the owner's uid (-1: no run)."""
        return count_audited_by_owner(select, cluster, actor, since)


def _entry(cluster: str, row: Sequence[Any]) -> AuditEntry:
    values = dict(zip(_COLUMNS.names, _COLUMNS.decode(row[5:]), strict=True))
    return AuditEntry(
        audit_id=values.pop("id"),
        cluster=cluster,
        run=None if row[0] is None else RunKey(*RUN_KEY.decode(row[:3])),
        reasons=tuple(json.loads(row[3])),
        details=json.loads(row[4]),
        **values,
    )
