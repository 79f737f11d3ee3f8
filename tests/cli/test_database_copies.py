"""`ckptd db backup`, `restore` and `copy`: what is in the copy, and what is refused."""

import shutil
import sqlite3
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from ckptd import cli
from ckptd.core.leadership.lease import RUN
from ckptd.service.lease_keeper import LeaseKeeper
from ckptd.store import row_copies, schema
from ckptd.store.all_tables import METADATA
from ckptd.store.engine import create_engine
from ckptd.store.store import Store
from demo.patience import allow
from support.filled_records import fill_once
from support.migrated import get_template, open_record
from support.queue_facts import CLUSTER
from web import samples


@pytest.fixture
def filled_url(database_url):
    """A database of each kind with hostile names in it."""
    return fill_once(database_url, samples.fill)


@pytest.fixture
def filled_sqlite(tmp_path):
    return fill_once(f"sqlite:///{tmp_path}/record.db", samples.fill)


def db(tmp_path, url, *words):
    config = tmp_path / "config.toml"
    config.write_text(f'[service]\nstate_directory = "{tmp_path}"\n[store]\nurl = "{url}"\n')
    return CliRunner().invoke(cli.main, ["--config", str(config), "db", *map(str, words)])


def read_rows(url):
    """Return all rows of all tables but leases, in an order that both databases share."""
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = {
            table.name: sorted(map(repr, connection.execute(sa.select(table))))
            for table in METADATA.sorted_tables
            if table.name not in {"leases", "standbys"}
        }
    engine.dispose()
    return rows


def make_target(tmp_path):
    """Return the address of a database that has its tables already."""
    shutil.copyfile(get_template(), tmp_path / "copy.db")
    return f"sqlite:///{tmp_path}/copy.db"


@contextmanager
def lease_of_a_daemon(url):
    with closing(Store.open(url)) as store:
        keeper = LeaseKeeper(store, CLUSTER, RUN)
        term = keeper.try_take()
        keeper.keep(term)
        yield
        keeper.release(term)


def test_a_backup_restored_into_an_empty_database_is_the_same(filled_url, tmp_path):
    before = read_rows(filled_url)
    saved = tmp_path / "saved.sqlite3"
    done = db(tmp_path, filled_url, "backup", saved)
    assert done.exit_code == 0, done.output
    assert f"{saved}: " in done.stdout
    assert saved.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("saved.sqlite3[-.]*")), "one file is the whole backup"
    target = f"sqlite:///{tmp_path}/new/ckptd.sqlite3"
    (tmp_path / "new").mkdir()
    done = db(tmp_path, target, "restore", saved)
    assert done.exit_code == 0, done.output
    assert read_rows(target) == before
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["ckptd.sqlite3"], "nothing else is left"


def test_a_backup_is_restored_into_postgresql_and_numbers_go_on(tmp_path, filled_sqlite, postgresql_url):
    assert db(tmp_path, filled_sqlite, "backup", tmp_path / "saved").exit_code == 0
    done = db(tmp_path, postgresql_url, "restore", tmp_path / "saved")
    assert done.exit_code == 0, done.output
    assert read_rows(postgresql_url) == read_rows(filled_sqlite)
    with psycopg.connect(postgresql_url) as connection:
        (newest,) = connection.execute("SELECT max(id) FROM runs").fetchone()
        statement = (
            'INSERT INTO runs (cluster, uid, directory, directory_hash, "user", recorded_since, revision)'
            " SELECT name, 5, '/x', 'x', 'u', now(), 0 FROM clusters LIMIT 1 RETURNING id"
        )
        assert connection.execute(statement).fetchone() == (newest + 1,)
        connection.rollback()


def test_copy_compares_every_table_and_says_how_many_rows_there_are(filled_url, tmp_path, postgresql_server):
    target = f"sqlite:///{tmp_path}/copy.db"
    if filled_url.startswith("sqlite"):
        target = postgresql_server.create_database()
    done = db(tmp_path, filled_url, "copy", target)
    assert done.exit_code == 0, done.output
    before = read_rows(filled_url)
    assert read_rows(target) == before
    lines = dict(line.split("\t")[:2] for line in done.stdout.splitlines() if "\t" in line)
    assert {name: int(lines[name]) for name in before} == {name: len(rows) for name, rows in before.items()}
    assert "Set store.url" in done.stdout
    if target.startswith("sqlite"):
        assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600, "a record of all users' jobs"
    if target.startswith("postgresql"):
        assert target.split(":")[2].split("@")[0] not in done.output, "the password"
        postgresql_server.drop_database(target)


