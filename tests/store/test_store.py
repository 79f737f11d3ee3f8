"""A record as several processes use it: killed writers, waiting writers, and whatever text there is."""

import os
import signal
from concurrent import futures

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import DaemonIdentity
from ckptd.store import columns, histories
from ckptd.store.store import Store
from ckptd.store.tables import ClusterTable
from demo.patience import allow
from store import record_writer
from store.observing import begin_run, history_of, poll, scan
from support.forked_processes import FORKS
from support.mail_server import wait_until
from support.queue_facts import CLUSTER, NOON, RUN, at, make_checkpoint, make_job
from support.recorded import locate


@pytest.mark.filled_by(record=begin_run)
def test_another_process_that_writes_is_seen_by_a_reader_that_remembers(store, database_url):
    scan(store, 1, make_checkpoint())
    assert not history_of(store).checkpoints[0].is_pinned
    other = Store.open(database_url)
    assert other.checkpoints.set_pinned(RUN, "/data/alice/run/step-1.pt", is_pinned=True) == 1
    other.close()
    assert history_of(store).checkpoints[0].is_pinned


def test_what_is_not_remembered_is_read_again(store):
    store.histories.cache = histories.HistoryCache(held_count=1)
    for job_id in (1, 2, 3):
        poll(store, job_id, *(make_job(number) for number in range(1, job_id + 1)))
        locate(store, job_id, RunKey(CLUSTER, 1000, f"/data/{job_id}"))
    first = store.histories.read(CLUSTER, active_only=True)
    assert store.histories.read(CLUSTER, active_only=True) == first
    assert len(first) == 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters()))
def test_any_text_at_all_survives(store, text):
    store.clusters.record_poll(CLUSTER, NOON, Unknown(what=text, reason=text[::-1]))
    (status,) = store.clusters.read_status()
    assert (status.poll_trouble.what, status.poll_trouble.reason) == (text, text[::-1])
    store.clusters.record_poll(CLUSTER, NOON)


@given(st.text(st.characters(codec=None)))
def test_encoded_text_holds_nothing_that_a_database_refuses(text):
    encoded = columns.encode_text(text)
    encoded.encode("utf-8")
    assert "\x00" not in encoded
    assert columns.decode_text(encoded) == text


@pytest.mark.parametrize("extra_writes", range(3))
def test_a_killed_writer_leaves_whole_steps(store, database_url, extra_writes):
    ready = FORKS.Event()
    writer = FORKS.Process(target=record_writer.write_until_killed, args=(database_url, ready), daemon=True)
    writer.start()
    assert ready.wait(allow(60))
    reached = len(store.jobs.read_tracked(CLUSTER)) + extra_writes
    while len(store.jobs.read_tracked(CLUSTER)) < reached:
        assert writer.is_alive()
    os.kill(writer.pid, signal.SIGKILL)
    writer.join(allow(30))
    wait_until(lambda: count_open_transactions(store) == 0)  # the last one may commit after the kill
    tracked = store.jobs.read_tracked(CLUSTER)
    assert sorted(tracked) == list(range(1, len(tracked) + 1))
    assert all(known.attempt is not None and known.run is not None for known in tracked.values())
    assert len(store.histories.read(CLUSTER, active_only=True)) == len(tracked)
    poll(store, 10_000, *(make_job(each) for each in tracked))


def count_open_transactions(store):
    """Return how many transactions other connections to a PostgreSQL server have open; SQLite ends them with a kill."""
    if store.database.sqlite_path is not None:
        return 0
    with store.database.reading() as connection:
        return connection.exec_driver_sql(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE state <> 'idle' AND datname = current_database() AND pid <> pg_backend_pid()"
        ).scalar()


def test_two_steps_that_write_the_same_row_wait_for_one_another(store):
    """Polls, looks and the heartbeat all write to the cluster's row."""
    store.clusters.record_poll(CLUSTER, at(0))
    daemon = DaemonIdentity(host="h", pid=1, version="0", started_at=at(0))
    with futures.ThreadPoolExecutor(1) as pool:
        with store.database.writing() as connection:
            connection.execute(sa.update(ClusterTable).values(polled_at=at(1)))
            beat = pool.submit(store.clusters.record_heartbeat, CLUSTER, daemon, at(1))
            with pytest.raises(futures.TimeoutError):
                beat.result(timeout=0.3)
        beat.result(timeout=allow(20))
    status = store.clusters.read_status()[0]
    assert (status.polled_at, status.heartbeat_at) == (at(1), at(1))
