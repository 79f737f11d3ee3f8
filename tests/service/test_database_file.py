"""A daemon whose SQLite file is deleted, moved or replaced says so and ends, so that systemd starts it again."""

import shutil
import sqlite3

import pytest
import sqlalchemy as sa

from ckptd.service.database_file import DatabaseFile
from ckptd.store.engine import create_engine
from support.mail_server import wait_until
from support.real_daemon import RealDaemon


def delete(path):
    path.unlink()


def move(path):
    path.rename(path.with_name("moved"))


def replace(path):
    shutil.copy(path, path.with_name("other"))
    path.with_name("other").rename(path)


def delete_journal(path):
    path.with_name(f"{path.name}-wal").unlink()


@pytest.fixture
def daemon(tmp_path):
    made = RealDaemon(tmp_path / "daemon", f"sqlite:///{tmp_path}/record.db")
    yield made
    made.kill()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (delete, "the database {path} was deleted or moved"),
        (move, "the database {path} was deleted or moved"),
        (replace, "the database {path} was replaced by"),
        (delete_journal, "the file {path}-wal of the database was deleted"),
    ],
)
def test_a_daemon_whose_database_is_gone_ends_and_says_so(daemon, tmp_path, change, told):
    path = tmp_path / "record.db"
    daemon.start()
    wait_until(lambda: daemon.is_leader, 60)
    change(path)
    wait_until(lambda: daemon.process.poll() is not None, 60)
    assert daemon.process.poll() == 1, "systemd restarts it"
    if change is delete_journal:
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT count(*) FROM leases").fetchone() == (1,), "what it recorded is kept"
    assert daemon.read_log().count(told.format(path=path)) == 1
    daemon.start()  # as systemd does
    wait_until(lambda: daemon.is_leader, 60)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_files_beside_a_database_may_go_with_its_last_connection(tmp_path):
    path = tmp_path / "record.db"
    engine = create_engine(f"sqlite:///{path}")

    def use(what):
        with engine.begin() as connection:
            connection.exec_driver_sql(what)

    use("CREATE TABLE facts (number INTEGER)")
    file = DatabaseFile(path)
    assert file.describe_change() is None
    engine.dispose()
    assert not path.with_name("record.db-wal").exists()
    assert file.describe_change() is None
    use("INSERT INTO facts VALUES (1)")
    assert file.describe_change() is None
    delete_journal(path)
    use("INSERT INTO facts VALUES (2)")
    assert file.describe_change() == f"the file {path}-wal of the database was deleted"
    engine.dispose()


def test_a_deleted_database_is_not_made_again_as_an_empty_file(tmp_path):
    path = tmp_path / "a %3F record.db"
    engine = create_engine(f"sqlite:///{path}".replace("%", "%25"))
    with engine.connect() as held:
        held.exec_driver_sql("CREATE TABLE facts (number INTEGER)")
        held.commit()
        with engine.connect() as beside:
            assert beside.exec_driver_sql("SELECT count(*) FROM facts").scalar_one() == 0
        path.unlink()
        engine.dispose()
        with pytest.raises(sa.exc.OperationalError, match="unable to open"):
            engine.connect()
    assert not path.exists()
    engine.dispose()


def test_a_database_that_cannot_be_seen_is_not_said_to_be_gone(tmp_path, monkeypatch):
    path = tmp_path / "record.db"
    path.touch()
    file = DatabaseFile(path)
    assert file.describe_change() is None

    def fail(_path):
        raise PermissionError("not now")

    with monkeypatch.context() as patched:
        patched.setattr("ckptd.service.database_file.os.stat", fail)
        assert file.describe_change() is None
    path.unlink()
    assert file.describe_change() == f"the database {path} was deleted or moved"


def test_a_database_on_a_server_has_no_file():
    assert DatabaseFile(None).describe_change() is None
