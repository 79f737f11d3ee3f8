"""Replaces the rows of deleted checkpoints by sums, once their run has ended long ago: they are most of a database.

What a later restart of the run may be compared with stays: the newest checkpoints, the last one of each attempt, and
the one with the furthest progress.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.core.model import SummedCheckpoints
from ckptd.core.model.records import RunPlace
from ckptd.store import runs
from ckptd.store.expiry import RUN_COUNT, find_in_trash, list_runs
from ckptd.store.locations import is_copy_of_any
from ckptd.store.row_values import decode_summed, encode_summed
from ckptd.store.rows import split
from ckptd.store.tables import AttemptTable, AuditTable, CheckpointTable, JobTable, RunTable
from ckptd.store.ticket_tables import VerificationTicketTable
from ckptd.store.transactions import StorePart, writing

ROW_COUNT = 10_000  # after which a transaction takes no further run, so that it is short
KEPT_COUNT = 2  # newest checkpoints of a run that stay


class SummedRows(NamedTuple):
    """How many rows one transaction summed up, and after which run the next one goes on; None: that was the last."""

    row_count: int
    last_run: RunPlace | None


class SummedCheckpointStore(StorePart):
    """Sums over deleted checkpoints of runs that ended long ago."""

    @writing
    def sum_up(
        self, connection: sa.Connection, cluster: str, before: datetime, after: RunPlace | None = None
    ) -> SummedRows:
        """Sum up what was deleted before an instant of those of the next runs that ended before it.

        Runs are taken in the order of their record. A run with a checkpoint in the trash is left as it is.
        """
        is_marked = RunTable.summed_revision.is_not(None) & (RunTable.summed_revision == RunTable.revision)
        page = list_runs(connection, cluster, before, after, ~is_marked)
        ended = _find_ended(connection, before, [row_id for _, row_id in page])
        found = _sum_rows(connection, before, ended)
        taken: list[int] = []
        count, last = 0, None
        for place in page:
            if place[1] in ended:
                taken.append(place[1])
                count += found[place[1]].checkpoint_count if place[1] in found else 0
            last = place
            if count >= ROW_COUNT:
                break
        _replace_rows(connection, before, {row_id: found[row_id] for row_id in taken if row_id in found})
        _mark(connection, before, taken)
        is_end = len(page) < RUN_COUNT and last == (page[-1] if page else None)
        return SummedRows(count, None if is_end else last)


def _find_ended(connection: sa.Connection, before: datetime, run_ids: Collection[int]) -> set[int]:
    """Return which of these runs ended before an instant, and are not in the middle of anything."""

    def none(table: Any, *conditions: Any) -> Any:
        return ~sa.exists().where(table.run_id == RunTable.id, sa.or_(*conditions))

    found: list[int] = []
    for chunk in split(run_ids):
        found += connection.scalars(
            sa.select(RunTable.id).where(
                RunTable.id.in_(chunk),
                ~is_copy_of_any(),
                none(JobTable, JobTable.ended_at.is_(None), JobTable.ended_at >= before, JobTable.in_queue),
                none(AttemptTable, AttemptTable.ended_at.is_(None), AttemptTable.ended_at >= before),
                none(AuditTable, AuditTable.finished_at.is_(None)),
                none(VerificationTicketTable, sa.true()),
            )
        )
    return set(found) - find_in_trash(connection, found)


def _select_rows(before: datetime, run_ids: Collection[int]) -> sa.Subquery:
    """Return the rows that are summed up: of each, its id, run, size, and when it was first seen."""
    row = CheckpointTable
    newest: list[Any] = [row.first_seen_at.desc(), row.id.desc()]
    last_save: list[Any] = [sa.case((row.completed_at.is_(None), 1), else_=0), row.completed_at.desc(), row.id.desc()]
    step, epoch = sa.func.coalesce(row.step, -1), sa.func.coalesce(row.epoch, -1.0)
    furthest: list[Any] = [step.desc(), epoch.desc(), row.id.desc()]
    ranked = (
        sa.select(
            row.id,
            row.run_id,
            row.size_bytes,
            row.first_seen_at,
            row.deleted_at,
            row.is_pinned,
            sa.func.row_number().over(partition_by=row.run_id, order_by=newest).label("place"),
            sa.func.row_number()
            .over(partition_by=[row.run_id, row.attempt_id], order_by=last_save)
            .label("of_attempt"),
            sa.func.row_number().over(partition_by=row.run_id, order_by=furthest).label("reach"),
        )
        .where(row.run_id.in_(run_ids))
        .subquery()
    )
    columns = ranked.c
    return (
        sa.select(columns.id, columns.run_id, columns.size_bytes, columns.first_seen_at)
        .where(
            columns.deleted_at < before,
            columns.is_pinned.is_(False),
            columns.place > KEPT_COUNT,
            columns.of_attempt > 1,
            columns.reach > 1,
        )
        .subquery()
    )


def _sum_rows(connection: sa.Connection, before: datetime, run_ids: Collection[int]) -> dict[int, SummedCheckpoints]:
    """Return the sums over what is to be summed up of each run that has any."""
    found: dict[int, SummedCheckpoints] = {}
    for chunk in split(run_ids):
        rows = _select_rows(before, chunk).c
        size = sa.func.sum(sa.cast(rows.size_bytes, sa.Float()))  # sparse files may claim more than a number holds
        statement = sa.select(
            rows.run_id, sa.func.count(), size, sa.func.min(rows.first_seen_at), sa.func.max(rows.first_seen_at)
        ).group_by(rows.run_id)
        for run_id, count, size_bytes, first, last in connection.execute(statement):
            found[run_id] = SummedCheckpoints(count, int(size_bytes), first, last)
    return found


def _replace_rows(connection: sa.Connection, before: datetime, sums: dict[int, SummedCheckpoints]) -> None:
    for chunk in split(sums):
        rows = _select_rows(before, chunk)
        connection.execute(sa.delete(CheckpointTable).where(CheckpointTable.id.in_(sa.select(rows.c.id))))
        known = connection.execute(sa.select(RunTable.id, RunTable.summed_checkpoints).where(RunTable.id.in_(chunk)))
        for run_id, values in known.all():
            added = _add(decode_summed(values), sums[run_id])
            update = sa.update(RunTable).where(RunTable.id == run_id)
            connection.execute(update.values(summed_checkpoints=encode_summed(added)))
    runs.touch_runs(connection, sums)


def _add(known: SummedCheckpoints | None, more: SummedCheckpoints) -> SummedCheckpoints:
    if known is None:
        return more
    return SummedCheckpoints(
        known.checkpoint_count + more.checkpoint_count,
        known.size_bytes + more.size_bytes,
        min(known.first_seen_at, more.first_seen_at),
        max(known.last_seen_at, more.last_seen_at),
    )


def _mark(connection: sa.Connection, before: datetime, run_ids: Collection[int]) -> None:
    """Mark the runs of which nothing more is to be summed up until they change."""
    is_young = sa.exists().where(CheckpointTable.run_id == RunTable.id, CheckpointTable.deleted_at >= before)
    for chunk in split(run_ids):
        is_done = RunTable.id.in_(chunk) & ~is_young
        connection.execute(sa.update(RunTable).where(is_done).values(summed_revision=RunTable.revision))
