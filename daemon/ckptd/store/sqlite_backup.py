"""Copies a SQLite database while others write to it, by SQLite's online backup API."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ckptd.store import revisions
from ckptd.store.database_errors import StoreError

_BUSY_SECONDS = 10.0


@contextmanager
def open_checked(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database of ckptd for reading, and check its structure.

    Raises:
        SchemaError: a newer version made it.
        StoreError: it cannot be read, is damaged, or is no database of ckptd.

    """
    try:
        path.stat()
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as opened:
            _require_whole(opened, path)
            _require_ours(opened, path)
            yield opened
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} is damaged, or is no SQLite database: {error}") from error


def copy_into(source: sqlite3.Connection, path: Path) -> None:
    """Copy one moment of a database to a file, and check the copy; nothing but this file is needed to restore it.

    Raises:
        StoreError: the file cannot be written, or the copy is damaged.

    """
    try:
        with closing(sqlite3.connect(path)) as copy:
            source.backup(copy)  # in one step: in WAL mode this delays no writer
            _require_whole(copy, path)
            leave_one_file(copy)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be written: {error}") from error


def leave_one_file(connection: sqlite3.Connection) -> None:
    """End the write-ahead log of a database; the next daemon begins one again."""
    connection.execute("PRAGMA journal_mode = DELETE")


def _require_whole(connection: sqlite3.Connection, path: Path) -> None:
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        raise StoreError(f"{path} is damaged: {'; '.join(found)}")


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    has_tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('alembic_version', 'clusters')"
    if connection.execute(has_tables).fetchone() != (2,):
        raise StoreError(f"{path} has no tables of ckptd")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    revisions.refuse_newer(str(row[0]) if row else None)
