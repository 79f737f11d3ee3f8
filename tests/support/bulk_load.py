"""Fills tables of PostgreSQL faster: their indexes are made at the end, and rows need no write-ahead log."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

_TABLES = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
_INDEXES = """
    SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid),
        quote_ident(c.conname), pg_get_constraintdef(c.oid)
    FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
    LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'u'
    WHERE t.relnamespace = 'public'::regnamespace AND NOT i.indisprimary
"""


@contextmanager
def without_indexes(connection: psycopg.Connection) -> Iterator[None]:
    """Empty all tables, drop their indexes meanwhile (except primary keys), and make them again.

    With `wal_level = minimal`, PostgreSQL logs no row of a table that the same transaction has emptied.
    """
    tables = ", ".join(name for (name,) in connection.execute(_TABLES))
    connection.execute(f"TRUNCATE {tables}".encode())
    remake = []
    for table, index, definition, constraint, constraint_definition in connection.execute(_INDEXES).fetchall():
        if constraint is None:
            connection.execute(f"DROP INDEX {index}".encode())
            remake.append(definition)
        else:
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}".encode())
            remake.append(f"ALTER TABLE {table} ADD CONSTRAINT {constraint} {constraint_definition}")
    yield
    for definition in remake:
        connection.execute(definition.encode())
