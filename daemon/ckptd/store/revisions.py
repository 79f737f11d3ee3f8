"""Lists the schema revisions that this version knows, from the file names of its migrations, without importing them."""

import os
from pathlib import Path

import ckptd
from ckptd.store.database_errors import SchemaError


def find_migrations() -> Path:
    """Return the folder of migrations: in an installed package, otherwise beside `daemon/` in a checkout."""
    package = Path(ckptd.__file__).parent
    for folder in (package / "migrations", package.parent.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise SchemaError("this installation of ckptd lacks its migrations: install it again")


def list_revisions() -> list[str]:
    """Return the known revisions, oldest first: the numbers at the beginning of the file names."""
    return sorted(path.name.partition("_")[0] for path in (find_migrations() / "versions").glob("[0-9]*_*.py"))


def require_file(path: str) -> None:
    """Check that a SQLite database exists: SQLite would make an empty one, which all users can read.

    Raises:
        SchemaError: there is none; the text says what to do.
        OSError: that cannot be determined.

    """
    try:
        os.stat(path)
    except FileNotFoundError as error:
        raise SchemaError(
            f"there is no {path}. If the daemon has run on this host, it uses another database: give its --config, or"
            " run this command as its account. To make an empty database here, run `ckptd db upgrade`"
        ) from error


def require_newest(found: str | None) -> None:
    """Check that a database's revision (None: empty) is the newest that this version knows.

    Raises:
        SchemaError: the database is empty, older or newer; the text says what to do.

    """
    refuse_newer(found)
    if found != list_revisions()[-1]:
        state = "has no tables yet" if found is None else f"is at the older revision {found}"
        raise SchemaError(f"the database {state}: run `ckptd db upgrade`")


def refuse_newer(found: str | None) -> None:
    """Check that this version knows a revision.

    Raises:
        SchemaError: the revision is newer, or that of another program.

    """
    if found is not None and found not in list_revisions():
        if not found.isdecimal():
            raise SchemaError(
                f"the database has tables of another program, at its revision {found}: give ckptd a database of its own"
            )
        from importlib.metadata import version  # noqa: PLC0415 - commands would wait for it at every start

        raise SchemaError(
            f"the database is at revision {found}, which is newer than this ckptd {version('ckptd')}: "
            "install the ckptd that made it"
        )
