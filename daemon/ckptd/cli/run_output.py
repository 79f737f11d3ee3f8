"""Prints everything that the database has about one job or run."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from ckptd.cli.job_table import name_job
from ckptd.cli.output import (
    format_duration,
    format_second,
    format_size,
    print_flag_text,
    print_json,
    print_table,
    safe,
)
from ckptd.cli.run_views import read_named
from ckptd.core.model import CheckpointState
from ckptd.present import summaries
from ckptd.present.formatting import format_count, format_instant, format_progress
from ckptd.present.labels import fate_of, locator_of, name_run

if TYPE_CHECKING:  # these commands start without pydantic
    from ckptd.present.responses.run_documents import (
        AdviseDocument,
        CheckpointDocument,
        GoalDocument,
        ShowDocument,
        ShownRunDocument,
    )

_HEADINGS = {
    "actor": "by",
    "begun_at": "started (UTC)",
    "cause": "ended by",
    "completed_at": "completed (UTC)",
    "ended_at": "ended (UTC)",
    "fate": "on disk",
    "kind": "type",
    "lost": "work lost",
    "newest_saved_at": "newest saved (UTC)",
    "opened_at": "opened (UTC)",
    "resolved_at": "resolved (UTC)",
    "restart_count": "restart",
    "started_at": "started (UTC)",
    "why": "reason",
}
RESTARTS_SHOWN = 5  # the latest restarts, shown with what they resumed from
GONE_SHOWN = 5  # the newest of the deleted or replaced checkpoints


def print_runs(context: click.Context, name: str, asked: str | None, *, is_json: bool) -> None:
    """Print all that is recorded about the runs of a job or directory."""
    found = read_named(context, name, asked)
    if is_json:
        document: ShowDocument = {"runs": found}
        print_json(document)
        return
    for view in found:
        _print_run(view)


def print_advice(context: click.Context, name: str, asked: str | None, *, is_json: bool) -> None:
    """Print the recommended checkpoint interval of the runs of a job or directory."""
    found = read_named(context, name, asked)
    if is_json:
        document: AdviseDocument = {
            "runs": [
                {
                    "run": view["run"],
                    "cluster": view["cluster"],
                    "user": view["user"],
                    "advice": view["advice"],
                    "measured_interval_seconds": view["forecast"]["interval_seconds"],
                }
                for view in found
            ]
        }
        print_json(document)
        return
    for view in found:
        _print_title(view)
        _print_rhythm(view)


def _print_title(view: "ShownRunDocument") -> None:
    job = name_job(view["attempts"][-1]) if view["attempts"] else None
    source = f", directory from {locator_of(view['located_by'])}" if view["located_by"] else ""
    about = f"(cluster {view['cluster']}, user {view['user']}{source})"
    click.secho(safe(f"{name_run(view['run'], job)}  {about}"), bold=True)


def _print_doubts(view: "ShownRunDocument") -> None:
    for reason in view["scan_problems"]:
        prefix = "the last scan was incomplete" if view["located_by"] else "the checkpoint directory is unknown"
        click.secho(f"{prefix}: {safe(reason)}", fg="yellow")
    for witness in view["scan_witnesses"]:
        click.echo(f"the last scan was made on a node of a job: {safe(witness)}")
    if file := view["unrecognised"]:
        click.secho(safe(summaries.describe_unrecognised(file)), fg="yellow")
    for doubt in view["setting_warnings"]:
        click.secho(safe(doubt), fg="yellow")


def _print_run(view: "ShownRunDocument") -> None:
    _print_title(view)
    _print_doubts(view)
    _print_locations(view)
    if view["free_space"]["quota_error"]:
        click.secho(f"the quota is unknown: {safe(view['free_space']['quota_error'])}", fg="yellow")
    names: dict[int | None, object] = {row["job_id"]: name_job(row) for row in view["attempts"]}
    attempts = [{**row, "job_id": name_job(row), "lost": summaries.describe_loss(row)} for row in view["attempts"]]
    columns: tuple[str, ...] = ("job_id", "restart_count", "kind", "state", "cause", "started_at", "ended_at", "lost")
    if len({row["cluster"] for row in view["attempts"]}) > 1:
        columns = ("cluster", *columns)
    _print_rows(columns, attempts, "No attempts recorded.")
    _print_resumes(view)
    if view["earlier_attempt_count"]:
        click.echo(f"{format_count(view['earlier_attempt_count'], 'earlier attempt')} not shown")
    if len(attempts) > 1:
        click.echo(f"work lost by all ended attempts: {summaries.describe_losses(view['lost'])}")
    _print_checkpoints(view)
    flags = [{**row, "job_id": names.get(row["job_id"], row["job_id"])} for row in view["flags"]]
    _print_rows(("severity", "rule", "job_id", "opened_at", "resolved_at"), flags, "No flags recorded.")
    printed = set()  # the same text may be true of several jobs
    for row in flags:
        text = row["rule"], row["statement"], row["advice"], row["command"]
        if row["resolved_at"] is None and text not in printed:
            printed.add(text)
            click.echo(f"{row['rule']}, what is wrong and what to do:")
            print_flag_text(row)
    actions = [
        {**row, "checkpoint": row["target"].rpartition("/")[2], "why": "; ".join(row["reasons"])}
        for row in view["actions"]
    ]
    _print_rows(("begun_at", "actor", "action", "checkpoint", "outcome", "why"), actions, "No actions recorded.")
    _print_rhythm(view)
    _print_ahead(view, {str(job_id): name for job_id, name in names.items()})


def _print_locations(view: "ShownRunDocument") -> None:
    """Print where the newest complete checkpoint is, and each location of a run that has several."""
    if len(view["locations"]) > 1:
        rows = [{**row, "location": row["path"]} for row in view["locations"]]
        _print_rows(("location", "role", "checkpoints", "newest_saved_at", "trouble"), rows, "")
    for row in view["locations"]:
        if row["compared"] is not None:
            click.echo(safe(f"copy: {summaries.describe_comparison(row['compared'])}"))
    if view["newest_complete"] is not None:
        click.echo(safe(f"newest complete checkpoint: {summaries.describe_newest(view['newest_complete'])}"))


def _print_resumes(view: "ShownRunDocument") -> None:
    """Print what the latest restarts resumed from, with the certainty of each."""
    restarts = [row for row in view["attempts"] if row["kind"] or row["restart_count"]]
    for row in restarts[-RESTARTS_SHOWN:]:
        if row["resumed_from"] is not None:
            name = f"job {name_job(row)}, restart {row['restart_count']}"
            click.echo(safe(f"{name}: resumed from {row['resumed_from']['text']}"))


def _name_in(path: str, earlier: "list[str]") -> str:
    """Return the name of a checkpoint; its path if it is in a directory of earlier starts, which may hold the same."""
    return path if any(path.startswith(f"{each}/") for each in earlier) else path.rpartition("/")[2]


def _print_checkpoints(view: "ShownRunDocument") -> None:
    """Print existing checkpoints and the newest deleted ones, without the temporary names of saves."""
    saves = [row for row in view["checkpoints"] if not (row["deleted_at"] and row["state"] == CheckpointState.WRITING)]
    gone = [row for row in saves if row["deleted_at"]]
    left_out = {id(row) for row in gone[:-GONE_SHOWN]}
    earlier = [each["path"] for each in view.get("locations", ()) if each["role"] == "earlier"]
    shown = [
        {**row, "checkpoint": _name_in(row["path"], earlier), "fate": _fate(row)}
        for row in saves
        if id(row) not in left_out
    ]
    columns = ("checkpoint", "format", "state", "epoch", "step", "completed_at", "fate", "reason")
    _print_rows(columns, shown, "No checkpoints recorded.")
    if left_out:
        click.echo(f"{format_count(len(left_out), 'earlier checkpoint')} not shown (deleted or replaced)")
    if summed := view["summed_checkpoints"]:
        click.echo(summaries.describe_summed(summed))
    if view["is_truncated"]:
        click.echo("older checkpoints are not shown, except those that flags refer to")


def _print_rhythm(view: "ShownRunDocument") -> None:
    """Print the run's checkpoint interval and the recommended one."""
    forecast = view["forecast"]
    interval, save_time = _duration(forecast["interval_seconds"]), _duration(forecast["save_seconds"])
    click.echo(f"checkpoint interval: {interval}; save duration: {save_time}")
    click.echo(f"recommended interval: {summaries.describe_advice(view['advice'])}")


