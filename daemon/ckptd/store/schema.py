"""Brings a database to the tables that this program knows, and refuses one that is newer.

Alembic is configured here: there is no alembic.ini to find or to forget.
"""

from pathlib import Path

import alembic.command
import alembic.config
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

import ckptd
from ckptd.store.engine import StoreError, begin

_MIGRATION_LOCK = 0x636B707464  # "ckptd": two daemons that start at once on one PostgreSQL upgrade it one after another


class SchemaError(StoreError):
    """The database's tables are not those that this ckptd works with; the text says what to do."""


def find_migrations() -> Path:
    """Return the migrations' folder: inside an installed package, else beside `daemon/` in a checkout."""
    package = Path(ckptd.__file__).parent
    for folder in (package / "migrations", package.parent.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise SchemaError("this installation of ckptd lacks its migrations: install it again")


def list_revisions() -> list[str]:
    """Return the known revisions, oldest first."""
    return [script.revision for script in reversed(list(_scripts().walk_revisions()))]


def read_revision(engine: sa.Engine) -> str | None:
    """Return the database's revision, None for an empty database."""
    with begin(engine, is_writer=False) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def check(engine: sa.Engine) -> None:
    """Make sure that the database is at this program's revision.

    Raises:
        SchemaError: it is empty, older or newer, and what to do.

    """
    found = read_revision(engine)
    _refuse_newer(found)
    if found != _scripts().get_current_head():
        state = "has no tables yet" if found is None else f"is at the older revision {found}"
        raise SchemaError(f"the database {state}: run `ckptd db upgrade`")


def upgrade(engine: sa.Engine, revision: str = "head") -> None:
    """Bring the database to a revision, all of it or nothing.

    Raises:
        SchemaError: the database is newer than this program.

    """
    with begin(engine, is_writer=True) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        _refuse_newer(MigrationContext.configure(connection).get_current_revision())
        config = _config()
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, revision)


def _refuse_newer(found: str | None) -> None:
    if found is not None and found not in list_revisions():
        raise SchemaError(
            f"the database is at revision {found}, which is newer than this ckptd {ckptd.__version__}: "
            "install the ckptd that made it"
        )


def _config() -> alembic.config.Config:
    config = alembic.config.Config()
    config.set_main_option("script_location", str(find_migrations()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
