"""`ckptd db`: upgrade and check the database's tables."""

import click

from ckptd.cli.command import friendly
from ckptd.cli.listing_record import load_settings, open_record


@click.group()
def db() -> None:
    """Upgrade or check the database."""


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