def _print_ahead(view: "ShownRunDocument", names: Mapping[str, object]) -> None:
    """Print the work lost at the time limit, the goal's forecast, and when the file system will be full.

    `names` has the names of jobs by their ids.
    """
    forecast, free_space = view["forecast"], view["free_space"]
    for job_id, expected_at in forecast["next_checkpoint_at"].items():
        if expected_at:
            is_due = expected_at <= datetime.now(UTC) + timedelta(minutes=1)
            when = "now" if is_due else f"at {format_instant(expected_at)}"
            click.echo(f"job {names.get(job_id, job_id)}: the next checkpoint is expected {when}")
    for job_id, expected in forecast["at_limit"].items():
        job = f"job {names.get(job_id, job_id)}"
        if limit_text := summaries.describe_limit(expected):
            click.echo(f"{job}: {limit_text}")
        if goal := expected["goal"]:
            click.echo(f"{job} {_describe_goal(goal)}")
    if free_space["free_bytes"] is not None:
        click.echo(f"{format_size(free_space['free_bytes'])} free on the file system")
    if free_space["quota_left_bytes"] is not None:
        click.echo(f"{format_size(free_space['quota_left_bytes'])} left of the quota")
    if forecast["full_at"]:
        click.echo(f"at the current rate, the space is used up at about {format_instant(forecast['full_at'])}")


def _describe_goal(goal: "GoalDocument") -> str:
    source = "goal set by the user" if goal["is_declared"] else "goal stated in its checkpoints"
    text = f"is at {goal['unit']} {format_progress(goal['reached'])} of {format_progress(goal['goal'])} ({source})"
    if goal["is_fitting"]:
        return f"{text} and is expected to finish before its time limit"
    more = goal["more_jobs"]
    need = (
        "a job of this length is too short to make progress"
        if more is None
        else f"{format_count(more, 'further job')} of this length needed"
    )
    fitting = format_count(goal["fits"], f"more {goal['unit']}")
    return f"{text}: {fitting} {'fits' if goal['fits'] == 1 else 'fit'} before its time limit; {need}"


def _print_rows(columns: Sequence[str], rows: list[dict[str, Any]], empty: str) -> None:
    headings = [_HEADINGS.get(column) or column.replace("_", " ") for column in columns]
    print_table(headings, [[_format_value(row[column]) for column in columns] for row in rows], empty)


def _format_value(value: object) -> object:
    return format_second(value) if isinstance(value, datetime) else value


def _fate(row: "CheckpointDocument") -> str:
    if row["pruned_at"]:
        return "pruned"
    if row["deleted_at"]:
        return fate_of("deleted")
    return "pinned" if row["is_pinned"] else "present"


def _duration(seconds: int | None) -> str:
    return "unknown" if seconds is None else format_duration(timedelta(seconds=seconds))
