"""A PostgreSQL database that was replaced while a process acts under a lease in it."""

import re

import psycopg
import pytest

from ckptd.core.leadership.lease import LeaseHolder
from ckptd.store import continuity
from ckptd.store.continuity import Continuity
from ckptd.store.database_errors import DatabaseReplacedError, StoreError
from ckptd.store.store import Store
from core.histories import at

HOLDER = LeaseHolder(instance="a", program="run", host="host", pid=7, version="1")


class Acting:
    """A process that acts for a cluster, in a database of its own."""

    def __init__(self, address):
        self.store = Store.open(address)
        self.continuity = Continuity()
        epoch = self.store.leases.take("c1", self.store.leases.read("c1"), HOLDER, at(0), self.continuity)
        self._fenced = self.store.with_lease("c1", epoch, self.continuity)
        self._epoch = epoch

    def renew(self):
        return self.store.leases.renew("c1", self._epoch, at(1), self.continuity)

    def write(self):
        self._fenced.clusters.record_poll("c1", at(1))


@pytest.fixture
def address(postgresql_server, postgresql_record):
    made = postgresql_server.create_database(like=postgresql_record)
    yield made
    postgresql_server.drop_database(made)


@pytest.fixture
def acting(address):
    acting = Acting(address)
    acting.write()
    assert acting.renew()
    yield acting
    acting.store.close()


def refuses_all(acting):
    for work in (acting.write, acting.renew):
        with pytest.raises(DatabaseReplacedError, match="restored from a copy, or another server"):
            work()


def test_a_database_that_was_restored_from_a_copy_is_written_no_more(acting, address, postgresql_server):
    acting.store.close()
    copy = postgresql_server.create_database(like=address)
    postgresql_server.replace_database(address, copy)
    refuses_all(acting)


def test_tables_that_were_created_again_are_written_no_more(acting):
    with acting.store.database.writing() as connection:
        for statement in (
            "CREATE TABLE kept AS TABLE leases",
            "DROP TABLE leases",
            "ALTER TABLE kept RENAME TO leases",
        ):
            connection.exec_driver_sql(statement)
    refuses_all(acting)


def test_rows_that_went_back_in_time_are_written_no_more(acting):
    assert acting.renew()
    acting.write()
    with acting.store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE leases SET renewal = renewal - 1")
    refuses_all(acting)


def test_a_server_that_was_only_restarted_is_still_the_same(acting, postgresql_server):
    postgresql_server.halt()
    postgresql_server.resume()
    acting.store.close()
    acting.write()
    assert acting.renew()


def test_a_promoted_server_is_written_no_more(acting, postgresql_server):
    postgresql_server.begin_timeline()
    acting.store.close()
    refuses_all(acting)


def test_a_server_that_hides_its_timeline_is_used(address, monkeypatch):
    monkeypatch.setattr(continuity, "_TIMELINE", "no_such_function()")
    acting = Acting(address)
    acting.write()
    assert acting.renew()
    acting.store.close()


def test_a_role_that_may_not_list_databases_acts_and_takes_over(address):
    """Hosts of many customers' databases hide their names; what a session sees of itself is not hidden."""
    name = f"hidden_{address.rpartition('/')[2]}"
    with psycopg.connect(address, autocommit=True) as administrator:
        administrator.execute("REVOKE SELECT ON pg_database FROM PUBLIC")
        administrator.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
        administrator.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
        try:
            for _ in range(2):  # the second takes the lease of the first, which has not released it
                acting = Acting(re.sub("//.*@", f"//{name}:x@", address))
                acting.write()
                assert acting.renew()
                acting.store.close()
        finally:
            administrator.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_tables_whose_storage_is_rewritten_are_still_the_same(acting, address):
    with psycopg.connect(address, autocommit=True) as administrator:
        for statement in ("VACUUM FULL leases", "CLUSTER leases USING pk_leases", "REINDEX TABLE leases"):
            administrator.execute(statement)
            acting.write()
            assert acting.renew()


def test_a_database_without_tables_says_what_to_do(acting):
    with acting.store.database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE leases")
    with pytest.raises(StoreError, match='"leases" does not exist: restore the database from a backup, or restart'):
        acting.write()
