"""Reads sums of days with plain SQL; what they do not cover is summed up from the rows of attempts.

A day's sums are deleted when a row of that day changes (`summed_days`), so both ways come to the same.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta

from ckptd.core.rows.text_escapes import encode_text
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import decode_day

Days = tuple[date | None, date | None]  # the first and the last one; None: no limit
_DAY = timedelta(days=1)
_HIGH = "coalesce(l.lost_high_seconds, l.lost_seconds)"
_UNITS = {"": "1", "node_": "a.node_count", "cpu_": "a.cpu_count", "gpu_": "a.gpu_count"}
_PARTS = {
    "": "l.lost_seconds",
    "high_": _HIGH,
    "redone_": "l.redone_low_seconds",
    "redone_high_": "l.redone_high_seconds",
}
# the fields of a LossTotal, over rows of losses `l` and their attempts `a`
COUNTS = {
    "attempt_count": "count(*)",
    "unknown_count": f"sum(CASE WHEN l.lost_seconds < {_HIGH} THEN 1 ELSE 0 END)",
    "redone_unknown_count": "sum(CASE WHEN l.redone_low_seconds IS NULL THEN 1 ELSE 0 END)",
}
SUMS = {
    f"{part}{unit}seconds": f"coalesce(sum({duration} * {factor}), 0.0)"
    for part, duration in _PARTS.items()
    for unit, factor in _UNITS.items()
}


def list_summed(select: Select, cluster: str, days: Days) -> list[date]:
    """Return the days that have sums, in order."""
    statement = f"SELECT d.day FROM summed_days d WHERE d.cluster = :cluster AND {is_within('d.day', [days])}"  # noqa: S608
    rows = select(f"{statement} ORDER BY d.day", {"cluster": encode_text(cluster)})
    return [decode_day(day) for (day,) in rows]


def list_gaps(summed: Iterable[date], days: Days) -> Iterator[Days]:
    """Yield the ranges of days between those that have sums."""
    start, last = days
    for day in summed:
        if start is None or start < day:
            yield start, day - _DAY
        start = day + _DAY
    if start is None or last is None or start <= last:
        yield start, last


def is_within(column: str, ranges: Iterable[Days]) -> str:
    """Return the condition that a column with a day is in one of these ranges."""
    return _any_of(
        (f"{column} >= '{first}'" if first else "", f"{column} <= '{last}'" if last else "") for first, last in ranges
    )


def is_instant_within(column: str, ranges: Iterable[Days], *, is_sqlite: bool) -> str:
    """Return the condition that a column with an instant is in one of these ranges of days in UTC."""
    return _any_of(
        (
            f"{column} >= {_begin(first, is_sqlite)}" if first else "",
            f"{column} < {_begin(last + _DAY, is_sqlite)}" if last else "",
        )
        for first, last in ranges
    )


def _any_of(limits: Iterable[tuple[str, str]]) -> str:
    ranges = [" AND ".join(filter(None, pair)) or "1 = 1" for pair in limits]
    return f"({' OR '.join(ranges) or '1 = 0'})"


def _begin(day: date, is_sqlite: bool) -> str:
    begin = datetime.combine(day, time(), UTC)
    return str(int(begin.timestamp()) * 1_000_000) if is_sqlite else f"'{day} UTC'"
