"""Deletes the records of runs that ended long ago, so that the database does not grow without bound.

A run is deleted as a whole: its jobs, attempts, lost work, deleted checkpoints, flags, notices and actions. It stays
while one of its checkpoints is on disk or in the trash, a job or flag of it is open, or a row of another run refers to
it.
"""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.fleet.prune_totals import DONE
from ckptd.core.model.records import ExpiryCounts, RunPlace
from ckptd.core.notices.delivery import NoticeState
from ckptd.store import summed_days
from ckptd.store.location_tables import LocationTable
from ckptd.store.locations import is_copy_of_any
from ckptd.store.rows import split
from ckptd.store.tables import (
    AttemptTable,
    AuditTable,
    CheckpointTable,
    FlagTable,
    JobTable,
    LossTable,
    NoticeTable,
    RunTable,
)
from ckptd.store.ticket_tables import VerificationTicketTable
from ckptd.store.transactions import StorePart, writing

RUN_COUNT = 200  # checked in one transaction, so that it is short however many runs stay
ROW_COUNT = 2000
_OPEN_NOTICES = [NoticeState.WAITING.value, NoticeState.CLAIMED.value]


class ExpiryStore(StorePart):
    """Deletion of old records."""

    @writing
    def delete_old(
        self, connection: sa.Connection, cluster: str, before: datetime, after: RunPlace | None = None
    ) -> ExpiryCounts:
        """Delete those of the next RUN_COUNT runs that ended before an instant, in the order of their record.

        A run with a checkpoint on disk or in the trash stays, without its old flags. The next call continues after
        `last_run`; the last ones delete old notices of runs that stay.
        """
        page = list_runs(connection, cluster, before, after)
        run_ids = _find_expired(connection, cluster, before, [row_id for _, row_id in page])
        for chunk in split(run_ids):
            _delete_runs(connection, chunk)
        flag_count = _delete_flags(connection, before, [row_id for _, row_id in page])
        if len(page) == RUN_COUNT:
            return ExpiryCounts(run_count=len(run_ids), flag_count=flag_count, is_all=False, last_run=page[-1])
        notices = _find_notices(connection, cluster, before)
        for chunk in split(notices):
            connection.execute(sa.delete(NoticeTable).where(NoticeTable.id.in_(chunk)))
        return ExpiryCounts(
            run_count=len(run_ids),
            notice_count=len(notices),
            flag_count=flag_count,
            is_all=len(notices) < ROW_COUNT,
            last_run=page[-1] if page else after,
        )


def list_runs(
    connection: sa.Connection,
    cluster: str,
    before: datetime,
    after: RunPlace | None,
    *conditions: sa.ColumnElement[bool],
) -> list[RunPlace]:
    """Return the next runs that may have ended before an instant: those recorded before it, oldest first."""
    statement = sa.select(RunTable.recorded_since, RunTable.id).where(
        RunTable.cluster == cluster, RunTable.recorded_since < before, *conditions
    )
    if after is not None:
        since, row_id = after
        is_later = (RunTable.recorded_since > since) | (RunTable.id > row_id)
        statement = statement.where(RunTable.recorded_since >= since, is_later)
    ordered = statement.order_by(RunTable.recorded_since, RunTable.id).limit(RUN_COUNT)
    return [(recorded_since, row_id) for recorded_since, row_id in connection.execute(ordered)]


def _find_expired(connection: sa.Connection, cluster: str, before: datetime, run_ids: list[int]) -> list[int]:
    """Return which of these runs may be deleted."""
    found: list[int] = []
    for chunk in split(run_ids):
        found += connection.scalars(_select_runs(cluster, before).where(RunTable.id.in_(chunk)))
    return sorted(set(found) - find_in_trash(connection, found))


