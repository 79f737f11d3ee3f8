"""Counts how attempts ended, with plain SQL: from the sums of days, and from the attempts of days without them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ckptd.core.model import EndCause
from ckptd.core.rows.text_escapes import encode_text
from ckptd.core.runs.observations import EndTally
from ckptd.store import day_sums
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import decode_any
from ckptd.store.read_parts import ReadPart, selecting

_ENDS = """
SELECT a.node_count, a."partition", a.cause, j.uid, count(*), {observed}
FROM attempts a JOIN jobs j ON a.job_row = j.id
WHERE {cluster} = :cluster AND a.ended_at >= :since AND {within}
GROUP BY a.node_count, a."partition", a.cause, j.uid
"""
_SUMMED = """
SELECT s.node_count, s."partition", s.cause, s.uid, sum(s.attempt_count), sum(s.observed_seconds)
FROM day_sums s WHERE s.cluster = :cluster AND {within}
GROUP BY s.node_count, s."partition", s.cause, s.uid
"""


def read_ends(select: Select, cluster: str, since: datetime) -> tuple[EndTally, ...]:
    """Return the attempts that ended since then, summed up by size, partition, cause and owner, in up to two parts."""
    return tuple(
        EndTally(
            node_count,
            decode_any(partition),
            EndCause.UNKNOWN if cause is None else EndCause(cause),
            int(count),
            timedelta(seconds=int(seconds)),
            uid,
        )
        for node_count, partition, cause, uid, count, seconds in _list_rows(select, cluster, since)
    )


def _list_rows(select: Select, cluster: str, since: datetime) -> Iterator[Sequence[Any]]:
    values = {"cluster": encode_text(cluster), "since": since}
    day = since.astimezone(UTC).date()
    summed = day_sums.list_summed(select, cluster, (day + timedelta(days=1), None))
    if summed:
        within = day_sums.is_within("s.day", [(summed[0], summed[-1])])
        yield from select(_SUMMED.format(within=within), {"cluster": encode_text(cluster)})
    gaps = day_sums.list_gaps(summed, (day, None))
    within = day_sums.is_instant_within("a.ended_at", gaps, is_sqlite=select.is_sqlite)
    owner = "j.cluster || ''" if select.is_sqlite else "j.cluster"  # see rows.without_index
    yield from select(_ENDS.format(cluster=owner, observed=sum_observed(select), within=within), values)


class EndReader(ReadPart):
    """How the attempts of a cluster ended."""

    @selecting
    def read_ends(self, select: Select, cluster: str, since: datetime) -> tuple[EndTally, ...]:
        """Return the attempts that ended since then, summed up by size, partition, cause and owner."""
        return read_ends(select, cluster, since)


def sum_observed(select: Select) -> str:
    """Return the sum of how long attempts `a` ran, in whole seconds."""
    return f"sum({_seconds_of(select, 'a.ended_at')} - {_seconds_of(select, 'a.started_at')})"


def _seconds_of(select: Select, column: str) -> str:
    """Return whole seconds since the epoch, because SQLite's other ways to subtract instants are not exact."""
    return f"({column} / 1000000)" if select.is_sqlite else f"floor(extract(epoch FROM {column}))"