def test_no_transaction_of_the_source_waits_while_the_copy_is_compared(
    tmp_path, filled_sqlite, postgresql_url, monkeypatch
):
    assert db(tmp_path, filled_sqlite, "copy", postgresql_url).exit_code == 0
    waiting = []

    def read_slowly(*arguments):
        with psycopg.connect(postgresql_url) as connection:
            waiting.extend(connection.execute("SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"))
        return read_checksum(*arguments)

    read_checksum = row_copies._read_checksum
    monkeypatch.setattr(row_copies, "_read_checksum", read_slowly)
    assert db(tmp_path, postgresql_url, "backup", tmp_path / "backup.sqlite3").exit_code == 0
    assert waiting == [], "PostgreSQL ends one after two minutes, and the backup failed"


def test_a_difference_between_the_two_is_found_and_nothing_is_left_of_the_copy(tmp_path, filled_sqlite, postgresql_url):
    """A database that changes what it is given, as a trigger does here, holds no copy."""
    Store.open(postgresql_url, upgrade=True).close()
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.size_bytes := NEW.size_bytes + 1; RETURN NEW; END $$"
        )
        connection.execute("CREATE TRIGGER spoil BEFORE INSERT ON checkpoints FOR EACH ROW EXECUTE FUNCTION spoil()")
    done = db(tmp_path, filled_sqlite, "copy", postgresql_url)
    assert done.exit_code == 2
    assert "the table checkpoints differs after it was copied" in done.stderr
    assert not any(read_rows(postgresql_url).values())


@pytest.mark.parametrize("word", ["copy", "restore"])
def test_a_database_with_rows_is_no_target(filled_url, tmp_path, word):
    other = tmp_path / "other.db"
    shutil.copyfile(get_template(), other)
    before = read_rows(filled_url)
    if word == "copy":
        done = db(tmp_path, f"sqlite:///{other}", "copy", filled_url)
    else:
        done = db(tmp_path, filled_url, "restore", other)
    assert done.exit_code == 2
    assert "is not empty" in done.stderr
    assert read_rows(filled_url) == before


def test_a_daemon_that_acts_is_not_copied_away_from(filled_url, tmp_path):
    """What it does after the copy would be done again by the daemon on the copy."""
    with lease_of_a_daemon(filled_url):
        target = f"sqlite:///{tmp_path}/copy.db"
        done = db(tmp_path, filled_url, "copy", target)
        assert done.exit_code == 2
        assert "`ckptd run` on " in done.stderr
        assert "--online" in done.stderr
        assert not Path(tmp_path / "copy.db").exists()
        done = db(tmp_path, filled_url, "copy", "--online", target)
        assert done.exit_code == 0, done.output
        assert db(tmp_path, filled_url, "backup", tmp_path / "saved").exit_code == 0, "a backup needs no pause"
    copied = Store.open(target)
    lease = copied.leases.read(CLUSTER)
    copied.close()
    assert (lease.epoch, lease.holder) == (1, None), "the daemon does not act on the copy, and epochs never fall"


def test_a_restore_beside_a_daemon_is_refused_even_if_its_file_was_moved_away(tmp_path):
    url = f"sqlite:///{tmp_path}/ckptd.sqlite3"
    open_record(url).close()
    with lease_of_a_daemon(url):
        saved = tmp_path / "saved"
        assert db(tmp_path, url, "backup", saved).exit_code == 0
        for path in tmp_path.glob("ckptd.sqlite3*"):
            if not path.name.endswith(".lock"):
                path.unlink()
        done = db(tmp_path, url, "restore", saved)
        assert done.exit_code == 2
        assert "a daemon still uses" in done.stderr
    assert db(tmp_path, url, "restore", saved).exit_code == 0


