"""Errors of SQLite that end by themselves, or that only an administrator can end."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from ckptd.config import read_config
from ckptd.core.leadership.lease import LeaseHolder
from ckptd.service.doctor.database_checks import check_database
from ckptd.store import schema
from ckptd.store.database_errors import DatabaseAwayError, StoreError, WrongDatabaseError
from ckptd.store.engine import begin, create_engine
from ckptd.store.light_reader import open_reader
from ckptd.store.store import Store
from demo.patience import allow
from support.full_disk import mount_small_disk
from support.migrated import get_template
from support.trash_facts import as_user


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


@pytest.fixture
def database():
    """A directory with a database, which every account can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name, "record.db")
        shutil.copyfile(get_template(), path)
        yield path


def open_as_user(path):
    def open_it():
        try:
            Store.open(f"sqlite:///{path}").leases.forget_standby(LeaseHolder("", "", "", 1, ""))
        except WrongDatabaseError as error:
            return str(error)

    return as_user(open_it)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_account_without_rights_is_told_which_directory_or_file_lacks_them(database):
    told = f"this account cannot write to the directory {database.parent}; correct its owner or rights"
    assert told in open_as_user(database)
    database.parent.chmod(0o777)
    database.chmod(0)
    assert f"this account cannot write to the file {database}; correct" in open_as_user(database)
    database.parent.chmod(0)
    below = database.parent / "below" / "record.db"
    assert f"this account cannot enter a directory above {below}; correct" in open_as_user(below)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_file_system_that_is_mounted_read_only_is_named(database):
    folder = database.parent
    for words in (["--bind", folder], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *words, folder], check=True, timeout=allow(30))
    try:
        with pytest.raises(WrongDatabaseError, match=f"the file system of {folder} is mounted read-only; mount it"):
            Store.open(f"sqlite:///{database}", upgrade=True)
    finally:
        subprocess.run(["umount", folder], check=True, timeout=allow(30))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/x.db", r"missing cannot be used \(No such file or directory\); create it"),
        ("file/x.db", "file is not a directory"),
        ("", r"\S+ is a directory"),
    ],
)
def test_a_path_that_cannot_be_a_database_is_explained(tmp_path, name, reason):
    (tmp_path / "file").touch()
    with pytest.raises(WrongDatabaseError, match=f"unable to open database file: .*{reason}"):
        Store.open(f"sqlite:///{tmp_path}/{name}", upgrade=True)


def damage(file):
    file.seek(4096 * 3)
    file.write(b"\xff" * 4096 * 30)


def replace_by_text(file):
    file.write(b"this is no database" * 100)


@pytest.mark.parametrize(
    ("change", "reason"), [(damage, "database disk image is malformed"), (replace_by_text, "file is not a database")]
)
def test_a_damaged_file_is_for_an_administrator_who_is_told_how_to_restore_it(tmp_path, change, reason):
    path = tmp_path / "record.db"
    shutil.copyfile(get_template(), path)
    with path.open("r+b") as file:
        change(file)
    said = rf"record\.db .*{reason}.*: move it away, .* `ckptd db restore FILE`"
    with pytest.raises(WrongDatabaseError, match=said):
        Store.open(f"sqlite:///{path}", upgrade=True)
    with pytest.raises(StoreError, match=said):
        open_reader(f"sqlite:///{path}")
    (found,) = check_database(read_config(None, {"CKPTD_STORE__URL": f"sqlite:///{path}"}))
    assert "ckptd db restore FILE" in found.advice
