"""Scans that never end end the daemon, so that systemd starts it again; scans that fail or time out do not."""

import logging
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest

from ckptd.config import Config
from ckptd.service import scan_watch
from ckptd.service.daemon import Daemon
from ckptd.service.scan_watch import ScanWatch
from ckptd.store.database_errors import StoreError
from demo.patience import allow
from support.mail_server import wait_until


@pytest.fixture
def daemon(monkeypatch):
    """A daemon with an agent that answers, which waits for one second for the end of a scan."""
    monkeypatch.setattr(scan_watch, "find_limit", lambda *_: timedelta(seconds=1))
    made = Daemon(Config(), None, {})
    made._schedule = SimpleNamespace(repair=lambda *_: None)
    agent = SimpleNamespace(is_gone=False, ping=lambda: None)
    made._opened = SimpleNamespace(helpers=SimpleNamespace(agent=agent))
    yield made
    made._stop.set()
    made._scan_pool.shutdown()


@pytest.fixture
def stuck(daemon):
    """A scan that does not end before the test does."""
    over, began = threading.Event(), threading.Event()

    def work():
        began.set()
        over.wait()

    daemon._submit_scan(work)
    assert began.wait(allow(20))
    yield daemon
    over.set()


def make_term(*, is_valid=True):
    return SimpleNamespace(cluster="c", is_valid=is_valid, describe_loss=lambda: None)


def test_scans_that_never_end_end_the_daemon_with_a_status_that_systemd_restarts(stuck, caplog):
    with caplog.at_level(logging.ERROR):
        assert stuck._wait(make_term()) == 1
    assert "no scan has answered for 1 s; stopping the daemon, because all of them are stuck" in caplog.text


def test_scans_that_wait_for_a_database_as_the_renewals_of_the_lease_do_end_nothing(stuck):
    watch = SimpleNamespace(is_silent=lambda: False)
    assert [stuck._describe_failure(watch, make_term(is_valid=False)) for _ in range(10)] == [None] * 10


def test_a_scan_that_fails_has_ended(daemon):
    def fail():
        raise StoreError("the database is away")

    daemon._submit_scan(fail)
    wait_until(lambda: daemon._scan_watch._open_count == 0, 20)
    assert not daemon._scan_watch.is_silent(0)


def test_one_dead_file_system_is_no_silence_while_other_scans_end():
    watch = ScanWatch()
    watch.begin()  # on the dead one
    for _ in range(5):
        watch.begin()
        assert not any(watch.is_silent(3) for _ in range(3))
        watch.end()
    assert [watch.is_silent(3) for _ in range(4)] == [False, False, False, True]


def test_nothing_to_scan_is_no_silence():
    watch = ScanWatch()
    watch.begin()
    assert not watch.is_silent(1)
    watch.end()
    assert not any(watch.is_silent(1) for _ in range(5))


def test_the_limit_is_longer_than_the_scan_of_an_owner_whose_file_system_is_dead():
    assert scan_watch.find_limit(timedelta(minutes=5), timedelta(minutes=1)) == timedelta(minutes=25)
