"""The `ckptd` command: one file for each group of commands."""

import importlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from ckptd.cli.standard_output import check_output

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class ListedCommand(NamedTuple):
    """A command as `ckptd --help` lists it: the file that holds it, and the first sentence of its own help."""

    module: str
    help: str


COMMANDS = {
    "advise": ListedCommand("show", "Recommend a checkpoint interval for a run, by Daly's formula."),
    "config": ListedCommand("config", "Check the configuration, show it, or print an example."),
    "db": ListedCommand("db", "Upgrade, check, back up, restore or copy the database."),
    "doctor": ListedCommand(
        "doctor", "Check what ckptd depends on: configuration, accounts, Slurm, database, mail, files and mounts."
    ),
    "flags": ListedCommand("listing_commands", "List open flags, the problems that ckptd found."),
    "inspect": ListedCommand("inspect", "Recognise and check checkpoints."),
    "jobs": ListedCommand("listing_commands", "List the started jobs, their time left and newest checkpoint."),
    "mail": ListedCommand("mail", "Test the delivery of mail."),
    "manual": ListedCommand("manual", "Print the man page."),
    "newest": ListedCommand("newest", "Print the path of the newest complete checkpoint below DIR."),
    "once": ListedCommand("daemon_commands", "Poll, scan, evaluate the rules and send due mail once."),
    "pin": ListedCommand("retention_commands", "Keep the checkpoint at PATH, whatever the policies say."),
    "plan": ListedCommand("retention_commands", "Show what pruning would keep and remove, and why."),
    "prune": ListedCommand("prune", "Move the checkpoints that a plan removes to the trash."),
    "report": ListedCommand(
        "report", "Add up the lost work of ended jobs by user, account, partition, cause, rule or cluster."
    ),
    "resumed": ListedCommand("resumed", "Record in a job that it resumes from the checkpoint at PATH."),
    "run": ListedCommand("daemon_commands", "Run the daemon in the foreground."),
    "show": ListedCommand("show", "Show all that ckptd knows about one job or run."),
    "status": ListedCommand("status", "Show whether the daemon is running and up to date."),
    "trash": ListedCommand("trash", "List, restore or delete checkpoints in the trash."),
    "unpin": ListedCommand("retention_commands", "Undo `ckptd pin` for the checkpoint at PATH."),
    "verify": ListedCommand("verify", "Read every byte of recorded checkpoints, and record which are complete."),
}


class Commands(click.Group):
    """Import a command's module only when the command is used, so that other commands start fast."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with check_output():
            return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(importlib.import_module(f"ckptd.cli.{COMMANDS[cmd_name].module}"), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands as click does, by their help lines alone."""
        _LISTED.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options as click does, by the commands' help lines alone."""
        found = [
            CompletionItem(name, help=command.get_short_help_str())
            for name, command in _LISTED.commands.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


_LISTED = click.Group(commands=[click.Command(name, help=each.help) for name, each in sorted(COMMANDS.items())])


@click.group(cls=Commands, context_settings=CONTEXT)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Read FILE instead of /etc/ckptd/config.toml."
)
@click.version_option(package_name="ckptd")
@click.pass_context
def main(context: click.Context, config: Path | None) -> None:  # noqa: ARG001 - commands read it from the context
    """Monitor the checkpoints and remaining time of the jobs on a Slurm cluster."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False  # of all commands: `echo` then prints no escapes; see https://no-color.org
