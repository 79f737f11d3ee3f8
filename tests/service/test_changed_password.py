"""A daemon's connections to PostgreSQL after an administrator has changed its password."""

import psycopg
import pytest
from psycopg import sql

from ckptd.config import Config
from ckptd.service.open_database import open_store
from ckptd.store.database_errors import DatabaseAwayError
from support.queue_facts import CLUSTER, at


@pytest.fixture
def role(postgresql_url):
    """A role that owns a database of its own, with the password `first`."""
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE rotated LOGIN PASSWORD 'first'")
        connection.execute("GRANT ALL ON SCHEMA public TO rotated")
        yield connection
        connection.execute("DROP OWNED BY rotated")
        connection.execute("DROP ROLE rotated")


def change_password(connection, password):
    connection.execute(sql.SQL("ALTER ROLE rotated PASSWORD {}").format(sql.Literal(password)))
    connection.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'rotated'")


def test_a_changed_password_is_read_from_its_file_for_the_next_connection(role, postgresql_url, tmp_path):
    file = tmp_path / "password"
    file.write_text("first\n")
    url = f"postgresql://rotated@{postgresql_url.partition('@')[2]}"
    store = open_store(Config.model_validate({"store": {"url": url, "password_file": file}}), is_upgraded=True)
    store.clusters.record_poll(CLUSTER, at(1))
    change_password(role, "second")
    with pytest.raises(DatabaseAwayError, match="password authentication failed"):
        store.clusters.record_poll(CLUSTER, at(2))
    file.write_text("")
    with pytest.raises(DatabaseAwayError, match=r"store\.password_file: .*password' is empty"):
        store.clusters.record_poll(CLUSTER, at(2))
    file.write_text("second\n")
    store.clusters.record_poll(CLUSTER, at(3))
    assert [each.polled_at for each in store.clusters.read_status()] == [at(3)]
    store.close()
