"""Two real daemons on one database: one acts, the other one waits or is refused."""

import shutil
import signal
import socket
import time
import urllib.request
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from ckptd.store.store import Store
from demo.patience import allow
from support.heartbeat_receiver import receive_heartbeats
from support.mail_server import wait_until
from support.real_daemon import RealDaemon

TAKEOVER_SECONDS = 30


@contextmanager
def daemons(tmp_path, database, *names, more=""):
    with ExitStack() as held:
        made = [RealDaemon(tmp_path / name, database, more) for name in names]
        for each in made:
            held.callback(lambda each=each: hasattr(each, "process") and each.kill())
        yield made


@pytest.fixture
def database(postgresql_record):
    return postgresql_record


@pytest.fixture
def pair(tmp_path, database):
    """A daemon that acts, and its standby."""
    with daemons(tmp_path, database, "first", "second") as (first, second):
        first.start()
        wait_until(lambda: first.is_leader, 60)
        second.start()
        wait_until(lambda: second.is_leader is False, 60)
        yield first, second


def read_epoch(database):
    with psycopg.connect(database) as connection:
        return connection.execute("SELECT epoch FROM leases").fetchone()[0]


def test_a_standby_shows_the_page_and_its_own_metrics_and_takes_over_from_a_killed_daemon(pair, database):
    first, second = pair
    assert (first.is_leader, second.is_leader) == (True, False)
    assert second.read_metric("ckptd_start_timestamp_seconds") is not None
    assert second.read_metric("ckptd_last_poll_timestamp_seconds") is None, "a standby polls nothing"
    with urllib.request.urlopen(f"http://127.0.0.1:{second.port}/api/v1/status", timeout=allow(10)) as answer:
        assert '"polled_at": "20' in answer.read().decode(), "what the other daemon has recorded"
    began = time.monotonic()
    first.kill()
    wait_until(lambda: second.is_leader, TAKEOVER_SECONDS)
    took = time.monotonic() - began
    assert took < allow(TAKEOVER_SECONDS), took
    wait_until(lambda: second.read_metric("ckptd_last_poll_timestamp_seconds"), 30)
    assert read_epoch(database) == 2


def test_only_the_daemon_that_acts_sends_heartbeats(tmp_path, database):
    with receive_heartbeats() as receiver, ExitStack() as held:
        first, second = (
            RealDaemon(tmp_path / name, database, f'heartbeat_url = "{receiver.url}/{name}"\n')
            for name in ("first", "second")
        )
        for daemon, leads in ((first, True), (second, False)):
            daemon.start()
            held.callback(daemon.kill)
            wait_until(lambda daemon=daemon, leads=leads: daemon.is_leader is leads, 60)
        wait_until(lambda: receiver.paths, 60)
        assert set(receiver.paths) == {"/secret-token/first"}
        assert second.is_leader is False
        first.kill()
        wait_until(lambda: "/secret-token/second" in receiver.paths, 2 * TAKEOVER_SECONDS)
        assert "heartbeat" not in first.read_log() + second.read_log()


def test_a_daemon_that_is_stopped_in_order_hands_over_at_once(pair):
    first, second = pair
    first.process.terminate()
    assert first.process.wait(allow(20)) == 0, first.read_log()
    began = time.monotonic()
    wait_until(lambda: second.is_leader, 10)
    assert time.monotonic() - began < allow(8)


def test_a_daemon_that_wakes_up_after_another_took_over_writes_nothing_more_and_ends(pair, database):
    first, second = pair
    first.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: second.is_leader, TAKEOVER_SECONDS)
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(allow(30)) == 1
    log = first.read_log()
    assert "another daemon acts for the cluster c1 now; stopping, to wait as its standby" in log
    assert "Traceback" not in log
    store = Store.open(database)
    assert store.leases.read("c1").holder.pid == second.process.pid
    store.close()
    first.start()
    wait_until(lambda: first.is_leader is False, 60)
    assert second.is_leader


def test_a_lease_that_nobody_took_is_renewed_after_the_database_came_back(tmp_path, database, postgresql_server):
    with daemons(tmp_path, database, "only") as (only,):
        only.start()
        wait_until(lambda: only.is_leader, 60)
        postgresql_server.halt()
        try:
            wait_until(lambda: only.is_leader is False, 40)
        finally:
            postgresql_server.resume()
        wait_until(lambda: only.is_leader, 60)
        assert read_epoch(database) == 1
        assert only.process.poll() is None


def test_a_second_daemon_may_be_refused_on_postgresql(tmp_path, database):
    with daemons(tmp_path, database, "first", "second", more='standby = "refuse"\n') as (first, second):
        first.start()
        wait_until(lambda: first.is_leader, 60)
        second.start()
        assert second.process.wait(allow(60)) == 2
        assert "the cluster c1 has a daemon already: `ckptd run` on " in second.read_log()
        assert f"(pid {first.process.pid}) since 20" in second.read_log()


def test_a_second_daemon_is_refused_on_sqlite_and_a_killed_one_is_replaced_at_once(tmp_path):
    with daemons(tmp_path, f"sqlite:///{tmp_path}/ckptd.sqlite3", "first", "second") as (first, second):
        first.start()
        wait_until(lambda: first.is_leader, 60)
        second.start()
        assert second.process.wait(allow(60)) == 2
        assert f"(pid {first.process.pid}) since 20" in second.read_log()
        assert "move to PostgreSQL, where a second daemon waits as a standby" in second.read_log()
        assert "Traceback" not in second.read_log()
        first.kill()
        second.start()
        wait_until(lambda: second.is_leader, 30)


@pytest.mark.parametrize("is_postgresql", [False, True], ids=["sqlite", "refused on postgresql"])
def test_a_second_daemon_with_the_configuration_of_the_first_names_it(tmp_path, request, is_postgresql):
    database = request.getfixturevalue("database") if is_postgresql else f"sqlite:///{tmp_path}/ckptd.sqlite3"
    with daemons(tmp_path, database, "first", "second", more='standby = "refuse"\n') as (first, second):
        shutil.copyfile(first.folder / "config.toml", second.folder / "config.toml")
        first.start()
        wait_until(lambda: first.is_leader, 60)
        second.start()
        assert second.process.wait(allow(60)) == 2
        assert f"the cluster c1 has a daemon already: `ckptd run` on {socket.gethostname()}" in second.read_log()
        assert f"(pid {first.process.pid}) since 20" in second.read_log()
        assert "Traceback" not in second.read_log()
        assert first.is_leader


def test_a_daemon_whose_address_another_program_has_says_so_at_once(tmp_path):
    with daemons(tmp_path, f"sqlite:///{tmp_path}/ckptd.sqlite3", "only") as (only,):
        with socket.create_server(("127.0.0.1", only.port)):
            only.start()
            assert only.process.wait(allow(60)) == 2
        assert "another program listens there; set web.listen" in only.read_log()
        only.start()
        wait_until(lambda: only.is_leader, 30)


def test_after_a_daemon_was_stopped_a_copy_of_its_sqlite_file_is_complete(tmp_path):
    with daemons(tmp_path, f"sqlite:///{tmp_path}/ckptd.sqlite3", "only") as (only,):
        only.start()
        wait_until(lambda: only.read_metric("ckptd_last_poll_timestamp_seconds"), 60)
        only.process.terminate()
        assert only.process.wait(allow(20)) == 0, only.read_log()
    shutil.copyfile(tmp_path / "ckptd.sqlite3", tmp_path / "copy.sqlite3")
    copy = Store.open(f"sqlite:///{tmp_path}/copy.sqlite3")
    assert copy.jobs.read_tracked("c1")
    copy.close()