def test_a_backup_while_a_daemon_writes_is_one_moment_of_it(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    open_record(url).close()
    stop = threading.Event()

    def write():
        """Add two clusters in one transaction, again and again."""
        connection = sqlite3.connect(tmp_path / "record.db", isolation_level=None, timeout=allow(10))
        number = 0
        while not stop.is_set():
            connection.execute("BEGIN IMMEDIATE")
            for side in "ab":
                connection.execute("INSERT INTO clusters (name) VALUES (?)", (f"{side}{number}",))
            connection.execute("COMMIT")
            number += 1
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            assert db(tmp_path, url, "backup", tmp_path / f"saved{number}").exit_code == 0
    finally:
        stop.set()
        writer.join()
    counts = []
    for number in range(5):
        with sqlite3.connect(tmp_path / f"saved{number}") as saved:
            counts.append(saved.execute("SELECT count(*) FROM clusters").fetchone()[0])
        saved.close()
    assert all(count % 2 == 0 for count in counts)
    assert counts[-1] > 0


def test_an_existing_file_is_never_replaced(tmp_path, database_url):
    saved = tmp_path / "saved"
    saved.write_text("something else")
    done = db(tmp_path, database_url, "backup", saved)
    assert done.exit_code == 2
    assert "exists already" in done.stderr
    assert saved.read_text() == "something else"


@pytest.mark.parametrize("content", ["", "no database", None])
def test_a_file_that_is_no_backup_is_refused_before_anything_is_made(tmp_path, content):
    saved = tmp_path / "saved"
    if content is None:
        with sqlite3.connect(saved) as foreign:
            foreign.execute("CREATE TABLE recipes (name TEXT)")
        foreign.close()
    else:
        saved.write_text(content)
    done = db(tmp_path, f"sqlite:///{tmp_path}/new.db", "restore", saved)
    assert done.exit_code == 2
    assert str(saved) in done.stderr
    assert not list(tmp_path.glob("new.db*"))


def test_a_damaged_database_gives_no_backup(tmp_path, filled_sqlite):
    with (tmp_path / "record.db").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 4)
    done = db(tmp_path, filled_sqlite, "backup", tmp_path / "saved")
    assert done.exit_code == 2
    assert "damaged" in done.stderr
    assert not list(tmp_path.glob("saved*"))


def test_a_backup_of_an_older_version_is_upgraded_when_it_is_restored(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    engine = create_engine(url)
    schema.upgrade(engine, "0023")
    engine.dispose()
    assert db(tmp_path, url, "backup", tmp_path / "saved").exit_code == 0
    target = f"sqlite:///{tmp_path}/new.db"
    assert db(tmp_path, target, "restore", tmp_path / "saved").exit_code == 0
    assert db(tmp_path, target, "check").exit_code == 0


def test_the_lease_of_a_daemon_that_was_killed_does_not_stop_a_copy(tmp_path):
    url = f"sqlite:///{tmp_path}/record.db"
    store = open_record(url)
    lease = store.leases.read(CLUSTER)
    store.leases.take(CLUSTER, lease, LeaseKeeper(store, CLUSTER, RUN).holder, datetime.now(UTC))
    store.close()
    done = db(tmp_path, url, "copy", make_target(tmp_path))
    assert done.exit_code == 0, done.output


def test_a_copy_beside_a_daemon_is_said_to_be_for_no_daemon(filled_url, tmp_path):
    done = db(tmp_path, filled_url, "copy", "--online", make_target(tmp_path))
    assert done.exit_code == 0, done.output
    assert "Start no daemon on this copy" in done.stdout
    assert "Set store.url" not in done.stdout


@pytest.mark.parametrize("target", ["sqlite://", "sqlite:///:memory:"])
def test_a_copy_into_memory_is_refused(filled_sqlite, tmp_path, target):
    done = db(tmp_path, filled_sqlite, "copy", target)
    assert done.exit_code == 2
    assert "the URL names no file" in done.stderr


def test_a_password_file_is_named_by_the_option_that_gave_it(filled_url, tmp_path):
    (tmp_path / "empty").touch()
    for name, reason in (("none", "No such file"), ("empty", "is empty")):
        done = db(tmp_path, filled_url, "copy", "postgresql://u@localhost/d", "--password-file", tmp_path / name)
        assert done.exit_code == 2
        assert done.stderr.startswith("ckptd: --password-file: ")
        assert reason in done.stderr


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_what_is_left_of_a_database_that_was_moved_away_is_not_mixed_with_a_restored_one(
    tmp_path, filled_sqlite, ending
):
    """SQLite would apply such a log to the new file, and bring back or destroy rows."""
    assert db(tmp_path, filled_sqlite, "backup", tmp_path / "backup.db").exit_code == 0
    for file in tmp_path.glob("record.db*"):
        file.rename(tmp_path / file.name.replace("record", "away"))
    left = tmp_path / f"record.db{ending}"
    left.write_bytes(b"of the old one")
    done = db(tmp_path, filled_sqlite, "restore", tmp_path / "backup.db")
    assert done.exit_code == 2
    assert f"{left}: left of a database that was moved away" in done.stderr
    assert not (tmp_path / "record.db").exists()
    left.unlink()
    done = db(tmp_path, filled_sqlite, "restore", tmp_path / "backup.db")
    assert done.exit_code == 0, done.stderr
