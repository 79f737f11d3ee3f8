"""Listings read through a driver alone show what the store shows, and refuse what it refuses."""

import os
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import PAUSE, AuditEntry, DaemonIdentity
from ckptd.core.notices import sample_digest
from ckptd.core.queue.poll_gaps import PollGap
from ckptd.store import database_errors, plain_reads
from ckptd.store.engine import begin, create_engine
from ckptd.store.light_reader import open_reader
from ckptd.store.store import Store
from store.test_decisions_on_record import make_flag
from support.migrated import get_template
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan
from support.trash_facts import as_user

HOSTILE = "a\\b\x00\udcff\u200b'%s:x"


@pytest.fixture
def reader(database_url):
    opened = open_reader(database_url)
    yield opened
    opened.close()


def fill(store):
    """Two users' jobs, one suspended, with a rolled-back save, flags of a run and of a job, mail and acts."""
    other = RunKey(CLUSTER, 2000, "/data/" + HOSTILE.replace("\x00", ""))
    poll(
        store,
        0,
        make_job(1),
        make_job(2, user=HOSTILE, uid=2000, name=HOSTILE, array_job_id=2, array_task_id=5),
        make_job(3, STATES.SUSPENDED, restart_count=2),
        make_job(4),
    )
    locate(store, 1)
    locate(store, 2, other)
    saves = [
        make_checkpoint(f"s{step}", written, step=step, epoch=epoch)
        for step, written, epoch in ((10, 1, 0.5), (30, 2, 2), (20, 2, 1.5))
    ]
    scan(store, 3, *saves)
    store.flags.record(FlagChanges(opened=(make_flag(), make_flag(job_id=7))), at(1))
    (flag,) = store.flags.record(FlagChanges(opened=(make_flag(rule="no-room", job_id=None),)), at(2))
    store.flags.record(FlagChanges(resolved=(replace(flag, resolved_at=at(3)),)), at(3))
    poll(store, 5, make_job(1), make_job(2, user=HOSTILE, uid=2000), make_job(3, STATES.SUSPENDED, restart_count=2))
    store.clusters.record_poll(CLUSTER, at(6), Unknown(what="queue", reason=HOSTILE))
    store.backfill.record_gap(CLUSTER, PollGap(at(1), at(2)))
    store.clusters.record_heartbeat(CLUSTER, DaemonIdentity(host="admin", pid=7, version="1", started_at=at(0)), at(6))
    for minutes in (1, 50):
        notice = sample_digest("a@b.example", at(minutes)).entries[0].notice
        store.outbox.record([replace(notice, cluster=CLUSTER, edge=f"e{minutes}")])
    for action, minutes in (("hold-job", 1), ("hold-job", 30), (PAUSE, 40)):
        act = AuditEntry(cluster=CLUSTER, actor="actions", action=action, target="x", run=RUN, begun_at=at(minutes))
        store.audit.record(replace(act, reasons=(HOSTILE,)))


@pytest.mark.filled_by(record=fill)
def test_a_driver_alone_reads_what_the_store_reads(store, reader):
    with reader.begin() as select:
        for choice, job_ids in (
            ({}, [1, 2, 3]),
            ({"user": HOSTILE}, [2]),
            ({"flagged_only": True}, [1]),
            ({"cluster": "none"}, []),
        ):
            found = plain_reads.list_jobs(select, at(7), **choice)
            assert found == store.jobs.list_open(at(7), **choice)
            assert [row.key.job_id for row in found] == job_ids
        assert plain_reads.read_flags(select) == store.flags.read()
        every = plain_reads.read_flags(select, include_resolved=True)
        assert every == store.flags.read(include_resolved=True)
        assert [flag.resolved_at for flag in every] == [None, None, at(3)]
        assert plain_reads.read_status(select) == store.clusters.read_status()
        outbox = store.outbox.read_waiting(CLUSTER, at(20))
        assert plain_reads.read_mail_state(select, CLUSTER, at(20)) == (
            sum(outbox.waiting.values()), outbox.oldest_due_at, store.outbox.read_last_sent_at(CLUSTER),
        )  # fmt: skip
        assert plain_reads.read_unfinished_reasons(select, CLUSTER, PAUSE) == [HOSTILE]
        counts = plain_reads.count_audited_by_owner(select, CLUSTER, "actions", at(30))
        assert counts == store.audit.count_by_owner(CLUSTER, "actions", at(30)) == {
            ("hold-job", 1000): 1, (PAUSE, 1000): 1,
        }  # fmt: skip


