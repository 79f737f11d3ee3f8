"""Sums of lost work over the attempts of a period, by day for metrics, and by user, account or rule for reports."""

from collections import defaultdict
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.queue import GUESSED_CAUSES
from ckptd.core.runs.lost_work_totals import (
    NO_RULE,
    RULES_ABOUT_THE_ATTEMPT_BEFORE,
    GroupedBy,
    LossKey,
    LossTotal,
)
from ckptd.store.tables import AttemptTable, FlagTable, JobTable, LossTable
from ckptd.store.transactions import StorePart, reading

_UNITS: dict[str, Any] = {
    "": sa.literal(1),
    "node_": AttemptTable.node_count,
    "cpu_": AttemptTable.cpu_count,
    "gpu_": AttemptTable.gpu_count,
}
_HIGH = sa.func.coalesce(LossTable.lost_high, LossTable.lost)
_PARTS: dict[str, Any] = {
    "": LossTable.lost,
    "high_": _HIGH,
    "redone_": LossTable.redone_low,
    "redone_high_": LossTable.redone_high,
}
_COUNTS: dict[str, sa.ColumnElement[Any]] = {
    "attempt_count": sa.func.count(),
    "unknown_count": sa.func.coalesce(sa.func.sum(sa.case((LossTable.lost < _HIGH, 1), else_=0)), 0),
    "redone_unknown_count": sa.func.coalesce(sa.func.sum(sa.case((LossTable.redone_low.is_(None), 1), else_=0)), 0),
}
_SUMS: dict[str, sa.ColumnElement[Any]] = {
    f"{part}{unit}seconds": sa.func.coalesce(sa.func.sum(sa.type_coerce(duration, sa.Double()) * factor), 0.0)
    for part, duration in _PARTS.items()
    for unit, factor in _UNITS.items()
}
_TOTAL_COLUMNS: list[Any] = [*_COUNTS.values(), *_SUMS.values()]
_GROUP_COLUMNS: dict[GroupedBy, Any] = {
    GroupedBy.USER: LossTable.user,
    GroupedBy.ACCOUNT: LossTable.account,
    GroupedBy.PARTITION: LossTable.partition,
    GroupedBy.CAUSE: LossTable.cause,
}


class LostWorkSumStore(StorePart):
    """Sums of the lost work of ended attempts."""

    @reading
    def sum_by_day(
        self,
        connection: sa.Connection,
        cluster: str,
        *,
        first: date | None = None,
        last: date | None = None,
        final_before: datetime | None = None,
    ) -> dict[date, dict[LossKey, LossTotal]]:
        """Return each day's sums by cause, partition and account.

        With `final_before`, only sum rows that are unlikely to change: attempts that ended before then, and final rows
        whose cause is certain.
        """
        groups: list[Any] = [LossTable.day, LossTable.cause, LossTable.partition, LossTable.account]
        statement = _sum(groups).where(LossTable.cluster == cluster).order_by(LossTable.day)
        if first is not None:
            statement = statement.where(LossTable.day >= first)
        if last is not None:
            statement = statement.where(LossTable.day <= last)
        if final_before is not None:
            is_sure = LossTable.is_final & LossTable.cause.not_in(GUESSED_CAUSES)
            statement = statement.where(is_sure | (LossTable.ended_at < final_before))
        result: dict[date, dict[LossKey, LossTotal]] = defaultdict(dict)
        for day, cause, partition, account, *sums in connection.execute(statement):
            result[day][LossKey(cause, partition, account)] = _total(sums)
        return dict(result)

    @reading
    def sum_by(
        self,
        connection: sa.Connection,
        group: GroupedBy,
        since: datetime,
        *,
        cluster: str | None = None,
        user: str | None = None,
    ) -> dict[str, LossTotal]:
        """Return the sums over the attempts that ended since `since`, by the group's name.

        By rule, an attempt counts under each rule that had a flag about it, so that these sums overlap; under NO_RULE
        where there was none. A flag is about the attempt during which it was open; one of the rules that judge a
        restart is about the attempt before the one in which it opened.
        """
        if group is GroupedBy.RULE:
            flagged = _select_flagged(since)
            name: Any = sa.func.coalesce(flagged.c.rule, NO_RULE)
            statement = _sum([name]).outerjoin(flagged, flagged.c.attempt_id == LossTable.attempt_id)
        else:
            statement = _sum([_GROUP_COLUMNS[group]])
        statement = statement.where(LossTable.day >= since.astimezone(UTC).date(), LossTable.ended_at >= since)
        if cluster is not None:
            statement = statement.where(LossTable.cluster == cluster)
        if user is not None:
            statement = statement.where(LossTable.user == user)
        return {str(name): _total(sums) for name, *sums in connection.execute(statement)}


def _sum(groups: list[Any]) -> sa.Select[Any]:
    joined = sa.select(*groups, *_TOTAL_COLUMNS).join(AttemptTable, LossTable.attempt_id == AttemptTable.id)
    return joined.select_from(LossTable).group_by(*groups)


def _total(sums: list[Any]) -> LossTotal:
    values: dict[str, Any] = {}
    for name, each in zip([*_COUNTS, *_SUMS], sums, strict=True):
        values[name] = int(each) if name in _COUNTS else float(each)
    return LossTotal(**values)


def _select_flagged(since: datetime) -> sa.Subquery:
    """Return which rule had a flag about which of the attempts that have ended since, each pair once."""
    order: dict[str, Any] = {
        "partition_by": AttemptTable.run_id,
        "order_by": (AttemptTable.started_at, AttemptTable.id),
    }
    attempts = (
        sa.select(
            AttemptTable.id,
            AttemptTable.run_id,
            AttemptTable.started_at,
            AttemptTable.ended_at,
            JobTable.job_id,
            sa.func.lead(AttemptTable.started_at, 1).over(**order).label("next_started_at"),
            sa.func.lead(AttemptTable.started_at, 2).over(**order).label("second_started_at"),
        )
        .join(JobTable, AttemptTable.job_row == JobTable.id)
        .where((AttemptTable.ended_at >= since) | AttemptTable.ended_at.is_(None))
        .subquery()
    )
    is_about_before = FlagTable.rule.in_(RULES_ABOUT_THE_ATTEMPT_BEFORE)
    is_during = (
        (FlagTable.opened_at <= attempts.c.ended_at)
        & (FlagTable.resolved_at.is_(None) | (FlagTable.resolved_at > attempts.c.started_at))
        & (FlagTable.job_id.is_(None) | (FlagTable.job_id == attempts.c.job_id))
    )
    is_after = (FlagTable.opened_at >= attempts.c.next_started_at) & (
        attempts.c.second_started_at.is_(None) | (FlagTable.opened_at < attempts.c.second_started_at)
    )
    is_about = (is_about_before & is_after) | (~is_about_before & is_during)
    return (
        sa.select(attempts.c.id.label("attempt_id"), FlagTable.rule)
        .join(FlagTable, FlagTable.run_id == attempts.c.run_id)
        .where(attempts.c.ended_at.is_not(None), is_about)
        .distinct()
        .subquery()
    )
