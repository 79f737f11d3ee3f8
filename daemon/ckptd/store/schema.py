"""Upgrades a database's tables to this version, and refuses a newer database.

Alembic is configured here, without an alembic.ini. It is imported only to change tables, so that commands that read
them start fast.
"""

import contextlib
import os

import sqlalchemy as sa

from ckptd.store import revisions, server_encoding
from ckptd.store.database_errors import WrongDatabaseError
from ckptd.store.engine import begin, name_database

_MIGRATION_LOCK = 0x636B707464  # "ckptd": two daemons that start at once on one PostgreSQL upgrade it one after another


def read_revision(engine: sa.Engine) -> str | None:
    """Return the database's revision; None for an empty database."""
    with begin(engine, is_writer=False) as connection:
        return _read_revision(connection)


def check(engine: sa.Engine) -> None:
    """Check that the database is at this version's revision.

    Raises:
        SchemaError: the database is missing, empty, older or newer; the text says what to do.

    """
    if _is_file(engine):
        with contextlib.suppress(OSError):  # SQLite says what is wrong with the directory
            revisions.require_file(str(engine.url.database))
    revisions.require_newest(read_revision(engine))


def upgrade(engine: sa.Engine, revision: str = "head") -> None:
    """Upgrade the database to a revision, completely or not at all.

    Raises:
        SchemaError: the database is newer than this version.
        WrongDatabaseError: its encoding cannot hold what users write.

    """
    _make_private(engine)
    _require_unicode(engine)
    if revision == "head" and read_revision(engine) == revisions.list_revisions()[-1]:
        return
    import alembic.command  # noqa: PLC0415 - see above
    import alembic.config  # noqa: PLC0415

    with begin(engine, is_writer=True) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            # to change a table of a year takes minutes, and a try that is cut off would be repeated for ever
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        revisions.refuse_newer(_read_revision(connection))
        config = alembic.config.Config()
        config.set_main_option("script_location", str(revisions.find_migrations()).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, revision)


def _require_unicode(engine: sa.Engine) -> None:
    if engine.dialect.name != "postgresql":
        return
    with begin(engine, is_writer=False) as connection:
        encoding = str(connection.exec_driver_sql(server_encoding.READ_ENCODING).scalar_one())
    if reason := server_encoding.explain(encoding):
        raise WrongDatabaseError(f"{name_database(engine.url)} cannot be used: {reason}")


def _make_private(engine: sa.Engine) -> None:
    """Create the file of SQLite, which names all users' jobs, for its owner alone.

    SQLite takes an empty one for a new one.
    """
    if not _is_file(engine):
        return
    with contextlib.suppress(OSError):  # it is there, or SQLite will say why it cannot be
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(str(engine.url.database), flags, 0o600))


def _is_file(engine: sa.Engine) -> bool:
    return engine.dialect.name == "sqlite" and engine.url.database not in {None, "", ":memory:"}


def _read_revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version = sa.table("alembic_version", sa.column("version_num", sa.String))
    return connection.scalar(sa.select(version.c.version_num))
