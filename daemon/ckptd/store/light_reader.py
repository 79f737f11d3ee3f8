"""Open the database for reading through its driver, without SQLAlchemy, so that listing commands start fast.

`plain_reads` holds the statements. Addresses that only SQLAlchemy can parse are opened through SQLAlchemy.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

from ckptd.core.rows.stored_instants import encode_sqlite
from ckptd.store import database_errors, revisions, sqlite_access
from ckptd.store.database_errors import DatabaseAwayError, StoreError
from ckptd.store.plain_reads import Select, name_values
from ckptd.store.transaction_limits import CONNECT_ARGUMENTS, SET_LIMITS

BUSY_TIMEOUT_SECONDS = 10
_ASK = (
    "the status page shows your own runs (on the daemon's host by default http://localhost:9478); administrators run"
    " this as root or as the daemon's account"
)
_SQLITE = re.compile(r"sqlite(?:\+pysqlite)?:///(?!file:)([^?]+)", re.DOTALL)
_POSTGRESQL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://")
_PASSWORD = re.compile(r"(://[^:/@?]*):[^/?]*@")


class LightReader(NamedTuple):
    """One open database. `begin` starts a read-only transaction in which all statements see the same snapshot."""

    begin: Callable[[], AbstractContextManager[Select]]
    close: Callable[[], None]


def open_reader(address: str, password: str | None = None) -> LightReader:
    """Open a database with the tables of this version for reading; create and change nothing.

    Raises:
        SchemaError: its tables are older or newer than this version's, or missing.
        StoreError: it cannot be reached, or the address is invalid.

    """
    if found := _SQLITE.fullmatch(address):
        return _open_sqlite(found[1])
    if _POSTGRESQL.match(address):
        return _open_postgresql(address, password)
    return _open_through_sqlalchemy(address, password)


def _open_sqlite(path: str) -> LightReader:
    name = f"the database sqlite:///{path}"
    try:
        revisions.require_file(path)
        connection = sqlite3.connect(
            f"file:{quote(path)}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None
        )  # mode=ro could not recover what a killed writer left
        connection.execute("PRAGMA query_only = ON")
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, PermissionError) or (os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK)):
            raise StoreError(f"{name} is not for this account: {_ASK}") from error
        raise StoreError(f"{name} cannot be opened: {error}") from error

    def select(statement: str, values: Mapping[str, object]) -> Any:
        return connection.execute(statement, {key: encode_sqlite(value) for key, value in values.items()})

    @contextmanager
    def begin() -> Iterator[Select]:
        try:
            connection.execute("BEGIN")
            yield Select(select, is_sqlite=True)
        except sqlite3.Error as error:
            if not os.access(path, os.W_OK):  # SQLite writes beside the file also to read it
                raise StoreError(f"{name} is not for this account: {_ASK}") from error
            advice = f": {sqlite_access.RESTORE}" if sqlite_access.is_damaged(error) else ""
            raise StoreError(f"{name} did not answer as it should: {error}{advice}") from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    has_revision = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    return _checked(LightReader(begin, connection.close), has_revision)


def split_sqlite(address: str) -> str | None:
    """Return the path in a SQLite address; None for another database."""
    found = _SQLITE.fullmatch(address)
    return found[1] if found else None


def open_postgresql(address: str, password: str | None) -> Any:
    """Return a read-only connection of psycopg, whose errors are StoreErrors while it connects.

    Raises:
        StoreError: the driver is missing, or the server does not answer.

    """
    try:
        import psycopg  # noqa: PLC0415 - its import alone takes a tenth of a second, and sites with SQLite lack it
    except ImportError as error:
        raise StoreError(f"the database driver is not installed: {error}; install ckptd[postgres]") from error
    name = _name(address)
    address = _POSTGRESQL.sub("postgresql://", address, count=1)
    try:
        connection = psycopg.connect(psycopg.conninfo.make_conninfo(address, password=password), **CONNECT_ARGUMENTS)
    except psycopg.Error as error:
        raise _report(name, error) from error
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


@contextmanager
def begin_postgresql(connection: Any, address: str) -> Iterator[None]:
    """Run a transaction, with limits on its waits, on a connection that `open_postgresql` made to this address.

    Raises:
        StoreError: the transaction failed.

    """
    import psycopg  # noqa: PLC0415 - see above

    try:
        with connection.transaction():
            connection.execute(SET_LIMITS)
            yield
    except psycopg.Error as error:
        raise _report(_name(address), error) from error


def _open_postgresql(address: str, password: str | None) -> LightReader:
    connection = open_postgresql(address, password)

    def select(statement: str, values: Mapping[str, object]) -> Any:
        return connection.execute(name_values(statement).encode(), values)

    @contextmanager
    def begin() -> Iterator[Select]:
        with begin_postgresql(connection, address):
            yield Select(select, is_sqlite=False)

    has_revision = "SELECT count(*) WHERE to_regclass('alembic_version') IS NOT NULL"
    return _checked(LightReader(begin, connection.close), has_revision)


def _report(name: str, error: Exception) -> StoreError:
    """Return the error of a command for one of psycopg."""
    import psycopg  # noqa: PLC0415 - see above

    kind = DatabaseAwayError if isinstance(error, psycopg.OperationalError) else StoreError
    return kind(f"{name} did not answer as it should: {database_errors.describe(error)}")


def _name(address: str) -> str:
    address = _POSTGRESQL.sub("postgresql://", address, count=1)
    return "the database " + _PASSWORD.sub(r"\1:***@", address.partition("?")[0])


def _open_through_sqlalchemy(address: str, password: str | None) -> LightReader:
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - what this module is there to avoid
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    from ckptd.store import engine, schema  # noqa: PLC0415

    try:
        url = make_url(address)
    except ArgumentError:
        database = engine.create_engine(address)  # says what is wrong with it
    else:
        database = engine.create_engine(url if password is None else url.set(password=password))

    @contextmanager
    def begin() -> Iterator[Select]:
        with engine.begin(database, is_writer=False) as connection:
            yield engine.select_through(connection)

    try:
        schema.check(database)
    except StoreError:
        database.dispose()
        raise
    return LightReader(begin, database.dispose)


def _checked(reader: LightReader, has_revision: str) -> LightReader:
    """Return the reader if its database has the tables of this version."""
    try:
        with reader.begin() as select:
            ((count,),) = select(has_revision, {})
            rows = select("SELECT version_num FROM alembic_version", {}) if count else ()
            found = next((str(row[0]) for row in rows), None)
        revisions.require_newest(found)
    except StoreError:
        reader.close()
        raise
    return reader
