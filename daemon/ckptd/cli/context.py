"""What every command that needs the daemon's configuration shares."""

import functools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec

import click

from ckptd.cli.output import EXIT_USAGE
from ckptd.config import Config, ConfigError, read_config
from ckptd.core.model import RunKey
from ckptd.errors import CkptdError
from ckptd.service.open_database import open_store
from ckptd.store.store import Store

Arguments = ParamSpec("Arguments")
_JOB = re.compile("(?P<job>[0-9]{1,18})(_(?P<task>[0-9]{1,18})|[+][0-9]{1,4})?")  # as a database's integer holds


def load_config(context: click.Context) -> Config:
    """Read the configuration named by --config; exit with its errors if it is invalid."""
    path: Path | None = context.find_root().params.get("config")
    try:
        return read_config(path, os.environ)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_USAGE) from error


def find_runs(store: Store, name: str, cluster: str | None = None) -> tuple[RunKey, ...]:
    """Return the runs named by JOB|PATH: a job id, an array task (`12_3`) or a directory.

    A component of a heterogeneous job (`12+1`) names the whole job, because components are recorded together.
    """
    if found := _JOB.fullmatch(name):
        task = found["task"]
        return store.find_runs_of_job(int(found["job"]), cluster, None if task is None else int(task))
    return store.find_runs_at(os.path.realpath(name), cluster)


@contextmanager
def open_existing_store(config: Config) -> Iterator[Store]:
    """Open the daemon's database without upgrading its tables."""
    store = open_store(config, is_upgraded=False)
    try:
        yield store
    finally:
        store.close()


def _note_config(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.find_root().params["config"] = path


def friendly(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Print a CkptdError as one sentence and exit with status 2.

    Also add --config to the command, so that the option works before and after the command's name.
    """

    @click.option(
        "--config", "_", type=click.Path(path_type=Path), expose_value=False, hidden=True, callback=_note_config
    )
    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CkptdError as error:
            click.echo(f"ckptd: {error}", err=True)
            raise SystemExit(EXIT_USAGE) from error

    return wrapped
