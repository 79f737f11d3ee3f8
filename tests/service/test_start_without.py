"""A daemon that starts while its database is away, or with what only an administrator can put right."""

from pathlib import Path

import pytest

from ckptd.store import schema
from ckptd.store.engine import create_engine
from demo.patience import allow
from support.mail_server import wait_until
from support.real_daemon import RealDaemon

ROOT = Path(__file__).parents[2]


@pytest.fixture
def start(tmp_path):
    started = []

    def start(database, more=""):
        started.append(RealDaemon(tmp_path / f"daemon{len(started)}", database, more).start())
        return started[-1]

    yield start
    for each in started:
        each.kill()


def test_it_waits_for_a_database_that_is_away_and_says_so_once(start, postgresql_server, postgresql_url):
    postgresql_server.halt()
    try:
        daemon = start(postgresql_url)
        wait_until(lambda: "start delayed: the database postgresql+psycopg://ckptd:***@" in daemon.read_log(), 60)
        with pytest.raises(AssertionError):
            wait_until(lambda: daemon.process.poll() is not None, 8)
        assert daemon.read_log().count("start delayed") == 1
    finally:
        postgresql_server.resume()
    wait_until(lambda: daemon.is_leader, 60)
    daemon.process.terminate()
    assert daemon.process.wait(allow(20)) == 0
    assert "Traceback" not in daemon.read_log()


def test_told_to_stop_while_it_waits_it_stops(start, postgresql_server, postgresql_url):
    postgresql_server.halt()
    try:
        daemon = start(postgresql_url)
        wait_until(lambda: "start delayed" in daemon.read_log(), 60)
        daemon.process.terminate()
        assert daemon.process.wait(allow(20)) == 0
    finally:
        postgresql_server.resume()


@pytest.mark.parametrize("more", ["[retention]\nhold = 5\n", '[service]\nuser = "no-such-user"\n'])
def test_a_wrong_configuration_ends_with_the_status_after_which_the_unit_does_not_restart(start, tmp_path, more):
    daemon = start(f"sqlite:///{tmp_path}/record.db", more.replace("[service]\n", ""))
    assert daemon.process.wait(allow(60)) == 2
    assert "RestartPreventExitStatus=2" in (ROOT / "deploy/systemd/ckptd.service").read_text().splitlines()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite:///{folder}/garbage", "file is not a database"),
        ("sqlite:///{folder}/missing/x.db", "/missing cannot be used (No such file or directory); create it"),
        ("sqlite:////proc/x.db", "no file can be created in /proc; correct store.url"),
        ("postgresql://ckptd@127.0.0.1:1/ckptd?nonsense=1", 'invalid connection option "nonsense"'),
    ],
)
def test_a_database_that_only_an_administrator_can_change_is_not_tried_again(start, tmp_path, url, reason):
    (tmp_path / "garbage").write_bytes(b"garbage")
    daemon = start(url.format(folder=tmp_path))
    assert daemon.process.wait(allow(60)) == 2
    assert reason in daemon.read_log()
    assert (tmp_path / "garbage").read_bytes() == b"garbage"


def test_a_database_of_a_newer_version_is_not_tried_again(start, tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    engine = create_engine(url)
    schema.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    daemon = start(url)
    assert daemon.process.wait(allow(60)) == 2
    assert "newer than this ckptd" in daemon.read_log()
