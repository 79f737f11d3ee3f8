"""The real daemon and the real `ckptd once`, with relays that hang, die and work."""

import json
import os
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from ckptd.core import notices
from ckptd.core.model import RunKey, Severity
from core.notice_facts import POLICY, facts_of, flag, opened
from demo.patience import allow
from support.forked_daemon import ForkedDaemon, complete_ckptd, run_ckptd
from support.mail_server import PASSWORD, USER, MailServer, SilentServer, wait_until
from support.migrated import open_record
from support.outbox_sender import let_the_next_try_come, now
from support.recorded import note_run

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
    opened_store = open_record(f"sqlite:///{tmp_path}/ckptd.sqlite3")
    made_at = now() - timedelta(hours=1)
    opened_store.clusters.record_poll("c1", made_at)
    note_run(opened_store, RUN, made_at, located_by="watch")
    due = flag(None, run=RUN, severity=Severity.CRITICAL)
    opened_store.flags.record(opened(due), made_at, notices.plan(opened(due), facts_of(due), POLICY, made_at))
    yield opened_store
    opened_store.close()


def write_config(tmp_path, port, more=""):
    config = tmp_path / "config.toml"
    config.write_text(
        f'[slurm]\nsource = "replay"\ncluster = "c1"\nreplay_path = "{ROOT}/tests/data/slurm/22.05.8"\n'
        f'poll_interval = "1s"\n[service]\nstate_directory = "{tmp_path}"\n[web]\nlisten = ""\n'
        f'[mail]\nmode = "on"\nsender = "ckptd@example.org"\nrecipient = "{{user}}@example.org"\n'
        f'relays = ["127.0.0.1:{port}"]\ntimeout = "60s"\n{more}'
    )
    return ["--config", str(config)]


@contextmanager
def running(tmp_path, options):
    with (tmp_path / "log").open("ab") as log:
        process = ForkedDaemon(run_ckptd, *options, "run", log=log, folder=tmp_path)
        yield process
        process.kill()
        process.wait()


@pytest.fixture
def daemon(tmp_path, relay, store):
    with running(tmp_path, write_config(tmp_path, relay.port)) as process:
        yield process


@pytest.fixture
def server(tmp_path):
    started = MailServer(tmp_path)
    (tmp_path / "password").write_text(PASSWORD)
    started.access = f'ca_file = "{started.certificate}"\nusername = "{USER}"\npassword_file = "{tmp_path}/password"\n'
    yield started
    started.stop()


def test_a_relay_that_hangs_slows_no_poll_and_no_end(daemon, relay, store, tmp_path):
    with relay.wait_for_a_caller() as connection:
        first = store.clusters.read_status()[0].polled_at
        began = time.monotonic()
        wait_until(lambda: (store.clusters.read_status()[0].polled_at - first).total_seconds() >= 4, 60)
        assert time.monotonic() - began < allow(15)
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)  # the caller still waits for the first word
        daemon.terminate()
        assert daemon.wait(allow(20)) == 0, (tmp_path / "log").read_text()
    assert store.outbox.read_waiting("c1", now()).due_count == 1


def run_once(options, tmp_path):
    return complete_ckptd(*options, "once", "--json", folder=tmp_path, timeout=allow(120))


def test_one_cycle_by_hand_sends_what_is_due_and_nothing_twice(server, store, tmp_path):
    options = write_config(tmp_path, server.port, server.access)
    dead = run_once(options, tmp_path)
    assert dead.returncode == 1
    assert f"127.0.0.1:{server.port}: " in dead.stderr
    document = json.loads(dead.stdout)
    assert (document["messages_sent"], document["waiting_notices"] > 0) == (0, True)
    assert store.outbox.read_waiting("c1", now()).due_count == 1

    server.start()
    let_the_next_try_come(tmp_path / "ckptd.sqlite3")
    sent = run_once(options, tmp_path)
    assert json.loads(sent.stdout)["messages_sent"] == 1, sent.stderr
    assert json.loads(run_once(options, tmp_path).stdout)["messages_sent"] == 0
    assert [mail["To"] for mail in server.inbox.mails] == ["alice@example.org"]


def test_a_daemon_killed_between_acceptance_and_record_sends_the_very_same_again_and_no_more(server, store, tmp_path):
    options = write_config(tmp_path, server.port, server.access)
    server.start()
    server.inbox.is_held = True
    with running(tmp_path, options) as process:
        wait_until(lambda: server.inbox.mails, 60)
        process.kill()
        process.wait()
    server.inbox.is_held = False
    let_the_next_try_come(tmp_path / "ckptd.sqlite3")
    with running(tmp_path, options):
        wait_until(lambda: store.outbox.read_waiting("c1", now()).due_count == 0, 60)
    assert list(server.inbox.ids.values()) == [2]
    assert len({mail.get_body(["plain"]).get_content() for mail in server.inbox.mails}) == 1
