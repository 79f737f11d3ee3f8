"""The table of jobs, printed once or shown anew until the reader has seen enough."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ckptd.cli.output import format_duration, format_size, make_table, safe
from ckptd.core.model.records import JobRow
from ckptd.core.text import formatting
from ckptd.present import models

LITTLE_TIME_SECONDS = 600
OTHER_LINES = 3  # the heading of the table, the line above it and the one below

JOB_COLUMNS = ("job", "user", "name", "state", "left", "restarts", "epoch", "step", "saved", "size", "flags")


def name_job(row: dict[str, Any]) -> object:
    """Return what listings of Slurm call a job: a task of an array by the array's number and its own."""
    is_task = row["array_job_id"] is not None and row["array_task_id"] is not None
    return f"{row['array_job_id']}_{row['array_task_id']}" if is_task else row["job_id"]


def job_cells(row: dict[str, Any]) -> tuple[object, ...]:
    """Return one job's row of the table."""
    age = row["newest_checkpoint_age_seconds"]
    return (
        name_job(row),
        row["user"],
        row["name"],
        row["state"],
        _duration(row["time_left_seconds"]),
        row["restart_count"],
        row["epoch"],
        row["step"],
        "never" if age is None else f"{_duration(age)} ago",
        format_size(row["checkpoint_bytes"]),
        ", ".join(row["flags"]) or "-",
    )


def _duration(seconds: int | None) -> str:
    return format_duration(None if seconds is None else timedelta(seconds=seconds))


def show_jobs(read: Callable[[datetime], Sequence[JobRow]], seconds: float) -> None:
    """Show the jobs on the full terminal and refresh them periodically until Ctrl-C."""
    console = Console()
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            now = datetime.now(UTC)
            rows = [models.job_row(row, now) for row in read(now)]
            live.update(draw_jobs(rows, now, console.height), refresh=True)
            time.sleep(seconds)


def draw_jobs(rows: Sequence[dict[str, Any]], now: datetime, height: int) -> RenderableType:
    """Return as many jobs as fit, flagged ones first, then those with the least time left."""
    ordered = sorted(rows, key=_urgency)
    room = max(1, height - OTHER_LINES)
    flagged = sum(bool(row["flags"]) for row in rows)
    jobs = formatting.format_count(len(rows), "job")
    heading = Text(f"{jobs} started, {flagged} flagged; {now.astimezone():%H:%M:%S}; press Ctrl-C to exit")
    parts: list[RenderableType] = [heading, make_table(JOB_COLUMNS, [_coloured(row) for row in ordered[:room]])]
    if len(rows) > room:
        parts.append(Text(f"and {len(rows) - room} more", style="dim"))
    return Group(*parts)


def _urgency(row: dict[str, Any]) -> tuple[bool, float, int]:
    left = row["time_left_seconds"]
    return not row["flags"], float("inf") if left is None else left, row["job_id"]


def _coloured(row: dict[str, Any]) -> list[Text]:
    left = row["time_left_seconds"]
    base = "yellow" if row["flags"] else ""
    cells = [Text(safe(cell), style=base, no_wrap=True) for cell in job_cells(row)]
    if left is not None and left < LITTLE_TIME_SECONDS:
        cells[JOB_COLUMNS.index("left")].stylize("bold red")
    return cells
