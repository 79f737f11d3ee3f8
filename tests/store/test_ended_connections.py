"""Connections that PostgreSQL ends while a transaction runs: the error is explained, and the next one works."""

import pytest

from ckptd.store.database_errors import DatabaseAwayError, StoreError
from ckptd.store.engine import begin, create_engine, select_through


@pytest.fixture
def engine(postgresql_url):
    engine = create_engine(postgresql_url)
    yield engine
    engine.dispose()


def select(engine, statement, values):
    with begin(engine, is_writer=False) as connection:
        return list(select_through(connection)(statement, values))


@pytest.mark.parametrize("is_writer", [False, True])
def test_a_connection_that_the_server_ends_is_explained_and_not_used_again(engine, is_writer):
    ended = []

    def read_and_be_ended():
        with begin(engine, is_writer=is_writer) as connection:
            read = select_through(connection)
            ended.extend(row[0] for row in read("SELECT pg_backend_pid()", {}))
            select(engine, "SELECT pg_terminate_backend(:number, 10000)", {"number": ended[0]})
            read("SELECT 1", {})

    with pytest.raises(DatabaseAwayError, match="terminating connection"):
        read_and_be_ended()
    assert select(engine, "SELECT pg_backend_pid()", {}) != [(ended[0],)]


def test_a_statement_that_fails_leaves_a_connection_that_works(engine):
    with pytest.raises(StoreError, match="failed: division by zero"):
        select(engine, "SELECT 1 / :number", {"number": 0})
    assert select(engine, "SELECT :number + 1", {"number": 1}) == [(2,)]
