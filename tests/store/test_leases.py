"""The lease of a cluster, and transactions that it fences, on both databases."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa

from ckptd.core.leadership.lease import Lease, LeaseHolder
from ckptd.core.model.records import AuditEntry
from ckptd.store.database_errors import AlreadyRecordedError, LeaseLostError, StoreError
from ckptd.store.store import Store
from core.histories import at
from demo.patience import allow
from support.mail_server import wait_until
from support.migrated import open_record
from support.pgbouncer import PgBouncer


def holder(name="a", program="run"):
    return LeaseHolder(instance=name, program=program, host=f"host-{name}", pid=7, version="1")


def take(store, name="a", minute=0):
    return store.leases.take("c1", store.leases.read("c1"), holder(name), at(minute))


def test_a_lease_that_nobody_has_is_free(store):
    assert store.leases.read("c1") == Lease(epoch=0, renewal=0, holder=None)


def test_every_new_holder_raises_the_epoch(store):
    assert take(store) == 1
    assert store.leases.read("c1") == Lease(epoch=1, renewal=1, holder=holder(), acquired_at=at(0), renewed_at=at(0))
    assert take(store, "b") == 2
    store.leases.release("c1", 2, "b")
    assert store.leases.read("c1").holder is None
    assert take(store, "a") == 3


def test_a_lease_that_has_changed_since_it_was_seen_is_not_taken(store):
    take(store)
    seen = store.leases.read("c1")
    assert store.leases.renew("c1", 1, at(1))
    assert store.leases.take("c1", seen, holder("b"), at(1)) is None
    assert store.leases.read("c1").holder == holder("a")


def test_only_the_current_epoch_is_renewed_and_released(store):
    take(store)
    take(store, "b")
    assert not store.leases.renew("c1", 1, at(1))
    store.leases.release("c1", 1, "a")
    store.leases.release("c1", 2, "a")
    assert store.leases.read("c1").holder == holder("b"), "after a restore, another process may have the same epoch"
    store.leases.release("c1", 2, "b")
    assert not store.leases.renew("c1", 2, at(1)), "what was released is not taken back by a renewal on its way"


def test_every_cluster_has_a_lease_of_its_own(store):
    take(store)
    assert store.leases.take("c2", store.leases.read("c2"), holder("b"), at(0)) == 1
    assert store.leases.read("c1").holder == holder("a")


def test_writes_of_an_old_epoch_are_refused_and_name_the_new_holder(store):
    first = store.with_lease("c1", take(store))
    first.clusters.record_poll("c1", at(1))
    second = store.with_lease("c1", take(store, "b"))
    with pytest.raises(LeaseLostError, match=r"another process acts for the cluster c1 now: `ckptd run` on host-b"):
        first.clusters.record_poll("c1", at(2))
    second.clusters.record_poll("c1", at(3))
    assert [status.polled_at for status in first.clusters.read_status()] == [at(3)], "reading is still allowed"


def test_writes_after_a_release_are_refused(store):
    fenced = store.with_lease("c1", take(store))
    store.leases.release("c1", 1, "a")
    with pytest.raises(LeaseLostError, match="its lease was released"):
        fenced.clusters.record_poll("c1", at(1))


def test_of_several_that_take_a_lease_at_once_one_gets_it(database_url):
    stores = [Store.open(database_url) for _ in range(4)]
    seen = stores[0].leases.read("c1")
    barrier, epochs = threading.Barrier(4), []

    def run(index):
        barrier.wait()
        epochs.append(stores[index].leases.take("c1", seen, holder(str(index)), at(0)))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in stores:
        each.close()
    assert sorted(epochs, key=str) == [1, None, None, None]


def test_standbys_are_recorded_until_they_take_the_lease_or_are_not_seen_for_a_day(store):
    store.leases.record_standby("c1", holder("old"), at(0) - timedelta(days=2))
    store.leases.record_standby("c1", holder("b"), at(0))
    store.leases.record_standby("c1", holder("b"), at(1))
    assert count_standbys(store) == 1
    take(store, "b")
    assert count_standbys(store) == 0
    store.leases.record_standby("c1", holder("d"), at(0))
    store.leases.forget_standby(holder("d"))
    assert count_standbys(store) == 0


def count_standbys(store):
    with store.database.reading() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM standbys").scalar()


@pytest.fixture
def server(postgresql_record):
    opened = Store.open(postgresql_record)
    yield opened
    opened.close()


@pytest.fixture
def pooled(postgresql_server, postgresql_record):
    """The same database through a PgBouncer."""
    pgbouncer = PgBouncer(postgresql_server)
    try:
        opened = Store.open(pgbouncer.start().route(postgresql_record))
        yield opened
        opened.close()
    finally:
        pgbouncer.stop()


def write_many(connection):
    """Send several rows at once: PostgreSQL then has no time limit for the rest of the transaction."""
    statement = sa.text("INSERT INTO clusters (name) VALUES (:name)")
    connection.execute(statement, [{"name": "left behind"}, {"name": "also"}])


def write_one(connection):
    connection.exec_driver_sql("INSERT INTO clusters (name) VALUES ('left behind')")


@pytest.mark.parametrize("write", [write_one, write_many])
@pytest.mark.parametrize("way", ["direct", "pgbouncer"])
def test_a_holder_that_stops_in_the_middle_of_a_transaction_is_replaced_at_once_and_writes_nothing(
    server, write, way, request
):
    holding = server if way == "direct" else request.getfixturevalue("pooled")
    fenced = holding.with_lease("c1", take(holding))

    def stop_in_the_middle():
        with fenced.database.writing() as stopped:
            write(stopped)
            began = time.monotonic()
            assert take(server, "b") == 2
            assert time.monotonic() - began < allow(5)
            write_one(stopped)

    with pytest.raises(StoreError):
        stop_in_the_middle()
    assert [status.cluster for status in server.clusters.read_status()] == ["c1"]
    with pytest.raises(LeaseLostError):
        fenced.clusters.record_poll("c1", at(1))


def test_a_holder_that_stops_while_it_renews_the_lease_is_replaced_at_once(server, postgresql_record):
    take(server)
    other = Store.open(postgresql_record)

    def stop(connection):
        assert take(other, "b") == 2

    sa.event.listen(sa.Engine, "commit", stop, once=True)
    with pytest.raises(StoreError, match="terminating connection due to administrator command"):
        server.leases.renew("c1", 1, at(1))
    assert not server.leases.renew("c1", 1, at(1))
    other.close()


def test_a_takeover_leaves_other_clusters_and_a_lease_that_was_renewed_alone(server):
    fenced = server.with_lease("c1", take(server))
    seen = server.leases.read("c1")
    other = server.with_lease("c2", server.leases.take("c2", server.leases.read("c2"), holder("x"), at(0)))
    with fenced.database.writing() as ours, other.database.writing() as theirs:
        write_many(theirs)
        assert server.leases.renew("c1", 1, at(1))
        with ThreadPoolExecutor() as threads:
            late = threads.submit(server.leases.take, "c1", seen, holder("b"), at(1))
            wait_until(lambda: late.done() or count_waiting(server), 10)
            ours.exec_driver_sql("INSERT INTO clusters (name) VALUES ('ours')")
            ours.commit()
        assert late.result() is None
        assert take(server, "b") == 2
    assert {status.cluster for status in server.clusters.read_status()} == {"c1", "c2", "ours", "left behind", "also"}


def test_what_a_command_writes_is_waited_for_after_the_daemon_has_released_the_lease(server):
    command = server.with_lease("c1", take(server))
    with command.database.writing() as connection, ThreadPoolExecutor() as threads:
        server.leases.release("c1", 1, "a")
        taken = threads.submit(take, server, "b")
        wait_until(lambda: count_waiting(server), 10)
        write_one(connection)
        connection.commit()
    assert taken.result() == 2
    assert {status.cluster for status in server.clusters.read_status()} == {"c1", "left behind"}


def count_waiting(store):
    with store.database.reading() as connection:
        return connection.exec_driver_sql(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).scalar()


def test_a_renewal_waits_for_no_transaction(server, postgresql_record):
    fenced = server.with_lease("c1", take(server))
    with fenced.database.writing():
        assert server.leases.renew("c1", 1, at(1))
        other = psycopg.connect(postgresql_record, options="-c lock_timeout=100")
        with other, pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("SELECT epoch FROM leases WHERE cluster = 'c1' FOR UPDATE")


def entry(**changes):
    values = {"cluster": "c1", "actor": "actions", "action": "resubmit", "target": "job 7", "begun_at": at(0)}
    return AuditEntry(**{**values, "plan_id": "resubmit-7", "once_key": "resubmit-7", **changes})


def test_an_action_is_recorded_once_whatever_its_outcome(store):
    number = store.audit.record(entry())
    store.audit.finish(number, "submitted 8", at(1))
    with pytest.raises(AlreadyRecordedError, match="resubmit of job 7 is on record already"):
        store.audit.record(entry())
    assert store.audit.record(entry(cluster="c2")) > number, "another cluster has other jobs"
    store.audit.undo(number, "failed: Slurm did not answer", at(2))
    store.audit.record(entry())


def test_a_checkpoint_has_one_open_removal_and_may_be_removed_again_after_a_restore(store):
    removal = entry(action="prune", target="/data/a.pt", plan_id="plan-1", once_key="prune 7 /data/a.pt")
    number = store.audit.record(removal)
    with pytest.raises(AlreadyRecordedError):
        store.audit.record(removal)
    store.audit.finish(number, "moved", at(1))
    store.audit.record(removal)


def test_a_copy_of_the_file_is_complete_after_writing_was_finished(tmp_path):
    opened = open_record(f"sqlite:///{tmp_path}/record.db")
    reader = Store.open(f"sqlite:///{tmp_path}/record.db")  # as the status page: it keeps the log from being merged
    opened.clusters.record_poll("c1", at(1))
    reader.clusters.read_status()
    assert opened.database.finish_writing()
    shutil.copyfile(tmp_path / "record.db", tmp_path / "copy.db")
    copy = Store.open(f"sqlite:///{tmp_path}/copy.db")
    assert [status.polled_at for status in copy.clusters.read_status()] == [at(1)]
    for each in (opened, reader, copy):
        each.close()
