"""PostgreSQL must be able to store the names of all users' jobs."""

import psycopg
import pytest

from ckptd.store import database_probe
from ckptd.store.database_errors import WrongDatabaseError
from ckptd.store.light_reader import open_reader
from ckptd.store.store import Store


@pytest.fixture
def make(postgresql_server, postgresql_record):
    """Make a database of an encoding; return its address."""
    made = []

    def make_one(encoding):
        name = f"in_{encoding.lower()}"
        with psycopg.connect(postgresql_record, autocommit=True) as connection:
            locale = "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' {locale}")
        made.append(postgresql_record.replace(postgresql_record.rpartition("/")[2], name))
        return made[-1]

    yield make_one
    for address in made:
        postgresql_server.drop_database(address)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_name_is_refused_with_what_to_do(make, encoding):
    address = make(encoding)
    with pytest.raises(WrongDatabaseError, match=f"its encoding is {encoding}, .* ENCODING 'UTF8'"):
        Store.open(address, upgrade=True)
    assert f"its encoding is {encoding}" in database_probe.probe(address, None).unsuitable


def test_the_encoding_of_the_environment_does_not_matter(monkeypatch, postgresql_record):
    with monkeypatch.context() as environment:
        environment.setenv("PGCLIENTENCODING", "SQL_ASCII")
        assert database_probe.probe(postgresql_record, None).unsuitable is None
        Store.open(postgresql_record, upgrade=True).close()
        open_reader(postgresql_record).close()
