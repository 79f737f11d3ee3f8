"""`ckptd jobs`, `show` and `flags`: what the record says."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ckptd.cli import watch
from ckptd.cli.context import friendly, load_config, open_existing_store
from ckptd.cli.output import EXIT_TROUBLE, format_duration, format_size, print_json, print_table, safe
from ckptd.core import views
from ckptd.errors import CkptdError

MAX_JOB_DIGITS = 18  # what a database's integer holds


class NotFoundError(CkptdError):
    """No job or run of that name is on record."""


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
    rows = [views.job_row(row, now) for row in found]
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
    rows = [views.flag_row(flag) for flag in found]
    if is_json:
        print_json({"flags": rows})
    else:
        cells = [(row["severity"], row["rule"], row["job_id"], row["user"], row["run"], row["advice"]) for row in rows]
        print_table(("severity", "rule", "job", "user", "run", "advice"), cells, "No flag is open.")
    if any(row["resolved_at"] is None for row in rows):
        raise SystemExit(EXIT_TROUBLE)


@click.command()
@click.argument("name", metavar="JOB|PATH")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
@friendly
def show(context: click.Context, name: str, is_json: bool) -> None:
    """Show one job or run: attempts, checkpoints, flags, forecast."""
    now = datetime.now(UTC)
    with open_existing_store(load_config(context)) as store:
        is_job = name.isdecimal() and len(name) <= MAX_JOB_DIGITS
        keys = store.find_runs_of_job(int(name)) if is_job else store.find_runs_at(os.path.realpath(name))
        histories = [history for key in keys for history in store.read_histories(key.cluster, [key])]
        if not histories:
            raise NotFoundError(f"no job or run {name!r} is on record")
        every = store.read_flags(include_resolved=True)
        found = [
            views.run_view(
                history,
                [flag for flag in every if flag.finding.run == history.key],
                now,
                store.read_losses(history.key),
            )
            | {"acts": views.act_rows(store.read_audit(history.key.cluster, run=history.key))}
            for history in histories
        ]
    if is_json:
        print_json({"runs": found})
        return
    for view in found:
        _print_run(view)


def _print_run(view: dict[str, Any]) -> None:
    click.secho(safe(f"{view['run']}  (cluster {view['cluster']}, user {view['user']})"), bold=True)
    for reason in view["trouble"]:
        prefix = "the last look could not see everything" if view["located_by"] else "the directory is not known"
        click.secho(f"{prefix}: {safe(reason)}", fg="yellow")
    for doubt in view["doubts"]:
        click.secho(safe(doubt), fg="yellow")
    if view["room"]["quota_trouble"]:
        click.secho(f"the quota is not known: {safe(view['room']['quota_trouble'])}", fg="yellow")
    attempts = [{**row, "lost": _duration(row["lost_seconds"])} for row in view["attempts"]]
    told = ("job_id", "restart_count", "kind", "state", "cause", "started_at", "ended_at", "lost")
    _print_rows(told, attempts, "No attempt is recorded.")
    checkpoints = [
        {**row, "checkpoint": row["path"].rpartition("/")[2], "fate": _fate(row)} for row in view["checkpoints"]
    ]
    columns = ("checkpoint", "format", "state", "epoch", "step", "fate", "reason")
    _print_rows(columns, checkpoints, "No checkpoint is recorded.")
    _print_rows(("severity", "rule", "job_id", "opened_at", "resolved_at"), view["flags"], "No flag was ever raised.")
    acts = [
        {**row, "checkpoint": row["target"].rpartition("/")[2], "why": "; ".join(row["reasons"])}
        for row in view["acts"]
    ]
    _print_rows(("begun_at", "actor", "action", "checkpoint", "outcome", "why"), acts, "No act is recorded.")
    forecast = view["forecast"]
    click.echo(f"saves every {_duration(forecast['interval_seconds'])}, taking {_duration(forecast['save_seconds'])}")
    if view["room"]["quota_left_bytes"] is not None:
        click.echo(f"{format_size(view['room']['quota_left_bytes'])} are left of the quota")
    for job_id, expected in forecast["at_limit"].items():
        if goal := expected["goal"]:
            click.echo(f"job {job_id} {_tell_goal(goal)}")


def _tell_goal(goal: dict[str, Any]) -> str:
    source = "as declared" if goal["is_declared"] else "as its checkpoints say"
    text = f"is at {goal['unit']} {goal['reached']:g} of {goal['goal']:g} ({source})"
    if goal["is_fitting"]:
        return f"{text}: it finishes before its limit"
    more = goal["more_jobs"]
    need = "no job of this length gets it further" if more is None else f"{more} more of this length are needed"
    return f"{text}: {goal['fits']} more {goal['unit']}s fit before its limit; {need}"


def _print_rows(columns: Sequence[str], rows: list[dict[str, Any]], empty: str) -> None:
    headings = [column.removesuffix("_at").replace("_", " ") for column in columns]
    print_table(headings, [[row[column] for column in columns] for row in rows], empty)


def _fate(row: dict[str, Any]) -> str:
    if row["pruned_at"]:
        return "pruned"
    if row["gone_at"]:
        return "gone"
    return "pinned" if row["is_pinned"] else "there"


def _duration(seconds: int | None) -> str:
    return format_duration(None if seconds is None else timedelta(seconds=seconds))
