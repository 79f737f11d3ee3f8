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


GROUPS = {
    "Jobs and checkpoints": {
        "advise": ListedCommand("show", "Recommend a checkpoint interval for a run, by Daly's formula."),
        "flags": ListedCommand("listing_commands", "List open flags, the problems that ckptd found."),
        "inspect": ListedCommand("inspect", "Recognise and check checkpoints."),
        "jobs": ListedCommand("listing_commands", "List the started jobs, their time left and newest checkpoint."),
        "newest": ListedCommand("newest", "Print the path of the newest complete checkpoint below DIR."),
        "report": ListedCommand("report", "Add up the lost work of ended jobs."),
        "resumed": ListedCommand("resumed", "Record in a job that it resumes from the checkpoint at PATH."),
        "show": ListedCommand("show", "Show all that ckptd knows about one job or run."),
        "verify": ListedCommand("verify", "Read every byte of checkpoints, and record which are complete."),
    },
    "Retention": {
        "pin": ListedCommand("retention_commands", "Keep the checkpoint at PATH, whatever the policies say."),
        "plan": ListedCommand("retention_commands", "Show what pruning would keep and remove, and why."),
        "prune": ListedCommand("prune", "Move the checkpoints that a plan removes to the trash."),
        "trash": ListedCommand("trash", "List, restore or delete checkpoints in the trash."),
        "unpin": ListedCommand("retention_commands", "Undo `ckptd pin` for the checkpoint at PATH."),
    },
    "The daemon": {
        "config": ListedCommand("config", "Check the configuration, show it, or print an example."),
        "db": ListedCommand("db", "Upgrade, check, back up, restore or copy the database."),
        "doctor": ListedCommand("doctor", "Check the configuration, accounts, Slurm, database, mail and files."),
        "mail": ListedCommand("mail", "Test the delivery of mail."),
        "manual": ListedCommand("manual", "Print the man page."),
        "once": ListedCommand("daemon_commands", "Poll, scan, evaluate the rules and send due mail once."),
        "run": ListedCommand("daemon_commands", "Run the daemon in the foreground."),
        "status": ListedCommand("status", "Show whether the daemon is running and up to date."),
    },
}
COMMANDS = {name: each for group in GROUPS.values() for name, each in group.items()}


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands of each group by their help lines alone, which no terminal of 80 columns cuts."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), each.help) for name, each in group.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options as click does, by the commands' help lines alone."""
        found = [
            CompletionItem(name, help=each.help)
            for name, each in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


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
