"""Carries out `ckptd db backup`, `restore` and `copy`, and says what was copied."""

from pathlib import Path

import click

from ckptd.cli.output import format_size, print_table, safe
from ckptd.config.listing_settings import ListingSettings
from ckptd.service import database_copies
from ckptd.service.open_database import add_password


def back_up(settings: ListingSettings, path: Path) -> None:
    """Write a backup, and print its size."""
    database_copies.back_up(add_password(settings.database_url, settings.password_file), path.absolute())
    click.echo(f"{safe(path)}: {format_size(path.stat().st_size)}. To restore it, run `ckptd db restore FILE`.")


def restore(settings: ListingSettings, path: Path) -> None:
    """Restore a backup."""
    database_copies.restore(path.absolute(), add_password(settings.database_url, settings.password_file))
    click.echo("The database is restored. Before you start the daemon, run `ckptd trash scan` if it has pruned since.")


def copy(settings: ListingSettings, url: str, password_file: Path | None, *, is_online: bool) -> None:
    """Copy the database, and print the number of rows of each table."""
    source = add_password(settings.database_url, settings.password_file)
    tables = database_copies.copy(source, add_password(url, password_file, "--password-file"), is_online=is_online)
    rows = [(table.name, table.row_count, f"{table.checksum:032x}") for table in tables]
    print_table(("table", "rows", "checksum of both"), rows, "There are no tables.")
    use = (
        "Start no daemon on this copy: the other one goes on."
        if is_online
        else "Set store.url and password_file to the new database, then start the daemon."
    )
    click.echo(f"All tables are equal. {use}")
