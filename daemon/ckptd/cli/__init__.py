"""The console command: one file for each group of commands."""

import importlib
from pathlib import Path

import click

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMANDS = {  # and the file that holds each
    "run": "daemon",
    "once": "daemon",
    "status": "daemon",
    "jobs": "runs",
    "show": "show",
    "advise": "show",
    "flags": "runs",
    "inspect": "inspect",
    "plan": "retention",
    "prune": "prune",
    "pin": "retention",
    "unpin": "retention",
    "trash": "trash",
    "config": "config",
    "db": "db",
    "mail": "mail",
    "manual": "manual",
}


class Commands(click.Group):
    """Import a command's module only when the command is used, so that other commands start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(importlib.import_module(f"ckptd.cli.{COMMANDS[cmd_name]}"), cmd_name)
        return found


@click.group(cls=Commands, context_settings=CONTEXT)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Read FILE instead of /etc/ckptd/config.toml."
)
@click.version_option(package_name="ckptd")
def main(config: Path | None) -> None:
    """Monitor the checkpoints and remaining time of the jobs on a Slurm cluster."""
