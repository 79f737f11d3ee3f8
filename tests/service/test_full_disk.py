"""A real daemon whose SQLite database is on a disk that fills up and is freed again."""

import pytest

from demo.patience import allow
from support.full_disk import mount_small_disk
from support.mail_server import wait_until
from support.real_daemon import RealDaemon


@pytest.fixture
def full_disk():
    with mount_small_disk() as disk:
        yield disk


@pytest.fixture
def daemon(tmp_path, full_disk):
    daemon = RealDaemon(tmp_path / "daemon", f"sqlite:///{full_disk.folder}/record.db").start()
    yield daemon
    daemon.kill()


def test_a_disk_that_fills_up_is_reported_once_for_all_steps_and_the_daemon_resumes(daemon, full_disk):
    wait_until(lambda: daemon.read_metric("ckptd_last_poll_timestamp_seconds"), 60)
    full_disk.fill(left_bytes=0)
    wait_until(lambda: "database or disk is full" in daemon.read_log(), 60)
    wait_until(lambda: daemon.read_metric("ckptd_database_up") == 0, 30)
    stopped_at = daemon.read_metric("ckptd_last_poll_timestamp_seconds")
    full_disk.empty()
    wait_until(lambda: daemon.read_metric("ckptd_database_up") == 1, 90)
    wait_until(lambda: daemon.read_metric("ckptd_last_poll_timestamp_seconds") > stopped_at, 30)
    daemon.process.terminate()
    assert daemon.process.wait(allow(20)) == 0
    log = daemon.read_log()
    assert log.count("nothing is recorded until it answers") == 1
    assert log.count("database or disk is full") == 1, log
    assert "step poll" not in log
    assert "Traceback" not in log
