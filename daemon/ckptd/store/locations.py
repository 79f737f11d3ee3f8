"""The further locations of runs: directories where their checkpoints are copied to.

What a scan finds in one is recorded as that of a run of the same owner without jobs, so that each location is scanned,
known or unknown on its own, and one that several runs share is scanned once.
"""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import COPY, NamedLocation, RunKey
from ckptd.core.model.records import LocationRecord
from ckptd.store import runs
from ckptd.store.engine import select_through
from ckptd.store.location_tables import LocationTable
from ckptd.store.named_locations import read_locations
from ckptd.store.row_values import hash_path
from ckptd.store.rows import RUN_KEY_COLUMNS, run_key, split
from ckptd.store.tables import RunTable

_NAMED: list[Any] = [
    LocationTable.directory,
    LocationTable.trouble,
    LocationTable.is_absent,
    LocationTable.is_earlier,
]


def record_copies(connection: sa.Connection, found: Collection[LocationRecord], now: datetime) -> None:
    """Replace the further locations of the runs of which a search has named them."""
    located = {each.run: each for each in found if each.copies is not None}
    rows = runs.find_runs(connection, located)
    known = read_locations(select_through(connection), rows.values())
    changed = {row_id: located[key] for key, row_id in rows.items() if known.get(row_id, ()) != located[key].copies}
    for chunk in split(changed):
        connection.execute(sa.delete(LocationTable).where(LocationTable.run_id.in_(chunk)))
    values = [
        {"run_id": row_id, "ordinal": ordinal, "directory_hash": hash_path(each.directory), **each._asdict()}
        for row_id, record in changed.items()
        for ordinal, each in enumerate(record.copies or (), start=1)
    ]
    if values:
        connection.execute(sa.insert(LocationTable), values)
    places = {
        record.run._replace(directory=each.directory): record.user
        for record in changed.values()
        for each in record.copies or ()
        if each.is_scanned
    }
    present = runs.find_runs(connection, places)
    new = [runs.RunLocation(key, user, COPY) for key, user in places.items() if key not in present]
    runs.insert_runs(connection, new, now)
    runs.touch_runs(connection, changed)


def read_all(connection: sa.Connection, cluster: str) -> dict[RunKey, tuple[NamedLocation, ...]]:
    """Return the further locations of every run of a cluster that has any."""
    found: dict[RunKey, list[NamedLocation]] = defaultdict(list)
    rows = connection.execute(
        _select(*RUN_KEY_COLUMNS)
        .join(RunTable, RunTable.id == LocationTable.run_id)
        .where(RunTable.cluster == cluster)
        .order_by(LocationTable.run_id, LocationTable.ordinal)
    )
    for row in rows:
        found[run_key(row)].append(NamedLocation(*row[len(RUN_KEY_COLUMNS) :]))
    return {key: tuple(locations) for key, locations in found.items()}


def is_copy_of_any() -> sa.ColumnElement[bool]:
    """Return the condition that a run's directory is a further location of another run."""
    other = sa.orm.aliased(RunTable)
    return sa.exists().where(
        LocationTable.directory_hash == RunTable.directory_hash,
        LocationTable.run_id == other.id,
        other.cluster == RunTable.cluster,
        other.uid == RunTable.uid,
    )


def _select(*lead: Any) -> sa.Select[Any]:
    return sa.select(*lead, *_NAMED)
