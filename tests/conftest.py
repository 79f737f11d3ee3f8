"""Real servers that tests in several folders need. Each is private, on loopback, and gone when the tests end."""

import gc
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from ckptd.store.store import Store
from demo import ports
from demo.patience import allow
from support import file_order, shared_statements, temporary_files
from support.examples import FACTOR
from support.migrated import get_template

# what starts often, as daemons in tests do, is not compiled each time, whatever this shell says
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

temporary_files.use_memory()
gc.set_threshold(20_000, 10, 1_000)  # while tests are collected, nothing goes through all that was made so far

settings.register_profile(
    "noisy", max_examples=40 * FACTOR, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("noisy")  # other tests run meanwhile
shared_statements.share()


def pytest_sessionstart(session):
    """Make the template in the first process: its workers take it, and one that a killed program made would stay."""
    if not session.config.option.collectonly:
        get_template()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: file_order.get_rank(item.path))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what tests consist of stays: no collection during a test goes through it
    gc.set_threshold(20_000, 10, 10)


POSTGRESQL_CONF = """
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 40
"""


class PostgreSQL:
    """A private PostgreSQL. It refuses root, so as root it runs as the package's user."""

    def __init__(self):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        assert found, "PostgreSQL is not installed: run `deploy/demo/install test`"
        self.programs = found[-1].parent
        self.folder = Path(tempfile.mkdtemp(prefix="ckptd-postgresql-"))
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        self.password = secrets.token_hex(16)
        self.port = ports.find_free_ports(1)[0]  # nobody takes it while the server is halted
        self._database_count = 0

    def start(self):
        secret = self.folder / "password"
        secret.write_text(self.password)
        if os.getuid() == 0:
            for path in (self.folder, secret):
                shutil.chown(path, self.user)
        self._run("initdb", "-U", "ckptd", "--auth=md5", f"--pwfile={secret}", "-E", "UTF8", "-N")
        with (self.folder / "data/postgresql.conf").open("a") as conf:
            conf.write(POSTGRESQL_CONF)
        self.resume()

    def resume(self):
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder}"
        self._run("pg_ctl", "start", "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options)

    def halt(self, mode="fast"):
        """Cut every session off and end the server; `immediate` may lose what was committed without a sync."""
        self._run("pg_ctl", "stop", "-w", "-m", mode)

    def begin_timeline(self):
        """Restart as a standby and promote it, as at a failover."""
        self.halt()
        signal = self.folder / "data/standby.signal"
        signal.touch()
        shutil.chown(signal, self.user)
        self.resume()
        self._run("pg_ctl", "promote", "-w", "-t", "60")

    def stop(self):
        if (self.folder / "data/postmaster.pid").exists():
            self.halt("immediate")
        shutil.rmtree(self.folder)

    def create_database(self, like="template1"):
        """Make a database, empty or with the tables of another; return its address."""
        self._database_count += 1
        name = f"test_{self._database_count}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like.rpartition('/')[2]}")
        return self._address(name)

    def drop_database(self, address):
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {address.rpartition('/')[2]} WITH (FORCE)")

    def replace_database(self, address, copy):
        """Put a database in the place of another one, and cut its sessions off."""
        old, new = (each.rpartition("/")[2] for each in (address, copy))
        self.drop_database(address)
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {new} RENAME TO {old}")

    def empty(self, address):
        """Remove every row of a database but its revision, and let its numbers begin anew; cut off who is left."""
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute("SET session_replication_role = replica")  # the order of the tables does not matter
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
            numbers = "SELECT sequencename FROM pg_sequences WHERE last_value IS NOT NULL"
            statements = [f"DELETE FROM {name}" for (name,) in connection.execute(tables)]
            statements += [f"ALTER SEQUENCE {name} RESTART" for (name,) in connection.execute(numbers)]
            connection.execute("; ".join(statements))

    def _address(self, name):
        return f"postgresql://ckptd:{self.password}@127.0.0.1:{self.port}/{name}"

    def _run(self, program, *arguments):
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid", self.user, "--regid", self.user, "--init-groups", *command]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server inherits it: a pipe would never end
            stderr=subprocess.DEVNULL,
            timeout=allow(90),
            check=False,
        )
        assert done.returncode == 0, f"{program} failed: {self._log()}"

    def _log(self):
        log = self.folder / "log"
        return log.read_text()[-2000:] if log.exists() else "no log"


@pytest.fixture(scope="session")
def postgresql_server():
    server = PostgreSQL()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgresql_tables(postgresql_server):
    address = postgresql_server.create_database()
    Store.open(address, upgrade=True).close()
    return address


@pytest.fixture
def postgresql_url(postgresql_server):
    address = postgresql_server.create_database()
    yield address
    postgresql_server.drop_database(address)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request, tmp_path):
    """An empty database of each kind that ckptd supports."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/record.db"
    return request.getfixturevalue("postgresql_url")


@pytest.fixture
def postgresql_record(postgresql_server, postgresql_tables):
    """A database with its tables on PostgreSQL, as the migrations made them: the same for every test, and empty."""
    yield postgresql_tables
    postgresql_server.empty(postgresql_tables)  # costs a tenth of a copy


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """A database with its tables, of each kind: a copy of one that the migrations made."""
    if request.param == "sqlite":
        shutil.copyfile(get_template(), tmp_path / "record.db")
        return f"sqlite:///{tmp_path}/record.db"
    return request.getfixturevalue("postgresql_record")
