"""Load the complete configuration, for commands that need more than the database address."""

import os
from pathlib import Path

import click

from ckptd.cli.command import print_error
from ckptd.cli.output import EXIT_USAGE
from ckptd.config import Config, ConfigError, read_config


def load_config(context: click.Context) -> Config:
    """Read the configuration named by --config; exit with its errors if it is invalid."""
    path: Path | None = context.find_root().params.get("config")
    try:
        return read_config(path, os.environ)
    except ConfigError as error:
        print_error(str(error))
        raise SystemExit(EXIT_USAGE) from error
