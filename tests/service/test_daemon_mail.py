"""The real daemon, with a relay that hangs."""

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from ckptd.core import notices
from ckptd.core.model import RunKey, Severity
from ckptd.store.store import Store
from core.notice_facts import POLICY, facts_of, flag, opened
from mail_server import SilentServer, wait_until
from outbox_sender import now

ROOT = Path(__file__).parents[2]
RUN = RunKey("c1", os.geteuid(), "/nowhere/at/all")


@pytest.fixture
def relay():
    server = SilentServer()
    yield server
    server.stop()


@pytest.fixture
def store(tmp_path):
    """A record with one notice that is due."""
    opened_store = Store.open(f"sqlite:///{tmp_path}/ckptd.sqlite3", upgrade=True)
    made_at = now() - timedelta(hours=1)
    opened_store.record_poll("c1", made_at)
    opened_store.assign_run([], RUN, "alice", "watch", made_at)
    due = flag(None, run=RUN, severity=Severity.CRITICAL)
    opened_store.record_flags(opened(due), made_at, notices.plan(opened(due), facts_of(due), POLICY, made_at))
    yield opened_store
    opened_store.close()


@pytest.fixture
def daemon(tmp_path, relay, store):
    config = tmp_path / "config.toml"
    config.write_text(
        f'[slurm]\nsource = "replay"\ncluster = "c1"\nreplay_path = "{ROOT}/tests/data/slurm/22.05.8"\n'
        f'poll_interval = "1s"\n[service]\nstate_directory = "{tmp_path}"\n[web]\nlisten = ""\n'
        f'[mail]\nmode = "on"\nsender = "ckptd@example.org"\nrecipient = "{{user}}@example.org"\n'
        f'relays = ["127.0.0.1:{relay.port}"]\ntimeout = "60s"\n'
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ckptd", "--config", str(config), "run"], stdout=log, stderr=log, cwd=tmp_path
        )
        yield process
        process.kill()
        process.wait()


def test_a_relay_that_hangs_slows_no_poll_and_no_end(daemon, relay, store, tmp_path):
    with relay.wait_for_a_caller() as connection:
        first = store.read_status()[0].polled_at
        began = time.monotonic()
        wait_until(lambda: (store.read_status()[0].polled_at - first).total_seconds() >= 4, 60)
        assert time.monotonic() - began < 15
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)  # the caller still waits for the first word
        daemon.terminate()
        assert daemon.wait(20) == 0, (tmp_path / "log").read_text()
    assert store.read_outbox("c1", now()).due_count == 1
