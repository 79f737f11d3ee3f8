"""Rows that go through the driver are stored as those that go through SQLAlchemy."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from ckptd.core.model import CheckpointState, Role
from ckptd.store.bulk_inserts import insert_rows
from ckptd.store.rows import table_of
from ckptd.store.tables import CheckpointTable, ClusterTable, RunTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ODD_TEXT = "a\x00b\udcffé'\"%s :x ?"  # what a directory's name or a comment may contain

RUN = {
    "cluster": "c",
    "uid": 1000,
    "directory": ODD_TEXT,
    "directory_hash": "00",
    "user": "u",
    "located_by": None,
    "recorded_since": NOON,
    "revision": 0,
    "leftovers": [ODD_TEXT, 1, None],
}
CHECKPOINT = {
    "run_id": 1,
    "path": ODD_TEXT,
    "path_key": -5,
    "format": "torch",
    "members": b"\x00\xff",
    "details": None,
    "owner_uids": [0, 2**32 - 1],
    "unsafe": {"a": 1.5},
    "reason": None,
    "first_seen_at": NOON + timedelta(microseconds=1),
    "modified_at": NOON.astimezone(timezone(timedelta(hours=5))),
    "completed_at": None,
    "size_bytes": 2**62,
    "step": 7,
    "epoch": 0.5,
    "state": CheckpointState.DAMAGED,
    "role": Role.STATE,
    "is_pinned": True,
}


def read_all(connection, table):
    return [row[1:] for row in connection.execute(sa.select(table).order_by(table.c[0]))]  # without the row's number


@pytest.fixture
def connection(store):
    with store.database.writing() as connection:
        connection.execute(sa.insert(ClusterTable).values(name="c"))
        connection.execute(sa.insert(RunTable).values(**{**RUN, "directory": "/d", "directory_hash": "01"}))
        yield connection
        connection.rollback()


@pytest.mark.parametrize(("kind", "row"), [(RunTable, RUN), (CheckpointTable, CHECKPOINT)])
def test_a_row_is_stored_as_sqlalchemy_stores_it(connection, kind, row):
    table = table_of(kind)
    if kind is CheckpointTable:
        row = row | {"run_id": connection.scalar(sa.select(RunTable.id))}
    connection.execute(sa.insert(table), [row])
    [*_, expected] = read_all(connection, table)
    connection.execute(sa.delete(table).where(table.c.id == connection.scalar(sa.select(sa.func.max(table.c.id)))))
    insert_rows(connection, table, [row, row | {"cluster": "c", "directory_hash": "02"} if kind is RunTable else row])
    *_, first, second = read_all(connection, table)
    assert first == expected
    assert list(second) == [
        "02" if column.name == "directory_hash" else value
        for column, value in zip(list(table.columns)[1:], expected, strict=True)
    ]


def test_no_rows_are_no_statement(connection):
    insert_rows(connection, table_of(CheckpointTable), [])
    assert read_all(connection, table_of(CheckpointTable)) == []


def test_a_missing_column_is_an_error(connection):
    row = {**CHECKPOINT, "run_id": connection.scalar(sa.select(RunTable.id))}
    with pytest.raises(KeyError, match="path_key"):
        insert_rows(
            connection, table_of(CheckpointTable), [row, {name: row[name] for name in row if name != "path_key"}]
        )
