"""ckptd works through a real PgBouncer in transaction mode, which keeps no state of a session between transactions."""

import subprocess
import threading
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa

from ckptd.store.engine import begin, create_engine
from ckptd.store.light_reader import open_reader
from ckptd.store.store import Store
from demo.patience import allow
from support.mail_server import wait_until
from support.pgbouncer import PgBouncer
from support.real_daemon import RealDaemon

SETTINGS = (
    "TimeZone",
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "jit",
    "random_page_cost",
)
SHOWN = ["UTC", "10s", "2min", "2min", "off", "1.1"]
POOL_SIZE = 5
SAY_TROUBLE = {"flags", "status"}  # with their exit status
POLLED = "ckptd_last_poll_timestamp_seconds"


@pytest.fixture(scope="module")
def pgbouncer(postgresql_server):
    made = PgBouncer(postgresql_server)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def address(pgbouncer, postgresql_url):
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        name = postgresql_url.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")
    return pgbouncer.route(postgresql_url)


@pytest.fixture
def migrated_address(pgbouncer, postgresql_record):
    return pgbouncer.route(postgresql_record)


def test_migrations_a_cycle_of_the_daemon_and_commands_run_through_it(address, tmp_path):
    daemon = RealDaemon(tmp_path / "daemon", address)

    def run(*words):
        done = subprocess.run([*daemon.argv, *words], capture_output=True, text=True, timeout=allow(60), check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    done = run("db", "upgrade")
    assert done.returncode == 0, done.stderr
    daemon.start()
    try:
        wait_until(lambda: daemon.is_leader, 60)
        wait_until(lambda: daemon.read_metric(POLLED), 60)
        first = daemon.read_metric(POLLED)
        wait_until(lambda: daemon.read_metric(POLLED) >= first + 2 * POOL_SIZE, 60)
        for words in (("jobs",), ("flags", "--all"), ("status",), ("plan",), ("report",)):
            done = run(*words)
            assert done.returncode == 0 or words[0] in SAY_TROUBLE, (words, done.stderr)
            assert done.stdout
        assert "PostgreSQL" in run("doctor").stdout
        done = run("db", "backup", str(tmp_path / "saved"))
        assert done.returncode == 0, done.stderr
    finally:
        daemon.process.terminate()
        code = daemon.process.wait(allow(30))
    assert code == 0
    log = daemon.read_log()
    assert not [line for line in log.splitlines() if "database" in line and "failed" in line], log


def test_the_lease_is_taken_over_through_it(migrated_address, tmp_path):
    first, second = (RealDaemon(tmp_path / name, migrated_address) for name in ("first", "second"))
    first.start()
    try:
        wait_until(lambda: first.is_leader, 60)
        second.start()
        wait_until(lambda: second.is_leader is False, 60)
        first.kill()
        wait_until(lambda: second.is_leader, 30)
    finally:
        for each in (first, second):
            if hasattr(each, "process"):
                each.kill()


def test_no_statement_is_prepared_in_a_session_of_the_server(migrated_address, postgresql_record):
    store = Store.open(migrated_address)
    with closing(open_reader(migrated_address)) as reader:
        for _ in range(4 * POOL_SIZE):
            store.leases.read("c1")
            with reader.begin() as select:
                select("SELECT count(*) FROM flags WHERE id > :least", {"least": 3})
    store.close()


@pytest.mark.parametrize("is_writer", [True, False])
def test_each_transaction_has_the_limits_and_leaves_none_in_the_session(address, is_writer):
    database = create_engine(address)
    shown = [sa.text(f"SELECT current_setting('{name}')") for name in SETTINGS]
    with begin(database, is_writer=is_writer) as connection:
        assert [connection.scalar(each) for each in shown] == SHOWN
        instant = connection.scalar(sa.text("SELECT timestamptz '2026-01-01 00:00:00+00'"))
        assert instant.isoformat() == "2026-01-01T00:00:00+00:00"
    database.dispose()
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as other:  # gets the same session
        for _ in range(POOL_SIZE):
            (zone, limit) = other.execute(
                "SELECT current_setting('TimeZone'), current_setting('lock_timeout')"
            ).fetchone()
            assert (zone, limit) == ("Asia/Tokyo", "0")


def test_a_light_reader_has_the_limits_in_each_of_its_transactions(migrated_address):
    with closing(open_reader(migrated_address)) as reader:
        for _ in range(POOL_SIZE):
            with reader.begin() as select:
                (row,) = select(
                    "SELECT current_setting('TimeZone'), current_setting('statement_timeout'),"
                    " current_setting('transaction_read_only'), current_setting('transaction_isolation')",
                    {},
                )
            assert tuple(row) == ("UTC", "2min", "on", "repeatable read")


def test_two_daemons_that_migrate_at_once_through_it_wait_for_one_another(address):
    failures = []

    def migrate():
        try:
            Store.open(address, upgrade=True).close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(allow(60))
    assert failures == []
    Store.open(address).close()
