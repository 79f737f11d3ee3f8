"""Records that hold what a function records: it runs once in a process, and each test gets a copy of the rows."""

import atexit
import functools
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg

from ckptd.store.store import Store
from support.migrated import SQLITE, get_template

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
NUMBERS = "SELECT sequencename, last_value FROM pg_sequences WHERE last_value IS NOT NULL"
_postgresql_rows = {}


def fill_once(url, fill):
    """Give an empty record what `fill` records in a store; return its address."""
    if url.startswith(SQLITE):
        shutil.copyfile(_fill_sqlite(fill), url.removeprefix(SQLITE))
    elif (url, fill) in _postgresql_rows:
        _write_rows(url, *_postgresql_rows[url, fill])
    else:
        _record(url, fill)
        _postgresql_rows[url, fill] = _read_rows(url)
    return url


@functools.cache
def _fill_sqlite(fill):
    folder = tempfile.mkdtemp(prefix="ckptd-filled-")
    atexit.register(shutil.rmtree, folder)
    path = Path(folder, "record.db")
    shutil.copyfile(get_template(), path)
    _record(f"{SQLITE}{path}", fill)
    return path


def _record(url, fill):
    with closing(Store.open(url)) as store:
        fill(store)


def _read_rows(url):
    """Return the rows of each table that has any, and the last numbers that were given."""
    rows = {}
    with psycopg.connect(url) as connection:
        for (name,) in connection.execute(TABLES).fetchall():
            with connection.cursor().copy(f"COPY {name} TO STDOUT (FORMAT binary)") as copy:
                found = b"".join(copy)
            if connection.execute(f"SELECT EXISTS (SELECT FROM {name})").fetchone()[0]:
                rows[name] = found
        return rows, connection.execute(NUMBERS).fetchall()


def _write_rows(url, rows, numbers):
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # the order of the tables does not matter
        for name, found in rows.items():
            with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT binary)") as copy:
                copy.write(found)
        connection.execute("; ".join(f"SELECT setval('{name}', {last})" for name, last in numbers) or "SELECT 1")
