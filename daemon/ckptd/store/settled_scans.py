"""The scans with which the record of runs agrees: until disk or record change, another one would find the same.

A daemon that starts again on a large record so asks of each directory whether it changed, instead of reading it. What
another version of ckptd recognised does not count.
"""

import functools
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from ckptd.core.model import RunKey
from ckptd.core.model.records import SettledScan
from ckptd.core.rows.stored_unrecognised import decode_unrecognised
from ckptd.store import runs
from ckptd.store.rows import ROW_IDS, split, table_of
from ckptd.store.tables import RunTable
from ckptd.store.transactions import StorePart, reading, writing_if_any

_SETTLED = sa.select(
    RunTable.id,
    RunTable.settled_fingerprint,
    RunTable.revision,
    RunTable.settled_markers,
    RunTable.unrecognised_file,  # which the revision covers
).where(
    RunTable.id.in_(ROW_IDS),
    RunTable.settled_revision == RunTable.revision,
    RunTable.settled_version == sa.bindparam("version"),
)


class SettledScanStore(StorePart):
    """For each run at most one such scan; it counts as long as the run's revision is the one it was recorded for."""

    @reading
    def read(self, connection: sa.Connection, keys: Collection[RunKey]) -> dict[RunKey, SettledScan]:
        """Return the scans with which the present record of these runs agrees; omit the other runs."""
        numbers = {row_id: key for key, row_id in runs.find_runs(connection, keys).items()}
        found: dict[RunKey, SettledScan] = {}
        for chunk in split(numbers):
            values = {"row_ids": chunk, "version": _find_version()}
            for row_id, fingerprint, revision, markers, unrecognised in connection.execute(_SETTLED, values):
                file = decode_unrecognised(unrecognised)
                found[numbers[row_id]] = SettledScan(fingerprint, revision, tuple(markers or ()), file)
        return found

    @writing_if_any
    def record(self, connection: sa.Connection, settled: Mapping[RunKey, SettledScan]) -> None:
        """Record scans, each with the revision of the record that was compared with it."""
        values = [
            {
                "key_id": row_id,
                "settled_fingerprint": settled[key].fingerprint,
                "settled_revision": settled[key].revision,
                "settled_version": _find_version(),
                "settled_markers": list(settled[key].markers) or None,
            }
            for key, row_id in runs.find_runs(connection, settled).items()
        ]
        if values:
            table = table_of(RunTable)
            connection.execute(sa.update(table).where(table.c.id == sa.bindparam("key_id")), values)


@functools.cache
def _find_version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - commands would wait for it at every start

    return version("ckptd")[:64]
