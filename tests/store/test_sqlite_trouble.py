"""Errors of SQLite that end by themselves, or that only an administrator can end."""

import sqlite3

import pytest

from ckptd.store import schema
from ckptd.store.database_errors import DatabaseAwayError
from ckptd.store.engine import begin, create_engine
from ckptd.store.store import Store
from support.full_disk import mount_small_disk


@pytest.fixture
def engine(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/record.db")
    schema.upgrade(engine)
    with begin(engine, is_writer=True) as connection:
        connection.exec_driver_sql("CREATE TABLE facts (text VARCHAR)")
    yield engine
    engine.dispose()


def write(engine):
    with begin(engine, is_writer=True) as connection:
        connection.exec_driver_sql("INSERT INTO facts VALUES (hex(zeroblob(100000)))")


@pytest.mark.parametrize(
    ("pragma", "reason"),
    [
        ("max_page_count = 1", "database or disk is full: free space on its disk, and ckptd resumes by itself"),
        ("query_only = ON", "attempt to write a readonly database"),
    ],
    ids=["full", "read-only"],
)
def test_a_database_that_cannot_be_written_now_is_one_that_may_answer_later(engine, pragma, reason):
    with engine.connect() as connection:  # the pool has no other
        connection.exec_driver_sql(f"PRAGMA {pragma}")
    with pytest.raises(DatabaseAwayError, match=f"record.db failed: {reason}$"):
        write(engine)


def test_a_database_that_another_process_writes_to_for_long_is_one_that_may_answer_later(engine, tmp_path):
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")
    with sqlite3.connect(tmp_path / "record.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseAwayError, match=r"record\.db failed: database is locked"):
            write(engine)
        other.execute("ROLLBACK")
    other.close()
    write(engine)


def test_a_file_that_can_no_longer_be_opened_is_one_that_may_answer_later(engine, tmp_path):
    engine.dispose()
    (tmp_path / "record.db").rename(tmp_path / "aside")
    with pytest.raises(DatabaseAwayError, match=r"record\.db failed: unable to open database file"):
        write(engine)
    (tmp_path / "aside").rename(tmp_path / "record.db")
    write(engine)


def test_a_disk_that_is_full_at_the_start_is_waited_for():
    with mount_small_disk() as disk:
        url = f"sqlite:///{disk.folder}/record.db"
        disk.fill(left_bytes=0)
        with pytest.raises(DatabaseAwayError):
            Store.open(url, upgrade=True)
        disk.empty()
        Store.open(url, upgrade=True).close()
