"""`ckptd db`: upgrade, check, back up, restore and copy the database."""

from pathlib import Path

import click

from ckptd.cli.command import friendly
from ckptd.cli.listing_record import load_settings, open_record


@click.group()
def db() -> None:
    """Upgrade, check, back up, restore or copy the database."""


@db.command()
@click.pass_context
@friendly
def upgrade(context: click.Context) -> None:
    """Upgrade the tables to this version of ckptd; safe to repeat."""
    from ckptd.cli.whole_config import load_config  # noqa: PLC0415 - `check` needs none of it
    from ckptd.service.open_database import make_state_directory, open_store  # noqa: PLC0415

    config = load_config(context)
    make_state_directory(config.state_directory)
    open_store(config, is_upgraded=True).close()
    click.echo("The database is up to date.")


@db.command()
@click.pass_context
@friendly
def check(context: click.Context) -> None:
    """Check whether the tables match this version of ckptd."""
    with open_record(load_settings(context)):
        click.echo("The database is up to date.")


@db.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.pass_context
@friendly
def backup(context: click.Context, path: Path) -> None:
    """Write the database to a new FILE while the daemon runs.

    FILE is a SQLite database, whichever kind of database the daemon uses. All its tables show the
    same moment.
    """
    from ckptd.cli.db_copies import back_up  # noqa: PLC0415 - `check` needs none of it

    back_up(load_settings(context), path)


@db.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.pass_context
@friendly
def restore(context: click.Context, path: Path) -> None:
    """Fill the configured database, which is empty, from a backup.

    Stop the daemon first. The tables are upgraded to this version of ckptd.
    """
    from ckptd.cli.db_copies import restore as restore_from  # noqa: PLC0415 - `check` needs none of it

    restore_from(load_settings(context), path)


@db.command()
@click.argument("url", metavar="URL")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the password of the new database, to keep it out of URL.",
)
@click.option("--online", "is_online", is_flag=True, help="Copy while the daemon runs; start no daemon on the copy.")
@click.pass_context
@friendly
def copy(context: click.Context, url: str, password_file: Path | None, is_online: bool) -> None:
    """Copy the database to the empty one at URL.

    URL is for example postgresql://ckptd@db.example.org/ckptd. The command compares the number of rows and a checksum
    of every table. Stop the daemon first; afterwards set store.url to URL.
    """
    from ckptd.cli.db_copies import copy as copy_to  # noqa: PLC0415 - `check` needs none of it

    copy_to(load_settings(context), url, password_file, is_online=is_online)
