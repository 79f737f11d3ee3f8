"""Open the database and read the settings for commands that only read, without SQLAlchemy and pydantic."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from ckptd.cli.output import EXIT_USAGE
from ckptd.config.listing_settings import ListingSettings, read_listing_settings
from ckptd.config.margin_settings import read_margins
from ckptd.config.raw_tables import ConfigError
from ckptd.core.forecast.limit_margins import FindMargins
from ckptd.service.password_file import read_password
from ckptd.store.light_reader import LightReader, open_reader

SettingsT = TypeVar("SettingsT")


def load_settings(context: click.Context) -> ListingSettings:
    """Read the configuration named by --config; exit with its errors if it is invalid."""
    return read_named_file(context, read_listing_settings)


def load_margins(context: click.Context) -> FindMargins:
    """Read the margins that the health rules keep before a time limit; exit with the configuration's errors."""
    return read_named_file(context, read_margins)


def read_named_file(context: click.Context, read: Callable[[Path | None, Mapping[str, str]], SettingsT]) -> SettingsT:
    """Read settings from the file named by --config; exit with its errors if it is invalid."""
    path: Path | None = context.find_root().params.get("config")
    try:
        return read(path, os.environ)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_USAGE) from error


@contextmanager
def open_record(settings: ListingSettings) -> Iterator[LightReader]:
    """Open the daemon's database for reading; never change its tables."""
    password = read_password(settings.password_file) if settings.password_file else None
    reader = open_reader(settings.database_url, password)
    try:
        yield reader
    finally:
        reader.close()
