"""SQLite finds jobs in the queue and waiting notices by an index, however many are on record."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from ckptd.core import notices
from ckptd.store import end_rows, plain_reads
from core.notice_facts import POLICY, facts_of, flag, opened, run_of
from support.migrated import open_record
from support.queue_facts import CLUSTER, at
from support.recorded import note_run

LEASE = timedelta(minutes=10)


@pytest.fixture
def store(tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    yield store
    store.close()


@pytest.fixture
def explain(store):
    """Return a function that says how SQLite finds the rows of a table in each statement of a call."""
    found = []

    def note(connection, cursor, statement, parameters, context, executemany):
        plan = connection.connection.dbapi_connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        found.extend(row[3] for row in plan)

    sa.event.listen(store.database._engine, "before_cursor_execute", note)

    def explain(table, read, *arguments):
        found.clear()
        read(*arguments)
        return [line for line in found if f" {table} " in line]

    return explain


def test_jobs_in_the_queue_and_jobs_to_scan_are_found_by_their_indexes(store, explain):
    in_queue = "SEARCH jobs USING INDEX uq_jobs_in_queue (cluster=?)"
    assert explain("jobs", store.jobs.read_tracked, CLUSTER) == 2 * [in_queue]  # jobs, and their latest attempts
    assert explain("jobs", store.backfill.read_unscanned_jobs, CLUSTER) == [
        "SEARCH jobs USING INDEX ix_jobs_awaiting_scan (cluster=?)"
    ]


def test_ends_to_confirm_are_found_by_the_time_of_their_end(store, explain):
    assert explain("attempts", store.jobs.list_unconfirmed_attempts, CLUSTER, at(0)) == [
        "SEARCH attempts USING INDEX ix_attempts_ended_at (ended_at>?)"
    ]


def test_what_a_start_reads_of_ended_attempts_is_found_by_the_time_of_their_end(store, explain):
    read = partial(store.restart_state.read, ended_since=at(0), timed_out_since=at(0))
    of_attempts = "SEARCH attempts USING INDEX ix_attempts_ended_at (ended_at>?)"
    assert explain("attempts", read, CLUSTER) == [of_attempts]
    assert explain("jobs", read, CLUSTER) == [
        "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH jobs USING INDEX ix_jobs_open (cluster=?)",  # those whose free space is read
    ]


def test_the_ends_that_a_start_counts_are_found_by_their_time(store):
    plans = []

    def explain_and_select(statement, values):
        plans.extend(row[3] for row in select(f"EXPLAIN QUERY PLAN {statement}", values))
        return select(statement, values)

    with store.database.selecting() as select:
        explain_and_select.is_sqlite = True
        end_rows.read_ends(explain_and_select, CLUSTER, at(0))
    assert plans[-3:] == [
        "SEARCH a USING INDEX ix_attempts_ended_at (ended_at>?)",
        "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
        "USE TEMP B-TREE FOR GROUP BY",
    ]


def test_waiting_notices_are_found_by_their_state(store, explain):
    waits = flag(1, run=run_of(1))
    cluster = waits.finding.run.cluster
    store.clusters.record_poll(cluster, at(0))
    note_run(store, run_of(1), at(0), located_by="watch")
    changes = opened(replace(waits, flag_id=None))
    store.flags.record(changes, at(0), notices.plan(changes, facts_of(waits), POLICY, at(0)))

    by_state, to_retry = (
        f"SEARCH notices USING INDEX ix_notices_due ({terms})" for terms in ("state=?", "state=? AND next_try_at<?")
    )
    claimed = "SEARCH notices USING INTEGER PRIMARY KEY (rowid=?)"
    assert explain("notices", store.outbox.read_waiting, cluster, at(0)) == [by_state, by_state]
    assert explain("notices", store.outbox.list_unaddressed, cluster) == [by_state]
    assert explain("notices", store.outbox.read_held, cluster, (), at(0)) == [by_state]
    assert explain("notices", store.claims.take, cluster, ("mail",), at(900), LEASE) == [
        *(by_state, to_retry),  # claims that were cut off, and notices that are due
        *(by_state, claimed),
    ]
    assert explain("notices", store.claims.drop_undelivered, cluster, ("mail",), at(900), LEASE) == [to_retry]


def test_the_mail_that_status_counts_is_found_by_its_state(store):
    plans = []

    def explain_and_select(statement, values):
        plans.extend(row[3] for row in select(f"EXPLAIN QUERY PLAN {statement}", values))
        return select(statement, values)

    with store.database.selecting() as select:
        plain_reads.read_mail_state(explain_and_select, CLUSTER, at(0))
    assert plans == [
        "SEARCH notices USING INDEX ix_notices_due (state=?)",
        "SEARCH notices USING COVERING INDEX ix_notices_cluster_sent_at (cluster=?)",
    ]
