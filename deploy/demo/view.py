"""What the demonstration shows in the terminal: jobs with their checkpoints, open flags, where to look further."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ckptd.present.formatting import format_duration

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_NUMBERS = {"left", "restarts", "epoch", "saved"}
_MOST = {"user": 10, "name": 12}  # columns, of 80


def format_view(
    jobs: Sequence[Mapping[str, Any]], flags: Sequence[Mapping[str, Any]], events: Sequence[str], footer: str
) -> RenderableType:
    """Return the whole picture, for a terminal of 80 columns or more."""
    happened = Text("\n".join(["", *events, ""]), style="dim")
    return Group(_format_jobs(jobs), Text(), *_list_flag_texts(flags), happened, Text(footer))


def _format_jobs(jobs: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in ("job", "user", "name", "state", "left", "restarts", "epoch", "saved"):
        is_number = column in _NUMBERS
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True, max_width=_MOST.get(column))
    for job in sorted(jobs, key=lambda job: job["job_id"]):
        table.add_row(
            _format_id(job),
            escape(job["user"]),
            escape(job["name"]),
            job["state"],
            _format_seconds(job["time_left_seconds"]),
            str(job["restart_count"]),
            _format_number(job["epoch"]),
            _format_age(job["newest_checkpoint_age_seconds"]),
        )
    return table


def _list_flag_texts(flags: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for flag in flags:
        style = _STYLES.get(flag["severity"], "")
        job = f"job {flag['job_id']} of {flag['user']}" if flag["job_id"] else flag["user"]
        yield Text(f"{flag['severity']}: {flag['rule']}, {job}", style=style)
        words = (flag["statement"], flag["advice"], flag["command"])
        yield Padding(Text(" ".join(filter(None, words))), (0, 0, 0, 4))


def _format_id(job: Mapping[str, Any]) -> str:
    if job["array_task_id"] is None:
        return str(job["job_id"])
    return f"{job['array_job_id']}_{job['array_task_id']}"


def _format_seconds(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(timedelta(seconds=int(seconds)))


def _format_number(number: float | None) -> str:
    return "-" if number is None else f"{number:g}"


def _format_age(seconds: float | None) -> str:
    return "never" if seconds is None else f"{_format_seconds(seconds)} ago"
