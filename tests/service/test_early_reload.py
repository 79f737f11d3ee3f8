"""SIGHUP while a daemon starts: it does not end the daemon, and the configuration is reloaded after the start."""

import os
import signal

import pytest

from demo.patience import allow
from support.mail_server import wait_until
from support.real_daemon import RealDaemon


@pytest.fixture
def daemon(tmp_path):
    daemon = RealDaemon(tmp_path / "daemon", f"sqlite:///{tmp_path}/record.db")
    yield daemon
    daemon.kill()


def test_sighup_before_the_configuration_is_read_reloads_it_after_the_start(daemon):
    config = daemon.folder / "config.toml"
    text = config.read_bytes()
    config.unlink()
    os.mkfifo(config)
    daemon.start()
    with config.open("wb") as pipe:  # opens when the daemon begins to read its configuration
        daemon.process.send_signal(signal.SIGHUP)
        config.unlink()
        config.write_bytes(text)
        pipe.write(text)
    wait_until(lambda: "INFO configuration reloaded" in daemon.read_log(), 60)
    assert daemon.process.poll() is None
    daemon.process.terminate()
    assert daemon.process.wait(allow(20)) == 0
