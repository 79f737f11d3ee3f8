"""Verification tickets: kept until their result is recorded, so that a restart loses none."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.model.checkpoint_json import decode_checkpoint, encode_checkpoint
from ckptd.core.verification.ticket import VerificationTicket
from ckptd.store import runs
from ckptd.store.rows import RUN_KEY_COLUMNS, run_key
from ckptd.store.tables import RunTable
from ckptd.store.ticket_tables import VerificationTicketTable as TicketTable
from ckptd.store.transactions import StorePart, reading, writing


class VerificationTicketStore(StorePart):
    """The open tickets of all clusters."""

    @writing
    def add(self, connection: sa.Connection, ticket: VerificationTicket) -> None:
        """Record a new ticket.

        Raises:
            UnknownRunError: its run is not recorded.

        """
        run_id = runs.find_run(connection, ticket.run)
        tasks = [[encode_checkpoint(piece) for piece in task] for task in ticket.tasks]
        fixed = {"name": ticket.name, "run_id": run_id, "requested_at": ticket.requested_at, "tasks": tasks}
        fixed |= {"is_comparison": ticket.is_comparison, "is_scan": ticket.is_scan}
        connection.execute(sa.insert(TicketTable).values(**fixed, **_to_row(ticket)))

    @reading
    def read(self, connection: sa.Connection, name: str) -> VerificationTicket | None:
        """Return a ticket; None if it was deleted or never added."""
        row = connection.execute(_SELECT.where(TicketTable.name == name)).one_or_none()
        return None if row is None else _from_row(row)

    @reading
    def list_unwatched(
        self, connection: sa.Connection, cluster: str, since: datetime
    ) -> tuple[VerificationTicket, ...]:
        """Return the tickets of a cluster that no command has followed since an instant, the oldest first."""
        is_unwatched = TicketTable.watched_at.is_(None) | (TicketTable.watched_at < since)
        statement = _SELECT.where(RunTable.cluster == cluster, is_unwatched)
        rows = connection.execute(statement.order_by(TicketTable.requested_at, TicketTable.name))
        return tuple(map(_from_row, rows))

    @reading
    def list_runs(self, connection: sa.Connection, cluster: str, *, is_comparison: bool = False) -> frozenset[RunKey]:
        """Return the runs of a cluster that have a ticket for a verification, or else for a comparison."""
        columns: list[Any] = list(RUN_KEY_COLUMNS)
        statement = sa.select(*columns).join(TicketTable, TicketTable.run_id == RunTable.id)
        is_wanted = (RunTable.cluster == cluster, TicketTable.is_comparison == is_comparison, ~TicketTable.is_scan)
        return frozenset(map(run_key, connection.execute(statement.where(*is_wanted))))

    @reading
    def count_open(self, connection: sa.Connection, cluster: str, uid: int) -> int:
        """Return how many tickets are about a user's runs."""
        statement = sa.select(sa.func.count()).select_from(TicketTable).join(RunTable)
        return int(connection.scalar(statement.where(RunTable.cluster == cluster, RunTable.uid == uid)) or 0)

    @writing
    def change(self, connection: sa.Connection, ticket: VerificationTicket) -> None:
        """Record how far a ticket has come; do nothing if it was deleted meanwhile."""
        values = _to_row(ticket)
        del values["watched_at"]  # a command may have renewed it
        connection.execute(sa.update(TicketTable).where(TicketTable.name == ticket.name).values(**values))

    @writing
    def watch(self, connection: sa.Connection, names: Collection[str], now: datetime | None) -> None:
        """Record that a command follows these tickets; None: that it no longer does."""
        is_named = TicketTable.name.in_(list(names))
        connection.execute(sa.update(TicketTable).where(is_named).values(watched_at=now))

    @writing
    def delete(self, connection: sa.Connection, name: str) -> None:
        connection.execute(sa.delete(TicketTable).where(TicketTable.name == name))


_COLUMNS = (
    TicketTable.name,
    TicketTable.requested_at,
    TicketTable.tasks,
    TicketTable.is_comparison,
    TicketTable.is_scan,
    TicketTable.job_id,
    TicketTable.try_count,
    TicketTable.silent_since,
    TicketTable.watched_at,
    TicketTable.end_reason,
)
_ALL: list[Any] = [*RUN_KEY_COLUMNS, *_COLUMNS]
_SELECT = sa.select(*_ALL).join(RunTable, RunTable.id == TicketTable.run_id)


def _to_row(ticket: VerificationTicket) -> dict[str, Any]:
    """Return the columns that change while a ticket is open."""
    return {
        "job_id": ticket.job_id,
        "try_count": ticket.try_count,
        "silent_since": ticket.silent_since,
        "watched_at": ticket.watched_at,
        "end_reason": ticket.end_reason,
    }


def _from_row(row: Any) -> VerificationTicket:
    return VerificationTicket(
        name=row.name,
        run=run_key(row),
        requested_at=row.requested_at,
        tasks=tuple(tuple(decode_checkpoint(piece) for piece in task) for task in row.tasks),
        is_comparison=row.is_comparison,
        is_scan=row.is_scan,
        job_id=row.job_id,
        try_count=row.try_count,
        silent_since=row.silent_since,
        watched_at=row.watched_at,
        end_reason=row.end_reason,
    )
