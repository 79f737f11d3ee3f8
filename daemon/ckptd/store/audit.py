"""Actions: recorded before they happen, finished afterwards."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from ckptd.core.fleet.prune_totals import DONE
from ckptd.core.model import Evidence, RunKey
from ckptd.core.model.records import AuditEntry
from ckptd.store import runs
from ckptd.store.audit_rows import AuditReader
from ckptd.store.database_errors import AlreadyRecordedError
from ckptd.store.row_values import hash_path
from ckptd.store.rows import RUN_KEY_COLUMNS, run_key, split
from ckptd.store.tables import AuditTable, RunTable
from ckptd.store.transactions import StorePart, reading, writing

MOVE = "prune"  # of DONE: the act that moves to the trash


class AuditStore(StorePart, AuditReader):
    """Actions: recorded before they happen, finished afterwards."""

    @writing
    def record(self, connection: sa.Connection, entry: AuditEntry) -> int:
        """Record an action before it happens; return its number.

        Raises:
            AlreadyRecordedError: another entry has its `once_key`.

        """
        runs.ensure_cluster(connection, entry.cluster)
        statement = sa.insert(AuditTable).values(
            cluster=entry.cluster,
            run_id=runs.find_run(connection, entry.run) if entry.run else None,
            plan_id=entry.plan_id,
            actor=entry.actor,
            action=entry.action,
            target=entry.target,
            reasons=list(entry.reasons),
            details=dict(entry.details),
            begun_at=entry.begun_at,
            finished_at=entry.finished_at,
            outcome=entry.outcome,
            lease_epoch=self.database.lease_epoch,
            once_key=None if entry.once_key is None else hash_path(entry.once_key),
        )
        try:
            result = connection.execute(statement)
        except IntegrityError as error:
            if entry.once_key is None:
                raise
            raise AlreadyRecordedError(f"{entry.action} of {entry.target} is on record already") from error
        assert result.inserted_primary_key is not None
        return int(result.inserted_primary_key[0])

    @writing
    def finish(
        self,
        connection: sa.Connection,
        audit_id: int,
        outcome: str,
        finished_at: datetime,
        details: Mapping[str, Evidence] | None = None,
    ) -> None:
        """Record how an action ended; `details`, if given, replace those of its intent."""
        finish_audit(connection, audit_id, outcome, finished_at, details)

    @writing
    def undo(self, connection: sa.Connection, audit_id: int, outcome: str, finished_at: datetime) -> None:
        """Record why an action was not done, and free its plan id: another action may be tried under it."""
        values = {"outcome": outcome, "finished_at": finished_at, "plan_id": None, "once_key": None}
        connection.execute(sa.update(AuditTable).where(AuditTable.id == audit_id).values(**values))

    @reading
    def find_recorded(self, connection: sa.Connection, cluster: str, plan_ids: Collection[str]) -> frozenset[str]:
        """Return those of these plan ids under which an action is recorded, with any outcome."""
        found: set[str] = set()
        for chunk in split(plan_ids):
            statement = sa.select(AuditTable.plan_id).where(
                AuditTable.cluster == cluster, AuditTable.plan_id.in_(chunk)
            )
            found.update(name for name in connection.scalars(statement) if name is not None)
        return frozenset(found)

    @reading
    def read_outcomes(
        self, connection: sa.Connection, cluster: str, action: str, keys: Collection[RunKey]
    ) -> dict[RunKey, dict[str, str | None]]:
        """Return the outcomes of one kind of action by run and plan id; None where an action has not ended.

        Actions that were not done have no plan id and are omitted.
        """
        found: dict[RunKey, dict[str, str | None]] = defaultdict(dict)
        for chunk in split(runs.find_runs(connection, keys).values()):
            rows = connection.execute(
                sa.select(*RUN_KEY_COLUMNS, AuditTable.plan_id, AuditTable.outcome)
                .join(RunTable, AuditTable.run_id == RunTable.id)
                .where(AuditTable.run_id.in_(chunk), AuditTable.cluster == cluster, AuditTable.action == action)
                .where(AuditTable.plan_id.is_not(None))
                .order_by(AuditTable.id)
            )
            for row in rows:
                found[run_key(row)][row.plan_id] = row.outcome
        return found

    @reading
    def read_moved_bytes(self, connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, dict[str, int]]:
        """Return, by run and action id, the bytes that were moved to the trash.

        Checkpoints that were restored or deleted since are included. An action without a recorded size counts as 0.
        """
        found: dict[RunKey, dict[str, int]] = defaultdict(dict)
        for chunk in split(runs.find_runs(connection, keys).values()):
            rows = connection.execute(
                sa.select(*RUN_KEY_COLUMNS, AuditTable.details)
                .join(RunTable, AuditTable.run_id == RunTable.id)
                .where(
                    AuditTable.run_id.in_(chunk), AuditTable.action == MOVE, AuditTable.outcome.like(f"{DONE[MOVE]}%")
                )
            )
            for row in rows:
                details = row.details
                size_bytes = details.get("size_bytes")
                found[run_key(row)][str(details.get("act_id"))] = size_bytes if isinstance(size_bytes, int) else 0
        return found


def finish_audit(
    connection: sa.Connection,
    audit_id: int,
    outcome: str,
    finished_at: datetime,
    details: Mapping[str, Evidence] | None = None,
) -> None:
    """Record how an action ended, and its details, if given, in place of its intent's."""
    is_repeatable = AuditTable.action == MOVE  # a checkpoint may be moved again after it was restored
    once_key = sa.case((is_repeatable, sa.null()), else_=AuditTable.once_key)
    values: dict[str, Any] = {"outcome": outcome, "finished_at": finished_at, "once_key": once_key}
    if details is not None:
        values["details"] = dict(details)
    connection.execute(sa.update(AuditTable).where(AuditTable.id == audit_id).values(**values))
