"""Reads the directories that clusters declare to share, with plain SQL."""

from ckptd.core.runs.shared_files import SharedDirectory
from ckptd.store.plain_reads import Select
from ckptd.store.text_escapes import decode_text

_DECLARED = (
    "SELECT cluster, other_cluster, directory FROM shared_directories ORDER BY directory, cluster, other_cluster"
)


def read_declared(select: Select) -> tuple[SharedDirectory, ...]:
    """Return what all clusters declare, in effect or not, by directory."""
    return tuple(SharedDirectory(*map(decode_text, row)) for row in select(_DECLARED, {}))
