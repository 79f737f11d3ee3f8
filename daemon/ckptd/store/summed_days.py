"""Sums up the lost work of each day once, so that no reader adds up a year of rows."""

from collections.abc import Collection
from datetime import date
from typing import Any

import sqlalchemy as sa

from ckptd.core.rows.text_escapes import encode_text
from ckptd.store import day_sums
from ckptd.store.day_sum_tables import DaySumTable, SummedDayTable
from ckptd.store.end_rows import sum_observed
from ckptd.store.engine import select_through
from ckptd.store.rows import ROW_IDS, split
from ckptd.store.tables import LossTable
from ckptd.store.transactions import StorePart, reading, writing

_TOTALS = {**day_sums.COUNTS, **day_sums.SUMS}
_GROUPS = ('l."user"', "j.uid", "l.account", 'l."partition"', "l.cause", "a.node_count")
_SUM_UP = f"""
INSERT INTO day_sums (cluster, day, "user", uid, account, "partition", cause, node_count, observed_seconds,
    {", ".join(_TOTALS)})
SELECT l.cluster, l.day, {", ".join(_GROUPS)}, {{observed}}, {", ".join(_TOTALS.values())}
FROM losses l JOIN attempts a ON l.attempt_id = a.id JOIN jobs j ON a.job_row = j.id
WHERE l.cluster = :cluster AND l.day = :day GROUP BY l.cluster, l.day, {", ".join(_GROUPS)}
"""  # noqa: S608 - the columns are this package's own


class SummedDayStore(StorePart):
    """Sums of whole days."""

    @reading
    def list_missing(self, connection: sa.Connection, cluster: str, last: date) -> list[date]:
        """Return the days until `last` that have lost work and no sums, oldest first."""
        select = select_through(connection)
        summed = day_sums.list_summed(select, cluster, (None, last))
        found: list[date] = []
        for first, end in day_sums.list_gaps(summed, (None, last)):
            found += _list_days(connection, cluster, first, end or last)
        return found

    @writing
    def sum_up(self, connection: sa.Connection, cluster: str, day: date) -> None:
        """Record the sums of a day."""
        _forget(connection, cluster, [day])
        select = select_through(connection)
        values = {"cluster": encode_text(cluster), "day": day}
        select.run(_SUM_UP.format(observed=sum_observed(select)), values)
        connection.execute(sa.insert(SummedDayTable).values(cluster=cluster, day=day))


def forget_days(connection: sa.Connection, attempts: sa.Select[Any] | Collection[int]) -> None:
    """Delete the sums of the days on which these attempts ended, according to their rows of lost work."""
    if isinstance(attempts, Collection):
        found = [row for chunk in split(attempts) for row in connection.execute(_SUMMED, {"row_ids": chunk})]
    else:
        found = list(connection.execute(_select_summed(attempts)))
    for cluster, day in found:
        _forget(connection, cluster, [day])


def _select_summed(attempts: Any) -> sa.Select[Any]:
    ended = sa.select(LossTable.cluster, LossTable.day).where(LossTable.attempt_id.in_(attempts)).distinct()
    days: list[Any] = [SummedDayTable.cluster, SummedDayTable.day]
    return sa.select(*days).where(sa.tuple_(*days).in_(ended))


_SUMMED = _select_summed(ROW_IDS)


def _forget(connection: sa.Connection, cluster: str, days: Collection[date]) -> None:
    for table in (SummedDayTable, DaySumTable):
        connection.execute(sa.delete(table).where(table.cluster == cluster, table.day.in_(days)))


def _list_days(connection: sa.Connection, cluster: str, first: date | None, last: date) -> list[date]:
    """Return the days with lost work in a range: one look-up of the index for each."""
    found: list[date] = []
    statement = sa.select(sa.func.min(LossTable.day)).where(LossTable.cluster == cluster, LossTable.day <= last)
    after = LossTable.day >= first if first else sa.true()
    while (day := connection.scalar(statement.where(after))) is not None:
        found.append(day)
        after = LossTable.day > day
    return found
