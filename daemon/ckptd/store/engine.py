"""Opens a database with transactions that survive a kill, and with time limits on every wait."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from ckptd.core.rows.stored_instants import encode_sqlite
from ckptd.store import database_errors, sqlite_access
from ckptd.store.database_errors import DatabaseAwayError, StoreError, WrongDatabaseError
from ckptd.store.plain_reads import Select, name_values
from ckptd.store.transaction_limits import CONNECT_ARGUMENTS, SET_LIMITS

BUSY_TIMEOUT_MS = 10_000
KEPT_STATEMENTS = 32  # the latest of each connection
# errors of SQLite that end without a change of the configuration; see https://www.sqlite.org/rescode.html
_AWAY = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY})
# errors that an administrator must end at the first connection, and that may end by themselves after one has worked
_UNUSABLE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_READ_ONLY_TRANSACTION = "25006"  # SQLSTATE of PostgreSQL: a standby that is not promoted yet, or made read-only
_OWN_DATABASE = "give ckptd a database of its own, whose owner is the role in store.url"
# what to do, for SQLSTATEs of PostgreSQL; since version 15, only the owner of a database may create tables in it
_ADVICE = {
    "42P01": "restore the database from a backup, or restart ckptd to make empty tables",
    "42P07": f"it is of another program: {_OWN_DATABASE}",
    "42501": _OWN_DATABASE,
    "3F000": f"the schemas in the search_path of the role do not exist: create one, or {_OWN_DATABASE}",
}
_FILE = "ckptd_file"  # option of an engine


def create_engine(address: str | URL, read_password: Callable[[], str] | None = None) -> sa.Engine:
    """Return an engine for a `sqlite:///` or `postgresql://` address.

    `read_password` is asked for each connection to PostgreSQL, because the password may change meanwhile.

    Raises:
        WrongDatabaseError: the address is none, or its driver is not installed.

    """
    try:
        url = make_url(address)
        if url.drivername in {"postgresql", "postgres"}:
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "sqlite":
            return _create_sqlite(url)
        if url.get_backend_name() == "postgresql":
            return _create_postgresql(url, read_password)
    except ArgumentError as error:
        raise WrongDatabaseError("the URL is not that of a database; use sqlite:///PATH or postgresql://...") from error
    except (ImportError, NoSuchModuleError) as error:
        text = f"the database driver is not installed: {error}; install ckptd[postgres]"
        raise WrongDatabaseError(text) from error
    raise WrongDatabaseError(
        f"no database of the kind {url.get_backend_name()!r}: write sqlite:///PATH or postgresql://..."
    )


def _create_postgresql(url: URL, read_password: Callable[[], str] | None) -> sa.Engine:
    # without these, an unreachable server would block a step or the renewal of a lease for a quarter of an hour
    alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
    arguments = {**CONNECT_ARGUMENTS, **alive}
    engine = sa.create_engine(url, connect_args=arguments, pool_pre_ping=True, isolation_level="REPEATABLE READ")
    if read_password is not None:

        def add_password(_dialect: object, _entry: object, _arguments: list[Any], options: dict[str, Any]) -> None:
            options["password"] = read_password()

        sa.event.listen(engine, "do_connect", add_password)
    return engine


def _create_sqlite(url: URL) -> sa.Engine:
    # many statements have their row ids in the text: to keep them all ready would take megabytes in each connection
    arguments = {"timeout": BUSY_TIMEOUT_MS / 1000, "cached_statements": KEPT_STATEMENTS}
    engine = sa.create_engine(url, connect_args=arguments)
    sa.event.listen(engine, "connect", _prepare_sqlite)
    if url.database and url.database != ":memory:" and "uri" not in url.query:
        file = _ExistingFile()
        engine.update_execution_options(**{_FILE: file})
        sa.event.listen(engine, "do_connect", file.choose_mode)
        sa.event.listen(engine, "connect", file.note_connection)
    return engine


class _ExistingFile:
    """Lets only the first connection create the file: one made after it was deleted would look like a replacement."""

    def __init__(self) -> None:
        self._exists = False

    @property
    def was_opened(self) -> bool:
        """Whether a connection has worked."""
        return self._exists

    def choose_mode(self, _dialect: object, _entry: object, arguments: list[Any], options: dict[str, Any]) -> None:
        if self._exists:
            arguments[0] = f"{Path(arguments[0]).as_uri()}?mode=rw"
            options["uri"] = True

    def note_connection(self, _connection: object, _entry: object) -> None:
        self._exists = True


def _prepare_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:  # noqa: ARG001
    """Configure one connection.

    `synchronous` is FULL: in WAL mode, NORMAL survives a killed process but may lose the last commits at a power
    failure, and an action must be recorded before it happens. There are few commits in a cycle, so this costs little.
    """
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # transactions begin where `begin` says
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")


@contextmanager
def begin(engine: sa.Engine, *, is_writer: bool) -> Iterator[sa.Connection]:
    """Run one transaction; turn the driver's errors into one sentence.

    Raises:
        StoreError: the transaction failed and was rolled back.

    """
    try:
        with engine.connect() as connection:
            _choose_isolation(connection, is_writer=is_writer)
            with connection.begin():
                _begin(connection, is_writer=is_writer)
                yield connection
    except DBAPIError as error:
        raise _explain(error.orig, engine) from error
    except _driver(engine.dialect).Error as error:
        raise _explain(error, engine) from error
    except SQLAlchemyError as error:
        raise StoreError(f"{name_database(engine.url)} cannot be used: {error}") from error


def _choose_isolation(connection: sa.Connection, *, is_writer: bool) -> None:
    if is_writer and connection.dialect.name == "postgresql":
        # two steps that write the same row wait for one another; with snapshot isolation, the second would fail
        connection.execution_options(isolation_level="READ COMMITTED")


def _begin(connection: sa.Connection, *, is_writer: bool) -> None:
    """Set the limits of the transaction; in SQLite, begin it.

    A writing one takes SQLite's write lock at its start: one that has read first cannot wait for it.
    """
    if connection.dialect.name == "postgresql":
        run_plain(connection, SET_LIMITS)
    else:
        run_plain(connection, "BEGIN IMMEDIATE" if is_writer else "BEGIN")


def run_plain(connection: sa.Connection, statement: str, values: Mapping[str, object] | None = None) -> Any:
    """Run a statement with the driver alone: SQLAlchemy takes several times as long as SQLite for a short one.

    Raises:
        Exception: one of the driver's errors, which `begin` explains.

    """
    driven: Any = connection.connection.dbapi_connection
    try:
        return driven.execute(statement) if values is None else driven.execute(statement, values)
    except _driver(connection.dialect).Error as error:
        if connection.dialect.is_disconnect(error, driven, None):
            connection.invalidate(error)
        raise


def _driver(dialect: sa.Dialect) -> Any:
    return dialect.loaded_dbapi


def _explain(error: BaseException | None, engine: sa.Engine) -> StoreError:
    return _choose_kind(error, engine)(f"{name_database(engine.url)} failed: {_reason(error, engine.url)}")


def _choose_kind(error: BaseException | None, engine: sa.Engine) -> type[StoreError]:
    if engine.dialect.name == "postgresql":
        driver = _driver(engine.dialect)
        is_read_only = getattr(error, "sqlstate", None) == _READ_ONLY_TRANSACTION
        if is_read_only or isinstance(error, driver.OperationalError):
            return DatabaseAwayError
        # an option of the address that does not exist, or a missing permission
        return WrongDatabaseError if isinstance(error, driver.ProgrammingError) else StoreError
    code = _read_code(error)
    file: _ExistingFile | None = engine.get_execution_options().get(_FILE)
    if code in _AWAY:
        return DatabaseAwayError
    if code in _UNUSABLE and file is not None and file.was_opened:
        return StoreError if _may_only_read(engine.url.database) else DatabaseAwayError
    return WrongDatabaseError if code in _UNUSABLE or sqlite_access.is_damaged(error) else StoreError


def _may_only_read(path: str | None) -> bool:
    """Return whether this account may not write to the file, which only an administrator can change."""
    if path is None or not Path(path).exists() or sqlite_access.is_read_only(path):
        return False
    return not sqlite_access.can_access(path, os.R_OK | os.W_OK)


def _read_code(error: BaseException | None) -> int | None:
    """Return SQLite's primary result code, without the details of an extended one; None for another driver."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def select_through(connection: sa.Connection) -> Select:
    """Return a function that runs plain SQL in a transaction of `begin`, with the driver alone."""
    is_sqlite = connection.dialect.name == "sqlite"

    def select(statement: str, values: Mapping[str, object]) -> Any:
        if is_sqlite:
            return run_plain(connection, statement, {key: encode_sqlite(value) for key, value in values.items()})
        return run_plain(connection, name_values(statement), dict(values))

    return Select(select, is_sqlite=is_sqlite)


def name_database(url: URL) -> str:
    """Return a database's address for messages, without its secrets."""
    return f"the database {url.set(query={}).render_as_string(hide_password=True)}"


def _reason(error: BaseException | None, url: URL) -> str:
    """Return the driver's error in one line, with advice for known errors."""
    words = database_errors.describe(error)
    if advice := _ADVICE.get(getattr(error, "sqlstate", None) or ""):
        return f"{words}: {advice}"
    if _read_code(error) == sqlite3.SQLITE_FULL:
        return f"{words}: free space on its disk, and ckptd resumes by itself"
    if sqlite_access.is_damaged(error):
        return f"{words}: {sqlite_access.RESTORE}"
    if _read_code(error) in _UNUSABLE and url.database and (reason := sqlite_access.explain(url.database)):
        return f"{words}: {reason}"
    return words
