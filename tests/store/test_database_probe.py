"""What `ckptd doctor` learns from PostgreSQL about a role with limits or with too few rights."""

import psycopg
import pytest

from ckptd.store.database_errors import StoreError
from ckptd.store.database_probe import probe


@pytest.fixture
def database(postgresql_url):
    """A connection as superuser to a database with one table that a further role may use; `probed` is its address."""
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE limited LOGIN PASSWORD 'secret'")
        connection.execute("CREATE TABLE leases ()")
        connection.execute("GRANT ALL ON leases TO limited")
        yield connection
        connection.execute("DROP OWNED BY limited")
        connection.execute("DROP ROLE limited")


@pytest.fixture
def address(database):
    at = database.info
    return f"postgresql://limited:secret@127.0.0.1:{at.port}/{at.dbname}"


def test_the_limits_of_the_role_and_of_the_database_count_as_well_as_those_of_the_server(database, address):
    of_server = probe(address, None).free_connections
    assert of_server > 8
    with psycopg.connect(database.info.dsn, password=database.info.password):
        assert probe(address, None).free_connections == of_server - 1, "sessions of other roles count, too"
    database.execute("ALTER ROLE limited CONNECTION LIMIT 8")
    assert probe(address, None).free_connections == 7, "one is the probe's own"
    database.execute(f"ALTER DATABASE {database.info.dbname} CONNECTION LIMIT 5")
    assert probe(address, None).free_connections == 3, "another one is the superuser's"
    database.execute("ALTER ROLE limited SUPERUSER CONNECTION LIMIT 1")
    assert probe(address, None).free_connections == 3, "a superuser has no limit of its own"


@pytest.mark.parametrize("right", ["SELECT", "INSERT", "UPDATE", "DELETE"])
def test_a_role_that_lacks_one_right_on_a_table_cannot_write(database, address, right):
    assert probe(address, None).trouble is None
    database.execute(f"REVOKE {right} ON leases FROM limited")
    assert probe(address, None).trouble == "the role limited lacks rights on the tables or the schema"


def test_a_statement_that_the_server_refuses_is_explained(database, address):
    database.execute("REVOKE EXECUTE ON FUNCTION pg_is_in_recovery() FROM public")
    with pytest.raises(StoreError, match=r"as it should: permission denied for function pg_is_in_recovery$"):
        probe(address, None)
