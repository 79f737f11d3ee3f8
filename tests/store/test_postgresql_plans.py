"""PostgreSQL reads few rows for each statement: counted, not timed, in a small database with the shape of a year.

Sequential scans, merge joins and hash joins are disabled, because PostgreSQL rightly prefers to read small tables from
end to end. What it still reads so has no index that it could use, or its condition does not name the rows.
"""

import psycopg
import pytest

from ckptd.store.store import Store
from support import plan_limits, recorded_year
from support.explained_statements import explain_statements
from support.further_statements import sum_up_days
from support.hot_call import HotCall
from support.hot_statements import list_calls

JOBS, ACTIVE = 9000, 200


@pytest.fixture(scope="module")
def year(postgresql_server, postgresql_tables):
    address = postgresql_server.create_database(like=postgresql_tables)
    with psycopg.connect(address, autocommit=True) as connection:
        for setting in ("enable_seqscan", "enable_mergejoin", "enable_hashjoin"):
            connection.execute(f"ALTER DATABASE {address.rpartition('/')[2]} SET {setting} = off".encode())
    store = Store.open(address)
    recorded = recorded_year.record_year(address, JOBS, ACTIVE)
    sum_up_days(store)
    yield store, recorded
    store.close()
    postgresql_server.drop_database(address)


def test_no_statement_reads_many_more_rows_than_it_needs(year):
    store, recorded = year
    sizes, failures = plan_limits.read_sizes(store), []
    assert sizes["jobs"] == recorded.job_count > JOBS // 2
    for call, found, error in plan_limits.explain_calls(store, list_calls(recorded)):
        assert found, call.name
        assert error is None, f"{call.name}: {error}"
        failures += plan_limits.list_failures(call, found, sizes, large=1000)
    assert failures == []


def test_a_statement_without_an_index_is_found(year):
    store, recorded = year
    with explain_statements(store.database._engine) as found, store.database.reading() as connection:
        connection.exec_driver_sql("SELECT id FROM jobs WHERE node_list = 'node7'").all()
    call = HotCall("example", lambda _: None, needed=1)
    [failure] = plan_limits.list_failures(call, found, {"jobs": JOBS}, large=1000)
    assert "rows of jobs (all), needs 1: SELECT id FROM jobs" in failure
    assert found[0].rows_read["jobs"] >= recorded.job_count


def test_the_rows_of_a_bitmap_and_of_a_filter_count(year):
    store, recorded = year
    with explain_statements(store.database._engine) as found, store.database.reading() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM jobs WHERE cluster = 'alpha' AND node_list = 'node7'").all()
    assert sum(found[0].rows_read.values()) > recorded.job_count // 2
    assert found[0].row_count == 1
