"""Inserts many rows through the database's driver.

SQLAlchemy makes the statement and the conversion of each column once; to let it pass every row costs as much CPU again
as all other work of a row.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

_Convert = Callable[[Any], Any]


class _Insert(NamedTuple):
    """The statement for some columns of a table, and how their values are converted."""

    statement: str
    columns: tuple[tuple[str, _Convert | None], ...]  # in the statement's order
    is_positional: bool


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns; a column with a default must be among them."""
    if not rows:
        return
    insert = _prepare(table, tuple(rows[0]), connection.dialect)
    values = zip(*[_convert([row[name] for row in rows], convert) for name, convert in insert.columns], strict=True)
    if insert.is_positional:
        connection.exec_driver_sql(insert.statement, list(values))
    else:
        names = [name for name, _ in insert.columns]
        connection.exec_driver_sql(insert.statement, [dict(zip(names, row, strict=True)) for row in values])


def _convert(values: list[Any], convert: _Convert | None) -> list[Any]:
    """Convert the values of one column."""
    return values if convert is None else [value if value is None else convert(value) for value in values]


@functools.lru_cache(maxsize=64)
def _prepare(table: sa.Table, names: tuple[str, ...], dialect: Dialect) -> _Insert:
    compiled = sa.insert(table).values({name: sa.bindparam(name) for name in names}).compile(dialect=dialect)
    order = tuple(compiled.positiontup or names)
    columns = tuple((name, _find_conversion(table.c[name].type, dialect)) for name in order)
    return _Insert(str(compiled), columns, bool(compiled.positiontup))


def _find_conversion(kind: sa.types.TypeEngine[Any], dialect: Dialect) -> _Convert | None:
    """Return the conversion of values that are not null, none of which any column type converts."""
    implementation = kind.dialect_impl(dialect)
    if isinstance(kind, sa.types.TypeDecorator) and kind.load_dialect_impl(dialect).bind_processor(dialect) is None:
        return lambda value: kind.process_bind_param(value, dialect)
    found: _Convert | None = implementation.bind_processor(dialect)
    return found
