"""Databases in PostgreSQL in which ckptd cannot make its tables: each error says what to do."""

import psycopg
import pytest

from ckptd.store import schema
from ckptd.store.database_errors import SchemaError, WrongDatabaseError
from ckptd.store.engine import create_engine

OWN = "give ckptd a database of its own, whose owner is the role in store.url"


@pytest.fixture
def upgrade(postgresql_url):
    """Return a function that runs a statement as superuser, and then upgrades as a role without rights."""
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE weak LOGIN PASSWORD 'weak'")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM public")  # as PostgreSQL 15 begins
        name = connection.info.dbname

        def run(statement):
            connection.execute(statement.format(name=name))
            engine = create_engine(f"postgresql://weak:weak@127.0.0.1:{connection.info.port}/{name}")
            try:
                schema.upgrade(engine)
            finally:
                engine.dispose()

        yield run
        connection.execute(f"ALTER DATABASE {name} OWNER TO current_user")
        connection.execute("DROP OWNED BY weak")
        connection.execute("DROP ROLE weak")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT 1", f"permission denied for schema public: {OWN}"),
        ("ALTER ROLE weak SET search_path = nowhere", f"of the role do not exist: create one, or {OWN}"),
        (
            "CREATE TABLE jobs (); GRANT ALL ON SCHEMA public TO weak",
            f'relation "jobs" already exists: it is of another program: {OWN}',
        ),
    ],
)
def test_a_role_that_cannot_make_the_tables_is_told_what_it_needs(upgrade, statement, reason):
    with pytest.raises(WrongDatabaseError) as caught:
        upgrade(statement)
    assert str(caught.value).endswith(reason)


def test_tables_of_another_program_are_not_taken_for_those_of_a_newer_ckptd(upgrade):
    with pytest.raises(SchemaError, match="another program, at its revision 1975ea83b712: give ckptd a database of"):
        upgrade(
            "CREATE TABLE alembic_version (version_num text); INSERT INTO alembic_version VALUES ('1975ea83b712');"
            " GRANT ALL ON alembic_version TO weak"
        )


def test_the_owner_of_a_database_can_make_the_tables(upgrade):
    upgrade("ALTER DATABASE {name} OWNER TO weak")
