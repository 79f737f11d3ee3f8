"""Looks at a database through its driver, without SQLAlchemy, and changes nothing in it."""

import os
import sqlite3
from contextlib import closing
from typing import NamedTuple
from urllib.parse import quote

from ckptd.store import server_encoding, sqlite_access
from ckptd.store.database_errors import StoreError, WrongDatabaseError
from ckptd.store.light_reader import begin_postgresql, open_postgresql, split_sqlite

# The server hides backend_type of other roles' sessions. A role's limit does not apply to a superuser; -1 is none, and
# least() ignores NULL.
_FREE_CONNECTIONS = """
    SELECT least(
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - count(*),
        (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user AND NOT rolsuper)
            - count(*) FILTER (WHERE usename = session_user),
        (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
            - count(*) FILTER (WHERE datname = current_database())
    )
    FROM pg_stat_activity WHERE datname IS NOT NULL AND usename IS NOT NULL
"""


class DatabaseProbe(NamedTuple):
    """A database that answers. `trouble` says why this account cannot write to it; None: it can."""

    server: str
    trouble: str | None
    free_connections: int | None = None  # None: not known, or SQLite
    unsuitable: str | None = None  # why no account can use it; None: each that may write can


def probe(address: str, password: str | None) -> DatabaseProbe | None:
    """Return what the database says about itself; None for a SQLite file that does not exist yet.

    Raises:
        WrongDatabaseError: the file is damaged, or is none of SQLite.
        StoreError: it does not answer, its driver is missing, or the address is invalid.

    """
    path = split_sqlite(address)
    return _probe_postgresql(address, password) if path is None else _probe_sqlite(path)


def _probe_sqlite(path: str) -> DatabaseProbe | None:
    try:
        os.lstat(path)
    except PermissionError as error:
        raise StoreError(
            f"the database {path} cannot be checked: permission denied; run doctor as root, or let the service's"
            " account enter the directories above it"
        ) from error
    except OSError:
        folder = os.path.dirname(os.path.abspath(path))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StoreError(
                f"the database {path} does not exist, and this account cannot create it in {folder}"
            ) from None
        return None
    trouble = None
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, isolation_level=None)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:  # another process is writing
                    trouble = str(error)
    except sqlite3.Error as error:
        kind = WrongDatabaseError if sqlite_access.is_damaged(error) else StoreError
        raise kind(f"the database {path} cannot be opened: {error}") from error
    return DatabaseProbe(f"SQLite {sqlite3.sqlite_version} with {path}", trouble)


def _probe_postgresql(address: str, password: str | None) -> DatabaseProbe:
    with closing(open_postgresql(address, password)) as connection, begin_postgresql(connection, address):
        (version, user, is_standby, is_read_only) = connection.execute(
            "SELECT current_setting('server_version'), current_user, pg_is_in_recovery(),"
            " current_setting('default_transaction_read_only') = 'on'"
        ).fetchone()
        (may_write,) = connection.execute(
            "SELECT coalesce(bool_and(has_table_privilege(oid, privilege)),"
            " has_schema_privilege(current_schema(), 'CREATE')) FROM pg_class,"
            " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) privilege"  # a list in one text means any of them
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        ).fetchone()
        (encoding,) = connection.execute(server_encoding.READ_ENCODING).fetchone()
        (free,) = connection.execute(_FREE_CONNECTIONS).fetchone()
    trouble = None
    if is_standby or is_read_only:
        trouble = "the server is a read-only standby" if is_standby else "default_transaction_read_only is on"
    elif not may_write:
        trouble = f"the role {user} lacks rights on the tables or the schema"
    return DatabaseProbe(f"PostgreSQL {version} as {user}", trouble, int(free), server_encoding.explain(encoding))
