"""A PostgreSQL whose database has settings of its own."""

import psycopg
import pytest

from ckptd.store.database_errors import DatabaseAwayError, StoreError
from ckptd.store.light_reader import open_reader
from ckptd.store.store import Store
from support.queue_facts import CLUSTER, at


@pytest.fixture
def setting(postgresql_record):
    """Set something for the new sessions of a database; return its address."""
    name = postgresql_record.rpartition("/")[2]
    with psycopg.connect(postgresql_record, autocommit=True) as connection:

        def change(text):
            connection.execute(f"ALTER DATABASE {name} SET {text}")
            return postgresql_record

        yield change
        connection.execute(f"ALTER DATABASE {name} RESET ALL")


@pytest.mark.parametrize(
    "text", ["datestyle = 'SQL, DMY'", "timezone = 'Asia/Kathmandu'", "default_transaction_isolation = 'serializable'"]
)
def test_instants_are_read_whatever_the_database_sets(setting, text):
    address = setting(text)
    store = Store.open(address)
    store.clusters.record_poll(CLUSTER, at(7))
    assert [each.polled_at for each in store.clusters.read_status()] == [at(7)]
    store.close()
    reader = open_reader(address)
    with reader.begin() as select:
        assert select("SELECT polled_at FROM clusters", {}).fetchone()[0] == at(7)
    reader.close()


def test_a_database_that_is_read_only_for_now_is_one_that_may_answer_later(setting):
    store = Store.open(setting("default_transaction_read_only = on"))
    with pytest.raises(DatabaseAwayError, match="read-only transaction"):
        store.clusters.record_poll(CLUSTER, at(7))
    store.close()


def test_an_error_quotes_no_statement(postgresql_record):
    store = Store.open(postgresql_record)
    with (
        pytest.raises(StoreError, match=r'failed: relation "nowhere" does not exist: restore .* empty tables$'),
        store.database.reading() as sql,
    ):
        sql.exec_driver_sql("SELECT 1 FROM nowhere")
    store.close()
    reader = open_reader(postgresql_record)
    with (
        pytest.raises(StoreError, match=r'as it should: relation "nowhere" does not exist$'),
        reader.begin() as select,
    ):
        select("SELECT 1 FROM nowhere", {})
    reader.close()
