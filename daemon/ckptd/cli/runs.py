"""`ckptd jobs` and `flags`: lists of what the record says."""

import sys
from datetime import UTC, datetime
from typing import Any

import click

from ckptd.cli import watch
from ckptd.cli.context import friendly, load_config, open_existing_store
from ckptd.cli.output import EXIT_TROUBLE, print_json, print_prose, print_table, safe
from ckptd.present import models


@click.command()
@click.option("--user", metavar="USER", help="Only this user's jobs.")
@click.option("--flagged", is_flag=True, help="Only jobs with an open flag.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(1, 3600),
    is_flag=False,
    flag_value=5.0,
    metavar="[SECONDS]",
    help="Show the list anew every 5 or SECONDS seconds until Ctrl-C, flagged jobs first; needs a terminal.",
)
@click.pass_context
@friendly
def jobs(context: click.Context, user: str | None, flagged: bool, is_json: bool, watch_seconds: float | None) -> None:
    """List the jobs that have started: time left, newest checkpoint, epoch, restarts, flags."""
    now = datetime.now(UTC)
    if watch_seconds is not None and (is_json or not sys.stdout.isatty()):
        raise click.UsageError("--watch needs a terminal, and goes without --json")
    with open_existing_store(load_config(context)) as store:
        if watch_seconds is not None:
            watch.show_jobs(lambda at: store.list_jobs(at, user=user, flagged_only=flagged), watch_seconds)
            return
        found = store.list_jobs(now, user=user, flagged_only=flagged)
        polled_at = max((each.polled_at for each in store.read_status() if each.polled_at), default=None)
    rows = [models.job_row(row, now) for row in found]
    if is_json:
        print_json({"jobs": rows, "polled_at": polled_at})
    else:
        print_table(
            watch.JOB_COLUMNS, [watch.job_cells(row) for row in rows], "No job that has started is in the queue."
        )


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Resolved flags, too.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def flags(context: click.Context, is_all: bool, is_json: bool) -> None:
    """List open flags with their evidence and advice; the exit status is 1 where there is one."""
    with open_existing_store(load_config(context)) as store:
        found = store.read_flags(include_resolved=is_all)
    rows = [models.flag_row(flag) for flag in found]
    if is_json:
        print_json({"flags": rows})
    elif sys.stdout.isatty() and rows:
        for row in rows:
            _print_flag(row)
    else:
        cells = [(row["severity"], row["rule"], row["job_id"], row["user"], row["run"], row["advice"]) for row in rows]
        print_table(("severity", "rule", "job", "user", "run", "advice"), cells, "No flag is open.")
    if any(row["resolved_at"] is None for row in rows):
        raise SystemExit(EXIT_TROUBLE)


def _print_flag(row: dict[str, Any]) -> None:
    """Print one flag for a terminal, where a table would leave its advice a narrow column."""
    over = ", over by now" if row["resolved_at"] else ""
    click.secho(safe(f"{row['severity']}: {row['rule']}, job {row['job_id']} of {row['user']}{over}"), bold=True)
    if row["run"].startswith("/"):
        print_prose(f"In {row['run']}:")
    print_prose(row["advice"])
