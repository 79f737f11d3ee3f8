"""Error handling and --config for every command. Imports nothing slow."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import click

from ckptd.cli.output import EXIT_USAGE
from ckptd.errors import CkptdError

Arguments = ParamSpec("Arguments")


def friendly(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Print a CkptdError as one sentence and exit with status 2.

    Also add --config to the command, so that the option works before and after the command's name.
    """

    @click.option(
        "--config", "_", type=click.Path(path_type=Path), expose_value=False, hidden=True, callback=_store_config_path
    )
    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CkptdError as error:
            click.echo(f"ckptd: {error}", err=True)
            raise SystemExit(EXIT_USAGE) from error

    return wrapped


def _store_config_path(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.find_root().params["config"] = path
