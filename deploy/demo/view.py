"""What the demonstration shows in the terminal: jobs with their checkpoints, open flags, where to look further."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def format_view(
    jobs: Sequence[Mapping[str, Any]], flags: Sequence[Mapping[str, Any]], events: Sequence[str], footer: str
) -> RenderableType:
    """Return the whole picture."""
    happened = Text("\n".join(events), style="dim")
    return Group(_format_jobs(jobs, flags), _format_flags(flags), happened, Text(footer))


def _format_jobs(jobs: Sequence[Mapping[str, Any]], flags: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Jobs", title_justify="left", expand=True)
    for column in ("job", "user", "name", "state", "time left", "restarts", "epoch", "saved", "newest", "flags"):
        table.add_column(column, justify="right" if column in {"time left", "restarts", "epoch", "saved"} else "left")
    severities = {flag["rule"]: flag["severity"] for flag in flags}
    for job in sorted(jobs, key=lambda job: job["job_id"]):
        table.add_row(
            _format_id(job),
            escape(job["user"]),
            escape(job["name"]),
            job["state"],
            _format_seconds(job["time_left_seconds"]),
            str(job["restart_count"]),
            _format_number(job["epoch"]),
            str(job["checkpoints"]),
            _format_age(job["newest_checkpoint_age_seconds"]),
            Text(", ").join(Text(rule, style=_STYLES.get(severities.get(rule, ""), "")) for rule in job["flags"]),
        )
    return table


def _format_flags(flags: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Open flags", title_justify="left", expand=True)
    for column in ("severity", "rule", "job", "user"):
        table.add_column(column, no_wrap=True)
    table.add_column("advice", ratio=1)
    for flag in flags:
        style = _STYLES.get(flag["severity"], "")
        job = str(flag["job_id"] or "")
        table.add_row(
            Text(flag["severity"], style=style),
            flag["rule"],
            job,
            escape(flag["user"]),
            Text(f"{flag['statement']} {flag['advice']}".lstrip()),
        )
    return table


def _format_id(job: Mapping[str, Any]) -> str:
    if job["array_task_id"] is None:
        return str(job["job_id"])
    return f"{job['array_job_id']}_{job['array_task_id']}"


def _format_seconds(seconds: float | None) -> str:
    return "-" if seconds is None else str(timedelta(seconds=int(seconds)))


def _format_number(number: float | None) -> str:
    return "-" if number is None else f"{number:g}"


def _format_age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{_format_seconds(seconds)} ago"
