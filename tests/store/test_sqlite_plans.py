"""SQLite finds the jobs in the queue by an index, however many have ended."""

import sqlalchemy as sa

from support.migrated import open_record
from support.queue_facts import CLUSTER


def test_jobs_in_the_queue_and_jobs_to_scan_are_found_by_their_indexes(tmp_path):
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    found = []

    def note(connection, cursor, statement, parameters, context, executemany):
        if " jobs" in statement:
            plan = connection.connection.dbapi_connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.extend(row[3] for row in plan if " jobs " in row[3])

    sa.event.listen(store.database._engine, "before_cursor_execute", note)
    store.jobs.read_tracked(CLUSTER)
    store.backfill.read_unscanned_jobs(CLUSTER)
    assert found == [
        *2 * ["SEARCH jobs USING INDEX uq_jobs_in_queue (cluster=?)"],  # jobs, and their latest attempts
        "SEARCH jobs USING INDEX ix_jobs_awaiting_scan (cluster=?)",
    ]
    store.close()
