"""A real daemon whose tables in PostgreSQL are on a disk that is full: mail comes late, once, and none is lost."""

import shutil
from datetime import timedelta

import psycopg
import pytest

from ckptd.core import notices
from ckptd.core.model import RunKey, Severity
from core.notice_facts import POLICY, facts_of, flag, opened
from support.full_disk import mount_small_disk
from support.mail_server import PASSWORD, USER, MailServer, wait_until
from support.migrated import open_record
from support.outbox_sender import now
from support.real_daemon import RealDaemon
from support.recorded import note_run

DISK_BYTES = 60_000_000
WINDOW = timedelta(minutes=10)  # in which notices of one message are collected
SOON = timedelta(seconds=20)
FILLER = """
INSERT INTO notices (cluster, recipient, recipient_hash, channel, edge, state, payload, created_at, try_count)
VALUES ('another', 'r', %(name)s, 'log', %(name)s, 'sent', '{}', now(), 0)
"""


@pytest.fixture
def disk():
    with mount_small_disk(DISK_BYTES) as disk:
        disk.folder.chmod(0o755)
        yield disk


@pytest.fixture
def url(disk, postgresql_server, postgresql_url):
    """A database whose tables are on the small disk; the log of transactions is elsewhere, and the server goes on."""
    tables = disk.folder / "tables"
    tables.mkdir()
    shutil.chown(tables, postgresql_server.user)
    address = f"{postgresql_url.rpartition('/')[0]}/on_a_small_disk"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
        connection.execute("CREATE DATABASE on_a_small_disk TABLESPACE small")
        yield address
        connection.execute("DROP DATABASE on_a_small_disk WITH (FORCE)")
        connection.execute("DROP TABLESPACE small")


@pytest.fixture
def relay(tmp_path):
    server = MailServer(tmp_path)
    (tmp_path / "password").write_text(PASSWORD)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def daemon(tmp_path, url, relay):
    settings = (
        f'[mail]\nmode = "on"\nsender = "ckptd@example.org"\nrecipient = "{{user}}@example.org"\n'
        f'relays = ["127.0.0.1:{relay.port}"]\nca_file = "{relay.certificate}"\nusername = "{USER}"\n'
        f'password_file = "{tmp_path}/password"\n'
    )
    daemon = RealDaemon(tmp_path / "daemon", url, settings).start()
    yield daemon
    daemon.kill()


def record_due(store, due_at):
    """Record a flag whose message is due then."""
    run, made_at = RunKey("c1", 1000, "/nowhere/at/all"), due_at - WINDOW
    note_run(store, run, made_at, located_by="watch")
    found = flag(None, run=run, severity=Severity.CRITICAL)
    store.flags.record(opened(found), made_at, notices.plan(opened(found), facts_of(found), POLICY, made_at))


def fill_tables(url, disk):
    """Fill the disk and the space in the pages of the notices; return the transaction that holds it."""
    holding = psycopg.connect(url)
    holding.execute("INSERT INTO clusters (name) VALUES ('another')")
    disk.fill(left_bytes=0)
    with pytest.raises(psycopg.errors.DiskFull):
        fill_pages(holding)
    return holding


def fill_pages(holding):
    for number in range(100_000):
        with holding.transaction():
            holding.execute(FILLER, {"name": str(number)})


def test_mail_that_is_due_while_the_disk_is_full_comes_once_when_there_is_space_again(daemon, disk, relay, url):
    wait_until(lambda: daemon.read_metric("ckptd_last_poll_timestamp_seconds"), 60)
    store = open_record(url)
    record_due(store, now() + SOON)
    holding = fill_tables(url, disk)
    wait_until(lambda: "No space left on device; nothing is recorded" in daemon.read_log(), 90)
    assert relay.inbox.mails == []
    holding.rollback()
    holding.close()
    disk.empty()
    wait_until(lambda: relay.inbox.mails, 60)
    wait_until(lambda: [mail.recipient for mail in store.outbox.list_mailed("c1", now() - WINDOW)], 30)
    store.close()
    daemon.process.terminate()
    daemon.process.wait()
    assert [mail["To"] for mail in relay.inbox.mails] == ["alice@example.org"]
    assert "Traceback" not in daemon.read_log()