@pytest.mark.filled_by(record=fill)
@pytest.mark.usefixtures("store")
def test_the_newest_checkpoint_is_the_furthest_of_those_that_were_complete_at_once(reader):
    with reader.begin() as select:
        row = plain_reads.list_jobs(select, at(7))[0]
    assert (row.step, row.epoch, row.newest_checkpoint_at, row.checkpoint_count) == (30, 2, at(2), 3)
    assert isinstance(row.epoch, int)
    assert row.time_left == timedelta(minutes=52)


def test_one_transaction_sees_one_state_and_the_next_one_the_next(store, reader):
    poll(store, 0, make_job(1))
    with reader.begin() as select:
        assert len(plain_reads.list_jobs(select, at(1))) == 1
        poll(store, 2, make_job(1), make_job(2))
        assert len(plain_reads.list_jobs(select, at(2))) == 1
    with reader.begin() as select:
        assert len(plain_reads.list_jobs(select, at(2))) == 2


def test_a_reader_writes_nothing(store, reader):
    for statement in ("DELETE FROM flags", "CREATE TABLE x (y INTEGER)"):
        with (
            pytest.raises(database_errors.StoreError, match=r"did not answer as it should: .*read"),
            reader.begin() as select,
        ):
            select(statement, {})


@pytest.mark.parametrize("revision", [None, "0003", "9999"])
def test_tables_of_another_version_are_refused_in_the_words_of_the_store(empty_engine, revision, empty_database_url):
    if revision is not None:
        with begin(empty_engine, is_writer=True) as connection:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{revision}')")
    with pytest.raises(database_errors.SchemaError) as expected:
        Store.open(empty_database_url)
    with pytest.raises(database_errors.SchemaError) as caught:
        open_reader(empty_database_url)
    assert str(caught.value) == str(expected.value)


def test_a_database_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(database_errors.SchemaError, match=r"there is no /\S+/none\.db\. .*run `ckptd db upgrade`"):
        open_reader(f"sqlite:///{tmp_path}/none.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b%20c#d.db", "ü?mode.db", "x;y&z=.db"])
def test_a_path_of_any_characters_is_opened(tmp_path, name):
    path = tmp_path / name.partition("?")[0]
    path.write_bytes(get_template().read_bytes())
    reader = open_reader(f"sqlite:///{tmp_path}/{name}")
    with reader.begin() as select:
        assert plain_reads.list_jobs(select, at(0)) == ()
    reader.close()


@pytest.mark.parametrize("address", ["", "nonsense", "mysql://localhost/x", "sqlite:////proc/version/x.db"])
def test_an_address_that_cannot_work_is_one_sentence(address):
    with pytest.raises(database_errors.StoreError) as caught:
        open_reader(address)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_down_is_named_without_what_is_secret():
    address = "postgresql+psycopg://ckptd:geheim@127.0.0.1:1/none?sslpassword=geheim2"
    with pytest.raises(
        database_errors.DatabaseAwayError, match=r"postgresql://ckptd:\*\*\*@127\.0\.0\.1:1/none did not answer"
    ) as caught:
        open_reader(address, password="geheim3")
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("mode", "folder_mode"), [(0o600, 0o755), (0o644, 0o755), (0o644, 0o700)])
def test_another_account_is_told_who_may_read_a_file(mode, folder_mode):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / "ckptd.sqlite3"
        shutil.copyfile(get_template(), path)
        path.chmod(mode)
        folder.chmod(folder_mode)

        def read():
            try:
                with open_reader(f"sqlite:///{path}").begin() as select:
                    select("SELECT 1", {})
            except database_errors.StoreError as error:
                return str(error)

        assert as_user(read) == (
            f"the database sqlite:///{path} is not for this account: the status page shows your own runs (on the"
            " daemon's host by default http://localhost:9478); administrators run this as root or as the daemon's"
            " account"
        )


def test_a_password_from_a_file_opens_a_server(postgresql_url):
    create_engine(postgresql_url)  # its address has the password in it
    before, _, rest = postgresql_url.partition("@")
    scheme, _, password = before.rpartition(":")
    with pytest.raises(database_errors.SchemaError, match="has no tables yet"):
        open_reader(f"{scheme}@{rest}", password)