def _select_runs(cluster: str, before: datetime) -> sa.Select[Any]:
    def none(table: Any, *conditions: Any) -> Any:  # a mapped class, and what a row of a run must not be
        return ~sa.exists().where(table.run_id == RunTable.id, sa.or_(*conditions))

    job_elsewhere = sa.exists().where(JobTable.id == AttemptTable.job_row, JobTable.run_id != AttemptTable.run_id)
    attempt_elsewhere = sa.exists().where(AttemptTable.job_row == JobTable.id, AttemptTable.run_id != JobTable.run_id)
    save_elsewhere = sa.exists().where(
        CheckpointTable.attempt_id == AttemptTable.id, CheckpointTable.run_id != AttemptTable.run_id
    )
    ended = JobTable.ended_at
    return sa.select(RunTable.id).where(
        RunTable.cluster == cluster,
        RunTable.recorded_since < before,
        ~is_copy_of_any(),
        none(JobTable, ended.is_(None), ended >= before, JobTable.in_queue, attempt_elsewhere),
        none(
            AttemptTable,
            AttemptTable.ended_at.is_(None),
            AttemptTable.ended_at >= before,
            job_elsewhere,
            save_elsewhere,
        ),
        none(CheckpointTable, CheckpointTable.deleted_at.is_(None), CheckpointTable.deleted_at >= before),
        none(FlagTable, FlagTable.resolved_at.is_(None), FlagTable.resolved_at >= before),
        none(NoticeTable, NoticeTable.state.in_(_OPEN_NOTICES), NoticeTable.created_at >= before),
        none(AuditTable, AuditTable.finished_at.is_(None), AuditTable.finished_at >= before),
    )


def find_in_trash(connection: sa.Connection, run_ids: Collection[int]) -> set[int]:
    """Return the runs with a checkpoint in the trash: it was moved there, and neither deleted nor restored since."""
    moved: dict[int, set[str]] = defaultdict(set)
    settled: dict[int, set[str]] = defaultdict(set)
    pruned = sa.select(CheckpointTable.run_id).where(
        CheckpointTable.run_id.in_(run_ids), CheckpointTable.pruned_at.is_not(None)
    )
    rows = connection.execute(
        sa.select(AuditTable.run_id, AuditTable.action, AuditTable.details, AuditTable.outcome)
        .where(AuditTable.run_id.in_(run_ids), AuditTable.action.in_(DONE))
        .order_by(AuditTable.id)
    )
    for run_id, action, details, outcome in rows:
        if run_id is None or (outcome or "").partition(":")[0] != DONE[action]:
            continue
        group = moved if action == "prune" else settled
        group[run_id].add(str(details.get("act_id")))
    without_act = {row_id for row_id in connection.scalars(pruned) if row_id not in moved}
    return without_act | {run_id for run_id, acts in moved.items() if acts - settled[run_id]}


def _delete_runs(connection: sa.Connection, run_ids: list[int]) -> None:
    attempts = sa.select(AttemptTable.id).where(AttemptTable.run_id.in_(run_ids))
    summed_days.forget_days(connection, attempts)
    connection.execute(sa.delete(LossTable).where(LossTable.attempt_id.in_(attempts)))
    tables: tuple[Any, ...] = (
        VerificationTicketTable,
        LocationTable,
        CheckpointTable,
        AttemptTable,
        JobTable,
        NoticeTable,
        FlagTable,
        AuditTable,
    )
    for table in tables:
        connection.execute(sa.delete(table).where(table.run_id.in_(run_ids)))
    connection.execute(sa.delete(RunTable).where(RunTable.id.in_(run_ids)))


def _find_notices(connection: sa.Connection, cluster: str, before: datetime) -> list[int]:
    """Return old sent notices of runs that stay, except those of open flags, which are needed to avoid repeats."""
    flagged = sa.exists().where(FlagTable.run_id == NoticeTable.run_id, FlagTable.resolved_at.is_(None))
    statement = sa.select(NoticeTable.id).where(
        NoticeTable.cluster == cluster,
        NoticeTable.state.not_in(_OPEN_NOTICES),
        NoticeTable.created_at < before,
        ~flagged,
    )
    return list(connection.scalars(statement.order_by(NoticeTable.created_at, NoticeTable.id).limit(ROW_COUNT)))


def _delete_flags(connection: sa.Connection, before: datetime, run_ids: Collection[int]) -> int:
    """Delete the flags of these runs that were resolved before an instant; return how many."""
    count = 0
    for chunk in split(run_ids):
        is_old = FlagTable.run_id.in_(chunk) & (FlagTable.resolved_at < before)
        count += connection.execute(sa.delete(FlagTable).where(is_old)).rowcount
    return count
