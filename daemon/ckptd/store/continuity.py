"""Notices that a PostgreSQL database is no longer the one that this process has written to.

A backup that was restored, or a standby that lacked the newest transactions and was promoted, holds less than this
process knows, and the numbers of rows that it remembers mean other rows there. A SQLite file is watched by its name.
"""

import threading
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import NotSupportedError, ProgrammingError

from ckptd.store.database_errors import DatabaseReplacedError
from ckptd.store.lease_tables import LeaseTable

# a restore creates the table or the database again; a promotion, or recovery to a point in time, begins a timeline
# the path ends with the numbers of the database and of a file; some servers hide pg_database from roles like this one
_TABLE = "substring(pg_relation_filepath(leases.tableoid) from '([0-9]+)/[0-9]+$') || '/' || leases.tableoid"
_TIMELINE = "left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
Seen = tuple[Any, int]  # the values of `Continuity.columns`


class Continuity:
    """Where the lease of one term is stored, and how often it was renewed at least. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._place: Any = None  # None: nothing is compared
        self._renewal = 0
        self.columns: tuple[Any, ...] = ()  # to select from the lease's row, for `compare`

    def begin(self, connection: sa.Connection, cluster: str) -> None:
        """Remember the database in which this process has just taken the lease."""
        if connection.dialect.name != "postgresql":
            return
        place = f"{_TABLE} || '/' || {_TIMELINE}" if _has_timeline(connection) else _TABLE
        self.columns = (sa.literal_column(f"({place})"), LeaseTable.renewal)
        row = connection.execute(sa.select(*self.columns).where(LeaseTable.cluster == cluster)).one()
        self._place, self._renewal = row

    def expect(self) -> int:
        """Return how often the lease was renewed at least; read it before the row that `compare` gets."""
        with self._lock:
            return self._renewal

    def compare(self, seen: Seen, least: int) -> None:
        """Compare the columns of the lease's row with what is known.

        Raises:
            DatabaseReplacedError: this is another database, or an older state of it.

        """
        place, renewal = seen
        if place != self._place or renewal < least:
            raise DatabaseReplacedError(
                "the database was restored from a copy, or another server has taken over: it may lack what was recorded"
            )
        with self._lock:
            self._renewal = max(self._renewal, renewal)


def _has_timeline(connection: sa.Connection) -> bool:
    """Return whether the server says which timeline it is on; some hosted ones do not."""
    try:
        with connection.begin_nested():
            connection.execute(sa.text(f"SELECT {_TIMELINE}"))
    except (NotSupportedError, ProgrammingError):
        return False
    return True
