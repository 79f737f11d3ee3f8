"""Sums of lost work over the attempts of a period, by day for metrics, and by user, account or rule for reports."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from ckptd.core.model import EndCause, JobKey
from ckptd.core.queue import GUESSED_CAUSES
from ckptd.core.rows.stored_instants import instant
from ckptd.core.rows.text_escapes import encode_text
from ckptd.core.runs.lost_work_totals import (
    NO_RULE,
    RULES_ABOUT_THE_ATTEMPT_BEFORE,
    GroupedBy,
    LossKey,
    LossTotal,
)
from ckptd.store import day_sums
from ckptd.store.day_sums import COUNTS, SUMS, Days
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import JOB_KEY, decode_any, decode_day
from ckptd.store.read_parts import ReadPart, selecting
from ckptd.store.run_rows import OF_ANY_CLUSTER

_GROUP_COLUMNS = {
    GroupedBy.USER: 'l."user"',
    GroupedBy.ACCOUNT: "l.account",
    GroupedBy.PARTITION: 'l."partition"',
    GroupedBy.CAUSE: "l.cause",
    GroupedBy.CLUSTER: "l.cluster",
}


def _quote(words: Iterable[str]) -> str:
    """Return words of this program for `IN (...)`."""
    return ", ".join(f"'{word}'" for word in sorted(words))


_OF_CLUSTER, _OF_USER = "l.cluster = :cluster", 'l."user" = :user'

# which rule had a flag about which of the attempts that have ended since, each pair once
_BEFORE = _quote(RULES_ABOUT_THE_ATTEMPT_BEFORE)
_ORDER = "PARTITION BY a.run_id ORDER BY a.started_at, a.id"
_FLAGGED = f"""
LEFT JOIN (
    SELECT DISTINCT e.id AS attempt_id, f.rule AS rule FROM (
        SELECT a.id, a.run_id, a.started_at, a.ended_at, j.job_id,
            lead(a.started_at, 1) OVER ({_ORDER}) AS next_started_at,
            lead(a.started_at, 2) OVER ({_ORDER}) AS second_started_at
        FROM attempts a JOIN jobs j ON a.job_row = j.id
        WHERE a.ended_at >= :since OR a.ended_at IS NULL
    ) e JOIN flags f ON f.run_id = e.run_id
    WHERE e.ended_at IS NOT NULL AND (f.resolved_at IS NULL OR f.resolved_at >= :earliest) AND (
        f.rule IN ({_BEFORE}) AND f.opened_at >= e.next_started_at
            AND (e.second_started_at IS NULL OR f.opened_at < e.second_started_at)
        OR f.rule NOT IN ({_BEFORE}) AND f.opened_at <= e.ended_at
            AND (f.resolved_at IS NULL OR f.resolved_at > e.started_at)
            AND (f.job_id IS NULL OR f.job_id = e.job_id)
    )
) flagged ON flagged.attempt_id = l.attempt_id
"""  # noqa: S608 - the rules are this program's own


class LostWorkSumReader(ReadPart):
    """Sums of the lost work of ended attempts."""

    @selecting
    def sum_by_day(
        self,
        select: Select,
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
        groups = ("l.day", "l.cause", 'l."partition"', "l.account")
        days = (first, last)
        if final_before is None:
            rows = _sum_days(select, groups, cluster, days)
        else:
            is_sure = f"l.is_final AND l.cause NOT IN ({_quote(GUESSED_CAUSES)})"
            conditions = [_OF_CLUSTER, day_sums.is_within("l.day", [days])]
            conditions.append(f"({is_sure} OR l.ended_at < :final_before)")
            rows = iter(select(_sum(groups, "", conditions), {**_of(cluster), "final_before": final_before}))
        result: dict[date, dict[LossKey, LossTotal]] = defaultdict(dict)
        for day, cause, partition, account, *sums in rows:
            key = LossKey(EndCause(cause), decode_any(partition), decode_any(account))
            result[decode_day(day)][key] = _total(sums)
        return dict(sorted(result.items()))

    @selecting
    def sum_confirmed(
        self,
        select: Select,
        cluster: str,
        since: datetime,
        unconfirmed: Container[tuple[JobKey, int]],
    ) -> dict[LossKey, LossTotal]:
        """Return the sums over the final rows that ended at `since` or later with a cause that accounting confirmed.

        These are the rows that `sum_by_day` leaves out for their cause. `unconfirmed` are the attempts, by job and
        restart count, whose end accounting has not confirmed.
        """
        conditions = ["l.cluster = :cluster", "l.day >= :day", "l.ended_at >= :since"]
        conditions += ["l.is_final", f"l.cause IN ({_quote(GUESSED_CAUSES)})"]
        values: dict[str, object] = {
            "cluster": encode_text(cluster),
            "day": since.astimezone(UTC).date(),
            "since": since,
        }
        groups = ("l.cause", 'l."partition"', "l.account", "a.restart_count", JOB_KEY.of("j"))
        statement = _sum(groups, "JOIN jobs j ON a.job_row = j.id", conditions)
        result: dict[LossKey, LossTotal] = defaultdict(LossTotal)
        for cause, partition, account, restart_count, *row in select(statement, values):
            name, sums = JobKey(*JOB_KEY.decode(row[: len(JOB_KEY)])), row[len(JOB_KEY) :]
            if (name, restart_count) not in unconfirmed:
                key = LossKey(EndCause(cause), decode_any(partition), decode_any(account))
                result[key] += _total(sums)
        return dict(result)

    @selecting
    def sum_by(
        self,
        select: Select,
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
            return _sum_by_rule(select, since, cluster, user)
        day = since.astimezone(UTC).date()
        result: dict[str, LossTotal] = defaultdict(LossTotal)
        for each in _list_clusters(select) if cluster is None else [cluster]:
            rows = _sum_days(select, [_GROUP_COLUMNS[group]], each, (day, None), since=since, user=user)
            for name, *sums in rows:
                result[decode_any(name)] += _total(sums)
        return dict(result)


def _sum_by_rule(select: Select, since: datetime, cluster: str | None, user: str | None) -> dict[str, LossTotal]:
    conditions = ["l.day >= :day", "l.ended_at >= :since"]
    conditions.append(OF_ANY_CLUSTER.format(table="l") if cluster is None else _OF_CLUSTER)
    values: dict[str, object] = {"day": since.astimezone(UTC).date(), "since": since, **_of(cluster)}
    if user is not None:
        conditions.append(_OF_USER)
        values["user"] = encode_text(user)
    began = select("SELECT min(a.started_at) FROM attempts a WHERE a.ended_at >= :since", {"since": since})
    values["earliest"] = next((instant(row[0]) for row in began), None) or since
    groups = [f"coalesce(flagged.rule, '{NO_RULE}')"]
    return {decode_any(name): _total(sums) for name, *sums in select(_sum(groups, _FLAGGED, conditions), values)}


def _sum_days(
    select: Select,
    groups: Sequence[str],
    cluster: str,
    days: Days,
    *,
    since: datetime | None = None,
    user: str | None = None,
) -> Iterator[Sequence[Any]]:
    """Yield sums of the days that have them, and others over the rows of all other days; some of the same group.

    Of the rows, only those count that ended at `since` or later, on the first of these days.
    """
    first, last = days
    whole = days if first is None or since is None else (first + timedelta(days=1), last)
    summed = day_sums.list_summed(select, cluster, whole)
    conditions, values = [_OF_CLUSTER], dict(_of(cluster))
    if user is not None:
        conditions.append(_OF_USER)
        values["user"] = encode_text(user)
    if summed:
        limits = day_sums.is_within("l.day", [(summed[0], summed[-1])])
        yield from select(_add_sums(groups, [*conditions, limits]), values)
    conditions.append(day_sums.is_within("l.day", day_sums.list_gaps(summed, days)))
    if since is not None:
        conditions.append("l.ended_at >= :since")
        values["since"] = since
    yield from select(_sum(groups, "", conditions), values)


def _of(cluster: str | None) -> dict[str, object]:
    return {} if cluster is None else {"cluster": encode_text(cluster)}


def _list_clusters(select: Select) -> list[str]:
    return [decode_any(name) for (name,) in select("SELECT name FROM clusters ORDER BY name", {})]


def _add_sums(groups: Sequence[str], conditions: Sequence[str]) -> str:
    names = ", ".join(groups)
    totals = ", ".join(f"sum(l.{name})" for name in (*COUNTS, *SUMS))
    return f"SELECT {names}, {totals} FROM day_sums l WHERE {' AND '.join(conditions)} GROUP BY {names}"  # noqa: S608


def _sum(groups: Sequence[str], join: str, conditions: Sequence[str]) -> str:
    names = ", ".join(groups)
    totals = ", ".join([*COUNTS.values(), *SUMS.values()])
    return f"""
        SELECT {names}, {totals} FROM losses l JOIN attempts a ON l.attempt_id = a.id {join}
        WHERE {" AND ".join(conditions)} GROUP BY {names}
    """  # noqa: S608 - the columns and conditions are this module's own


def _total(sums: Sequence[Any]) -> LossTotal:
    values: dict[str, Any] = {}
    for name, each in zip([*COUNTS, *SUMS], sums, strict=True):
        values[name] = int(each) if name in COUNTS else float(each)
    return LossTotal(**values)
