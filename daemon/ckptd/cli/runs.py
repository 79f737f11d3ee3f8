"""`ckptd jobs` and `ckptd flags`: list jobs and flags from the database."""

import sys
from datetime import UTC, datetime
from typing import Any

import click

from ckptd.cli import watch
from ckptd.cli.context import friendly, load_config, open_existing_store
from ckptd.cli.output import EXIT_TROUBLE, print_json, print_prose, print_table, safe
from ckptd.present import models


@click.command()
@click.option("--user", metavar="USER", help="Show only jobs of USER.")
@click.option("--flagged", is_flag=True, help="Show only jobs with an open flag.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--watch",
    "watch_seconds",
    type=click.FloatRange(1, 3600),
    is_flag=False,
    flag_value=5.0,
    metavar="[SECONDS]",
    help="Refresh the list every SECONDS seconds (default 5), flagged jobs first, until Ctrl-C. Needs a terminal.",
)
@click.pass_context
@friendly
def jobs(context: click.Context, user: str | None, flagged: bool, is_json: bool, watch_seconds: float | None) -> None:
    """List started jobs with time left, newest checkpoint, epoch, restarts and flags."""
    now = datetime.now(UTC)
    if watch_seconds is not None and (is_json or not sys.stdout.isatty()):
        raise click.UsageError("--watch needs a terminal and cannot be combined with --json")
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
        print_table(watch.JOB_COLUMNS, [watch.job_cells(row) for row in rows], "The queue contains no started job.")


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Also show resolved flags.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def flags(context: click.Context, is_all: bool, is_json: bool) -> None:
    """List open flags with their evidence and advice; the exit status is 1 if there are any."""
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
        print_table(("severity", "rule", "job", "user", "run", "advice"), cells, "No open flags.")
    if any(row["resolved_at"] is None for row in rows):
        raise SystemExit(EXIT_TROUBLE)


def _print_flag(row: dict[str, Any]) -> None:
    """Print one flag on a terminal, where a table would squeeze the advice into a narrow column."""
    over = ", resolved" if row["resolved_at"] else ""
    click.secho(safe(f"{row['severity']}: {row['rule']}, job {row['job_id']} of {row['user']}{over}"), bold=True)
    if row["run"].startswith("/"):
        print_prose(f"In {row['run']}:")
    print_prose(row["advice"])
