"""Counts how attempts ended, with plain SQL."""

from datetime import datetime, timedelta

from ckptd.core.model import EndCause
from ckptd.core.runs.observations import EndTally
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import decode_any
from ckptd.store.read_parts import ReadPart, selecting
from ckptd.store.text_escapes import encode_text

_ENDS = """
SELECT a.node_count, a."partition", a.cause, j.uid, count(*), sum({ended} - {began})
FROM attempts a JOIN jobs j ON a.job_row = j.id
WHERE j.cluster = :cluster AND a.ended_at >= :since
GROUP BY a.node_count, a."partition", a.cause, j.uid
"""


def read_ends(select: Select, cluster: str, since: datetime) -> tuple[EndTally, ...]:
    """Return the attempts that ended since then, summed up by size, partition, cause and owner."""
    began, ended = (_seconds_of(select, column) for column in ("a.started_at", "a.ended_at"))
    values = {"cluster": encode_text(cluster), "since": since}
    return tuple(
        EndTally(
            node_count,
            decode_any(partition),
            EndCause.UNKNOWN if cause is None else EndCause(cause),
            count,
            timedelta(seconds=int(seconds)),
            uid,
        )
        for node_count, partition, cause, uid, count, seconds in select(_ENDS.format(began=began, ended=ended), values)
    )


class EndReader(ReadPart):
    """How the attempts of a cluster ended."""

    @selecting
    def read_ends(self, select: Select, cluster: str, since: datetime) -> tuple[EndTally, ...]:
        """Return the attempts that ended since then, summed up by size, partition, cause and owner."""
        return read_ends(select, cluster, since)


def _seconds_of(select: Select, column: str) -> str:
    """Return whole seconds since the epoch, because SQLite's other ways to subtract instants are not exact."""
    return f"({column} / 1000000)" if select.is_sqlite else f"floor(extract(epoch FROM {column}))"
