"""Brings a database to the tables that this program knows, and refuses one that is newer.

Alembic is configured here: there is no alembic.ini to find or to forget. It is imported where tables change, and not
for every command that reads them.
"""

from pathlib import Path

import sqlalchemy as sa

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
    """Return the known revisions, oldest first: the numbers with which their files' names begin."""
    return sorted(path.name.partition("_")[0] for path in (find_migrations() / "versions").glob("[0-9]*_*.py"))


def read_revision(engine: sa.Engine) -> str | None:
    """Return the database's revision, None for an empty database."""
    with begin(engine, is_writer=False) as connection:
        return _read_revision(connection)


def check(engine: sa.Engine) -> None:
    """Make sure that the database is at this program's revision.

    Raises:
        SchemaError: it is empty, older or newer, and what to do.

    """
    found = read_revision(engine)
    _refuse_newer(found)
    if found != list_revisions()[-1]:
        state = "has no tables yet" if found is None else f"is at the older revision {found}"
        raise SchemaError(f"the database {state}: run `ckptd db upgrade`")


def upgrade(engine: sa.Engine, revision: str = "head") -> None:
    """Bring the database to a revision, all of it or nothing.

    Raises:
        SchemaError: the database is newer than this program.

    """
    import alembic.command  # noqa: PLC0415 - see above
    import alembic.config  # noqa: PLC0415

    with begin(engine, is_writer=True) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        _refuse_newer(_read_revision(connection))
        config = alembic.config.Config()
        config.set_main_option("script_location", str(find_migrations()).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, revision)


def _read_revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version = sa.table("alembic_version", sa.column("version_num", sa.String))
    return connection.scalar(sa.select(version.c.version_num))


def _refuse_newer(found: str | None) -> None:
    if found is not None and found not in list_revisions():
        raise SchemaError(
            f"the database is at revision {found}, which is newer than this ckptd {ckptd.__version__}: "
            "install the ckptd that made it"
        )
