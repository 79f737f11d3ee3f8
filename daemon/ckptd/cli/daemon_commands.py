"""`ckptd run` and `ckptd once`: the daemon's steps, continuously or once."""

import signal
import threading

import click

from ckptd.cli.command import friendly

_log_format = click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json", "journal"]),
    default="auto",
    help="Write the log as text, as JSON lines, or to systemd's journal with fields; auto: the journal under systemd.",
)


@click.command()
@_log_format
@click.pass_context
@friendly
def run(context: click.Context, log_format: str) -> None:
    """Run the daemon in the foreground.

    SIGTERM stops it, SIGHUP reloads the configuration.
    """
    reload_asked = threading.Event()
    signal.signal(signal.SIGHUP, lambda _number, _frame: reload_asked.set())  # else it would end a start of seconds
    from ckptd.cli.daemon_runs import run_daemon  # noqa: PLC0415 - --help needs none of it

    run_daemon(context, log_format, reload_asked)


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print the report as JSON.")
@_log_format
@click.pass_context
@friendly
def once(context: click.Context, is_json: bool, log_format: str) -> None:
    """Poll, scan, evaluate the rules and send due mail once.

    Prints a report at the end. It takes no actions on jobs and prunes nothing. Once a day it also deletes expired
    records. It is refused while a daemon runs for the cluster.

    The exit status is 1 if a flag is open, Slurm does not answer, or a message could not be sent.
    """
    from ckptd.cli.daemon_runs import run_steps_once  # noqa: PLC0415 - --help needs none of it

    run_steps_once(context, log_format, is_json=is_json)
