"""Checks the database as the service's account: driver, server, tables, and whether it can be written to."""

from collections.abc import Iterator

from ckptd.config import Config
from ckptd.errors import CkptdError
from ckptd.service.doctor.findings import CheckResult, error, ok, warning
from ckptd.service.password_file import read_password
from ckptd.store import database_probe, sqlite_access
from ckptd.store.database_errors import SchemaError, WrongDatabaseError
from ckptd.store.light_reader import open_reader

_CONNECTIONS = 12  # that one daemon and its status page open at most


def check_database(config: Config) -> Iterator[CheckResult]:
    """Check that the daemon could work with its database."""
    password = read_password(config.store.password_file) if config.store.password_file else None
    try:
        probe = database_probe.probe(config.database_url, password)
    except WrongDatabaseError as failure:
        yield error(str(failure), sqlite_access.RESTORE)
        return
    except CkptdError as failure:
        is_file = config.database_url.startswith("sqlite")
        advice = "let this account write to the file and to its directory, or correct store.url"
        yield error(str(failure), advice if is_file else "check store.url, store.password_file and the server")
        return
    if probe is None:
        yield ok("the database does not exist yet: the daemon creates it at its start")
        return
    yield ok(f"{probe.server} answers")
    if probe.unsuitable:
        yield error(f"the database cannot be used: {probe.unsuitable}", "set store.url to another database")
    try:
        open_reader(config.database_url, password).close()
        yield ok("the tables match this version")
    except SchemaError as failure:
        if config.store.upgrade == "on-start" and "`ckptd db upgrade`" in str(failure):
            yield ok(f"{str(failure).partition(':')[0]}: the daemon upgrades it at its start")
        else:
            yield error(str(failure), "see the message")
    if probe.trouble:
        yield error(f"this account cannot write to the database: {probe.trouble}", "correct its owner or its rights")
    else:
        yield ok("this account can write to the database")
    if probe.free_connections is not None and probe.free_connections < _CONNECTIONS:
        yield warning(
            f"the server accepts only {probe.free_connections} more connections; a daemon opens up to {_CONNECTIONS}",
            "raise max_connections and the CONNECTION LIMIT of the role and of the database, or put PgBouncer in front",
        )
