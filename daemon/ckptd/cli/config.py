"""`ckptd config`: check, show, example."""

import grp
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ckptd.cli.command import friendly
from ckptd.cli.output import EXIT_USAGE, print_json

if TYPE_CHECKING:  # --help needs none of it
    from ckptd.config import Config


@click.group()
def config() -> None:
    """Check the configuration, show it, or print an example."""


@config.command()
@click.option(
    "--live", "is_live", is_flag=True, help="Also check Slurm, database, mail and files, as `ckptd doctor` does."
)
@click.pass_context
@friendly
def check(context: click.Context, is_live: bool) -> None:
    """Check the configuration and the files that it names.

    The command prints all errors. If root runs it, it also checks whether the agent (the privileged process) can trust
    the file, and reads the other files as the service's account.
    """
    if is_live:
        from ckptd.cli.doctor_report import print_report  # noqa: PLC0415 - --help needs none of it

        print_report(context, is_json=False, timeout_seconds=60.0)
    from ckptd.config.raw_tables import DEFAULT_PATH, find_file  # noqa: PLC0415
    from ckptd.config.valid_sections import read_valid_sections  # noqa: PLC0415 - --help needs none of it
    from ckptd.service.accounts import has_account, list_unknown_denials  # noqa: PLC0415
    from ckptd.service.config_troubles import list_troubles  # noqa: PLC0415
    from ckptd.service.doctor.host_checks import read_unit_environment  # noqa: PLC0415

    path = context.find_root().params.get("config")
    variables = {**(read_unit_environment() if os.geteuid() == 0 else {}), **os.environ}  # as the daemon has them
    config, errors = read_valid_sections(path, variables)
    is_root, user = os.geteuid() == 0, config.service.user
    troubles = [*errors, *_become_service(config, path, is_user_known=user is not None and has_account(user))]
    troubles += list_troubles(config, is_service=is_root)
    for text in list_unknown_denials(config):
        click.echo(f"warning: {text}", err=True)
    for trouble in troubles:
        click.echo(trouble, err=True)
    if troubles:
        raise SystemExit(EXIT_USAGE)
    if find_file(path) is None:
        click.echo(f"There is no {DEFAULT_PATH}: all settings have their defaults.")
    click.echo("The configuration is valid.")


def _become_service(config: "Config", path: Path | None, *, is_user_known: bool) -> list[str]:
    """As root, check what the agent reads, then become the service's account for the files that follow."""
    from ckptd.config import ConfigError, find_file  # noqa: PLC0415 - --help needs none of it
    from ckptd.service.privileges import drop_root  # noqa: PLC0415
    from ckptd.service.trusted_file import check_trusted  # noqa: PLC0415

    if os.geteuid() != 0:
        return []
    troubles = []
    chosen = find_file(path)
    if chosen is not None and not chosen.exists():
        chosen = None
    if chosen is not None:
        try:
            check_trusted(chosen)
        except ConfigError as error:
            troubles.append(str(error))
    if config.service.user and is_user_known:
        drop_root(config.service.user)
        if chosen is not None and not os.access(chosen, os.R_OK):
            troubles.append(f"{chosen}: the account {config.service.user} {_explain_unreadable(chosen)}")
    return troubles


def _explain_unreadable(path: Path) -> str:
    """Return what keeps this process from a file, and the remedy."""
    closed = next((each for each in reversed(path.absolute().parents) if not os.access(each, os.X_OK)), None)
    if closed is not None:
        return f"may not enter {closed}, so a reload fails: let it enter, or move the file"
    try:
        group = grp.getgrgid(os.getgid()).gr_name
    except KeyError:
        group = str(os.getgid())
    return f"cannot read it, so a reload fails: chgrp {group} {path} && chmod g+r {path}"


@config.command()
@click.pass_context
@friendly
def show(context: click.Context) -> None:
    """Print the effective configuration, including defaults, as JSON."""
    from ckptd.cli.whole_config import load_config  # noqa: PLC0415 - --help needs none of it

    print_json(load_config(context).model_dump(mode="json"))


@config.command()
def example() -> None:
    """Print an example configuration that explains every setting."""
    from ckptd.config import format_example  # noqa: PLC0415 - --help needs none of it

    click.echo(format_example(), nl=False)
