"""Reads the directories that clusters declare to share, with plain SQL."""

from datetime import timedelta

from ckptd.core.rows.text_escapes import decode_text
from ckptd.core.runs.shared_files import SharedDirectory, select_mutual
from ckptd.store.plain_reads import Select
from ckptd.store.plain_rows import decode_seconds

_DECLARED = (
    "SELECT cluster, other_cluster, directory FROM shared_directories ORDER BY directory, cluster, other_cluster"
)


def read_declared(select: Select) -> tuple[SharedDirectory, ...]:
    """Return what all clusters declare, in effect or not, by directory."""
    return tuple(SharedDirectory(*map(decode_text, row)) for row in select(_DECLARED, {}))


def read_clocks(select: Select) -> dict[str, timedelta]:
    """Return how far the clock of each cluster's Slurm is ahead of that of the database, as far as this is known."""
    rows = select("SELECT name, clock_ahead_seconds FROM clusters WHERE clock_ahead_seconds IS NOT NULL", {})
    return {decode_text(name): decode_seconds(ahead) for name, ahead in rows}


def read_mutual(select: Select) -> tuple[SharedDirectory, ...]:
    """Return the declarations of all clusters that are in effect."""
    declared = read_declared(select)
    return select_mutual(declared, read_clocks(select)) if declared else ()
