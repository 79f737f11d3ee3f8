from datetime import UTC, date, datetime
from pathlib import Path

import alembic.command
import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from ckptd.store import database_errors, revisions, schema
from ckptd.store.all_tables import METADATA
from ckptd.store.engine import StoreError, begin, create_engine
from ckptd.store.store import Store
from support.examples import FACTOR


def test_the_migrations_make_the_tables_that_the_program_knows(upgraded_engine):
    with begin(upgraded_engine, is_writer=False) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_a_database_of_any_earlier_revision_is_upgraded(empty_engine):
    for revision in revisions.list_revisions():
        schema.upgrade(empty_engine, revision)
        assert schema.read_revision(empty_engine) == revision
    schema.upgrade(empty_engine)
    assert schema.read_revision(empty_engine) == revisions.list_revisions()[-1]


@pytest.mark.parametrize("revision", revisions.list_revisions()[:: max(1, 12 // FACTOR)])
def test_a_database_of_an_early_revision_is_upgraded_at_once(empty_engine, revision):
    schema.upgrade(empty_engine, revision)
    schema.upgrade(empty_engine)
    assert schema.read_revision(empty_engine) == revisions.list_revisions()[-1]


def test_no_statement_of_a_migration_is_limited_on_postgresql(postgresql_url):
    engine = create_engine(postgresql_url)
    schema.upgrade(engine, revisions.list_revisions()[-2])
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE limits (value text)")
        connection.execute(
            "CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql"
            " AS $$ BEGIN INSERT INTO limits VALUES (current_setting('statement_timeout')); END $$"
        )
        connection.execute("CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION note()")
        schema.upgrade(engine)
        assert connection.execute("SELECT DISTINCT value FROM limits").fetchall() == [("0",)]
        connection.execute("DROP EVENT TRIGGER note")
    engine.dispose()


RENAMED_BY = {
    "0021": {
        "clusters": {"unseen_since": "backfill_since", "unseen_until": "backfill_until"},
        "runs": {"keep_wishes": "retention_settings", "wishes": "user_settings"},
        "jobs": {"is_awaiting_look": "is_awaiting_scan"},
        "attempts": {},
        "losses": {"is_settled": "is_final", "lost_most_seconds": "lost_high_seconds"},
        "flags": {"tells": "audience"},
    },
    "0022": {
        "clusters": {},
        "runs": {"room": "free_space_samples", "quota_trouble": "quota_error"},
        "jobs": {},
        "attempts": {},
        "checkpoints": {"gone_at": "deleted_at"},
        "notices": {"trouble": "last_error"},
    },
}
FILLINGS = {
    bool: True,
    int: 1,
    float: 7.5,
    str: "1",
    datetime: datetime(2026, 1, 2, tzinfo=UTC),
    date: date(2026, 1, 2),
}


def _find_tables(connection, names):
    """Return the tables with the columns that they have now."""
    found = sa.MetaData()
    found.reflect(connection, only=list(names))
    return {name: found.tables[name] for name in names}


def _fill(connection, table):
    """Insert a row with a value in every column."""
    row = {column.name: FILLINGS[column.type.python_type] for column in table.columns}
    connection.execute(table.insert(), row)


def _read(connection, table):
    return connection.execute(sa.select(table)).mappings().one()


@pytest.mark.parametrize(("before", "revision"), [("0020", "0021"), ("0021", "0022")])
def test_renamed_columns_keep_their_values_and_the_others_their_names(empty_engine, before, revision):
    schema.upgrade(empty_engine, before)
    with begin(empty_engine, is_writer=True) as connection:
        tables = _find_tables(connection, RENAMED_BY[revision])
        for table in tables.values():
            _fill(connection, table)
        rows = {name: _read(connection, table) for name, table in tables.items()}
    schema.upgrade(empty_engine, revision)
    with begin(empty_engine, is_writer=False) as connection:
        tables = _find_tables(connection, RENAMED_BY[revision])
        for name, renamed in RENAMED_BY[revision].items():
            expected = {renamed.get(column, column): value for column, value in rows[name].items()}
            assert _read(connection, tables[name]) == expected
            assert renamed.keys() <= rows[name].keys()


def test_an_upgrade_of_what_is_current_changes_nothing(upgraded_engine):
    before = schema.read_revision(upgraded_engine)
    schema.upgrade(upgraded_engine)
    assert schema.read_revision(upgraded_engine) == before


def test_a_database_newer_than_the_program_is_refused_in_one_sentence(empty_engine, empty_database_url):
    with begin(empty_engine, is_writer=True) as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('9999')")
    with pytest.raises(database_errors.SchemaError, match="revision 9999, which is newer than this ckptd") as caught:
        Store.open(empty_database_url, upgrade=True)
    assert "\n" not in str(caught.value)


def test_a_database_older_than_the_program_is_refused_unless_it_may_be_upgraded(empty_engine, empty_database_url):
    schema.upgrade(empty_engine, "0003")
    with pytest.raises(database_errors.SchemaError, match="is at the older revision 0003: run `ckptd db upgrade`"):
        Store.open(empty_database_url)
    Store.open(empty_database_url, upgrade=True).close()


def test_an_empty_database_is_refused_unless_it_may_be_upgraded(empty_database_url):
    url = sa.make_url(empty_database_url)
    if url.get_backend_name() == "sqlite":
        Path(url.database).touch()
    with pytest.raises(database_errors.SchemaError, match="has no tables yet: run `ckptd db upgrade`"):
        Store.open(empty_database_url)


@pytest.mark.parametrize("address", ["", "nonsense", "mysql://localhost/x", "sqlite:///proc/no/such/record.db"])
def test_an_address_that_cannot_work_is_refused_in_one_sentence(address):
    with pytest.raises(StoreError) as caught:
        Store.open(address, upgrade=True)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_down_is_one_sentence_too():
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/none failed: connection failed"):
        Store.open("postgresql://ckptd@127.0.0.1:1/none")


def test_a_database_in_trouble_is_named_by_its_address_without_what_is_secret():
    address = "postgresql://ckptd:geheim@127.0.0.1:1/none?sslpassword=geheim2"
    with pytest.raises(StoreError) as caught:
        Store.open(address)
    assert "postgresql+psycopg://ckptd:***@127.0.0.1:1/none" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_folder_that_cannot_be_read_is_named():
    with pytest.raises(StoreError, match=r"sqlite:////proc/no/such/record\.db .*unable to open database file"):
        Store.open("sqlite:////proc/no/such/record.db", upgrade=True)


def test_sqlite_survives_a_killed_process_and_a_power_cut(tmp_path):
    database = create_engine(f"sqlite:///{tmp_path}/record.db")
    with begin(database, is_writer=True) as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert pragmas == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    database.dispose()


def test_a_new_file_of_sqlite_is_for_its_owner_alone(tmp_path):
    Store.open(f"sqlite:///{tmp_path}/ckptd.sqlite3", upgrade=True).close()
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("ckptd.sqlite3*")}
    assert modes == {0o600}


def test_a_database_that_is_up_to_date_is_left_alone(tmp_path, monkeypatch):
    """A daemon that only starts again loads nothing that changes tables."""
    url = f"sqlite:///{tmp_path}/ckptd.sqlite3"
    Store.open(url, upgrade=True).close()
    monkeypatch.setattr(alembic.command, "upgrade", lambda *_: pytest.fail("upgraded"))
    Store.open(url, upgrade=True).close()
