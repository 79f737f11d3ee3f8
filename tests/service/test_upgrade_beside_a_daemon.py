"""A newer version that is started beside a daemon on SQLite leaves the tables to it."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from ckptd.config import read_config
from ckptd.service.database_lock import DatabaseLock, find_locked
from ckptd.service.open_database import open_store
from ckptd.store import schema
from ckptd.store.database_errors import SchemaError
from ckptd.store.engine import create_engine
from support.migrated import open_record

OLDER = "0034"


@pytest.fixture
def engine(url):
    made = create_engine(url)
    yield made
    made.dispose()


@pytest.fixture
def config(url):
    return read_config(None, {"CKPTD_STORE__URL": url})


@pytest.fixture
def lock(engine):
    """The lock of a daemon."""
    made = DatabaseLock(Path(engine.url.database), "c1")
    assert made.acquire()
    yield made
    made.release()


def test_tables_of_an_older_version_are_not_upgraded_while_its_daemon_uses_them(engine, config, lock):
    schema.upgrade(engine, OLDER)
    with pytest.raises(SchemaError, match=rf"older revision {OLDER}: .*; a daemon still uses it .*\.lock\): stop it"):
        open_store(config, is_upgraded=True)
    assert schema.read_revision(engine) == OLDER
    lock.release()
    open_store(config, is_upgraded=True).close()
    schema.check(engine)


@pytest.mark.usefixtures("lock")
def test_tables_of_this_version_are_opened_beside_a_daemon(url, config):
    open_record(url).close()
    open_store(config, is_upgraded=True).close()


def test_a_lock_that_cannot_be_opened_leaves_it_to_the_database_to_say_why(engine, config):
    schema.upgrade(engine, OLDER)
    Path(f"{engine.url.database}.c1.lock").symlink_to("elsewhere")
    open_store(config, is_upgraded=True).close()
    schema.check(engine)


def test_another_process_that_looks_for_a_daemon_is_none(engine, lock, monkeypatch):
    lock.release()
    close, seen = os.close, []

    def look_again(descriptor):
        if not seen:
            seen.append(None)
            seen[0] = find_locked(Path(engine.url.database))  # while the first one still has the file open
        close(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", look_again)
        assert find_locked(Path(engine.url.database)) is None
    assert seen == [None]


def test_a_file_system_without_locks_is_no_reason_not_to_open_the_database(engine, config, lock, monkeypatch):
    schema.upgrade(engine, OLDER)
    lock.release()

    def refuse(*_arguments):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))  # Lustre that is mounted without `flock`

    monkeypatch.setattr(fcntl, "flock", refuse)
    open_store(config, is_upgraded=True).close()
    schema.check(engine)
