"""The console command: one file for each group of commands."""

import importlib
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Listed(NamedTuple):
    """A command as `ckptd --help` lists it: the file that holds it, and the first sentence of its own help."""

    module: str
    help: str


COMMANDS = {
    "advise": Listed(
        "show", "Say how often a run should save, by Daly's formula, from what was measured of it and of its cluster."
    ),
    "config": Listed("config", "Check the configuration, show what is in force, print an example."),
    "db": Listed("db", "Upgrade or check the database."),
    "flags": Listed("runs", "List open flags with their evidence and advice; the exit status is 1 where there is one."),
    "inspect": Listed("inspect", "Recognise and check checkpoints."),
    "jobs": Listed("runs", "List the jobs that have started: time left, newest checkpoint, epoch, restarts, flags."),
    "mail": Listed("mail", "Try the way that mail takes."),
    "manual": Listed("manual", "Print the man page: ckptd manual > /usr/local/share/man/man1/ckptd.1"),
    "once": Listed(
        "daemon",
        "Do one cycle, send the mail that is due and print the report; once a day let go of what ended long ago.",
    ),
    "pin": Listed("retention", "Keep the checkpoint at PATH, or with a file at PATH, whatever the policies say."),
    "plan": Listed("retention", "Show what pruning would do, and why, for each checkpoint."),
    "prune": Listed(
        "prune", "Move aside exactly what a plan says, and nothing if anything has changed since it was printed."
    ),
    "run": Listed("daemon", "Run the daemon in the foreground until SIGTERM; SIGHUP reads the configuration anew."),
    "show": Listed("show", "Show one job or run: attempts and what they lost, checkpoints, flags, forecast, advice."),
    "status": Listed(
        "status",
        "Say whether the daemon is alive and how old its last looks are; the exit status is 1 where it is not well.",
    ),
    "trash": Listed("trash", "List, bring back or delete what was moved aside."),
    "unpin": Listed("retention", "Leave the checkpoint at PATH to the policies again."),
}


class Commands(click.Group):
    """Import a command's module only when the command is used, so that other commands start fast."""

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
def main(config: Path | None) -> None:
    """Monitor the checkpoints and remaining time of the jobs on a Slurm cluster."""
