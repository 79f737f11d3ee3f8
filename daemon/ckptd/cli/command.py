"""Error handling and --config for every command. Imports nothing slow."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import click

from ckptd.errors import CkptdError

Arguments = ParamSpec("Arguments")


def friendly(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Print a CkptdError as one sentence and exit with its status.

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
            print_error(f"ckptd: {error}")
            raise SystemExit(error.exit_status) from error

    return wrapped


def print_error(text: str) -> None:
    """Print an error to stderr, with its priority where that is systemd's journal; see sd-daemon(3)."""
    if "JOURNAL_STREAM" in os.environ:
        from ckptd.service.log_output import is_journal  # noqa: PLC0415 - commands of people need none of it

        if is_journal(sys.stderr, os.environ):
            text = "\n".join(f"<3>{line}" for line in text.splitlines())
    click.echo(text, err=True)


def _store_config_path(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.find_root().params["config"] = path
