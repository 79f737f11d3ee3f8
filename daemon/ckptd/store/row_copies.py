"""Copies all rows of one database to another, and compares them there.

The tables are those of the models, so that no new table is forgotten. Values are copied as they are stored, without
being decoded, except instants, which SQLite stores without a time zone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from ckptd.store.all_tables import METADATA
from ckptd.store.columns import Instant
from ckptd.store.database_errors import StoreError
from ckptd.store.engine import begin, name_database
from ckptd.store.lease_tables import LeaseTable, StandbyTable

_BATCH_ROWS = 1000
_MODULUS = 1 << 128


class CopiedTable(NamedTuple):
    """One table with its number of rows, and a checksum of them that does not depend on their order."""

    name: str
    row_count: int
    checksum: int


def copy_rows(source: sa.Engine, target: sa.Engine) -> tuple[CopiedTable, ...]:
    """Copy the rows that the source has at one moment to the empty tables of the target, completely or not at all.

    Nobody acts on the target yet: its leases keep their epochs, and have no holder.

    Raises:
        StoreError: the target is not empty, a database failed, or a table of the target differs from its source.

    """
    with begin(target, is_writer=True) as writer:
        _lock(writer)
        _require_empty(writer, target)
        with begin(source, is_writer=False) as reader:  # not while comparing: PostgreSQL ends an idle one
            copied = tuple(_copy_table(table, reader, writer) for table in METADATA.sorted_tables)
        for expected, table in zip(copied, METADATA.sorted_tables, strict=True):
            found = _read_checksum(table, writer)
            if found != expected:
                raise StoreError(
                    f"the table {table.name} differs after it was copied: {expected.row_count} rows were read and "
                    f"{found.row_count} are in {name_database(target.url)}, or their values differ; nothing was copied"
                )
        _continue_numbers(writer)
        _free_leases(writer)
    return copied


def _lock(connection: sa.Connection) -> None:
    """Keep a daemon that starts meanwhile from writing; a transaction of SQLite that writes has the lock already."""
    if connection.dialect.name == "postgresql":
        names = ", ".join(table.name for table in METADATA.sorted_tables)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")


def _require_empty(connection: sa.Connection, target: sa.Engine) -> None:
    for table in METADATA.sorted_tables:
        if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
            raise StoreError(
                f"{name_database(target.url)} is not empty: its table {table.name} has rows. "
                "Give an empty database, or move this one away first"
            )


def _copy_table(table: sa.Table, reader: sa.Connection, writer: sa.Connection) -> CopiedTable:
    stored = _as_stored(table)
    names = [column.name for column in table.columns]
    row_count = checksum = 0
    for rows in _read_batches(stored, reader):
        writer.execute(sa.insert(stored), [dict(zip(names, row, strict=True)) for row in rows])
        row_count += len(rows)
        checksum += sum(map(_hash_row, rows))
    return CopiedTable(table.name, row_count, checksum % _MODULUS)


def _read_checksum(table: sa.Table, connection: sa.Connection) -> CopiedTable:
    row_count = checksum = 0
    for rows in _read_batches(_as_stored(table), connection):
        row_count += len(rows)
        checksum += sum(map(_hash_row, rows))
    return CopiedTable(table.name, row_count, checksum % _MODULUS)


def _read_batches(stored: sa.TableClause, connection: sa.Connection) -> Iterator[Sequence[sa.Row[Any]]]:
    options = {"stream_results": True, "yield_per": _BATCH_ROWS}
    return connection.execute(sa.select(stored), execution_options=options).partitions()


def _hash_row(row: sa.Row[Any]) -> int:
    digest = hashlib.blake2b(repr(tuple(row)).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(digest, "big")


def _as_stored(table: sa.Table) -> sa.TableClause:
    """Return the same table with plain types, so that texts that only a newer version can decode are copied, too."""
    return sa.table(table.name, *(sa.column(column.name, _plain_type(column.type)) for column in table.columns))


def _plain_type(kind: sa.types.TypeEngine[Any]) -> sa.types.TypeEngine[Any]:
    is_decoded = isinstance(kind, sa.types.TypeDecorator) and not isinstance(kind, Instant)
    return kind.impl_instance if is_decoded else kind  # type: ignore[attr-defined]


def _continue_numbers(connection: sa.Connection) -> None:
    """Let PostgreSQL number new rows from the highest number that was copied; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    for table in METADATA.sorted_tables:
        for column in table.columns:
            if column.identity is not None:
                highest = sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery()
                sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
                connection.execute(sa.select(sa.func.setval(sequence, highest, False)))


def _free_leases(connection: sa.Connection) -> None:
    nobody = dict.fromkeys(("instance", "program", "host", "pid", "version"))
    connection.execute(sa.update(LeaseTable).values(renewal=LeaseTable.renewal + 1, **nobody))
    connection.execute(sa.delete(StandbyTable))
