"""`ckptd jobs --watch`: refresh the table of jobs until Ctrl-C."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ckptd.cli.cluster_choice import ClusterChoice
from ckptd.cli.job_table import JOB_COLUMNS, job_cells
from ckptd.cli.output import safe
from ckptd.core.model.records import JobRow
from ckptd.present import formatting, listings

if TYPE_CHECKING:
    from ckptd.present.responses.job_documents import ListedJobDocument

LITTLE_TIME_SECONDS = 600
OTHER_LINES = 3  # the heading of the table, the line above it and the one below

ONE_CLUSTER = ClusterChoice(None)


def show_jobs(read: Callable[[datetime], Sequence[JobRow]], chosen: ClusterChoice, seconds: float) -> None:
    """Show the jobs on the full terminal and refresh them periodically until Ctrl-C."""
    console = Console()
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            now = datetime.now(UTC)
            rows = [listings.job_row(row, now) for row in read(now)]
            live.update(draw_jobs(rows, now, console.height, chosen), refresh=True)
            time.sleep(seconds)


def draw_jobs(
    rows: "Sequence[ListedJobDocument]", now: datetime, height: int, chosen: ClusterChoice = ONE_CLUSTER
) -> RenderableType:
    """Return as many jobs as fit, flagged ones first, then those with the least time left."""
    ordered = sorted(rows, key=_urgency)
    room = max(1, height - OTHER_LINES)
    flagged = sum(bool(row["flags"]) for row in rows)
    jobs = formatting.format_count(len(rows), "job")
    heading = Text(f"{jobs} started, {flagged} flagged; {now.astimezone():%H:%M:%S}; press Ctrl-C to exit")
    parts: list[RenderableType] = [heading, _make_table([_coloured(row, chosen) for row in ordered[:room]], chosen)]
    if len(rows) > room:
        parts.append(Text(f"and {len(rows) - room} more", style="dim"))
    return Group(*parts)


def _make_table(rows: Sequence[Sequence[Text]], chosen: ClusterChoice) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in chosen.columns(JOB_COLUMNS[:-1]):
        table.add_column(column, no_wrap=True)
    table.add_column(JOB_COLUMNS[-1], overflow="fold")  # the flags come last, and may take what is left
    for row in rows:
        table.add_row(*row)
    return table


def _urgency(row: "ListedJobDocument") -> tuple[bool, float, int]:
    left = row["time_left_seconds"]
    return not row["flags"], float("inf") if left is None else left, row["job_id"]


def _coloured(row: "ListedJobDocument", chosen: ClusterChoice) -> list[Text]:
    left = row["time_left_seconds"]
    base = "yellow" if row["flags"] else ""
    cells = [Text(safe(cell), style=base, no_wrap=True) for cell in job_cells(row)]
    if left is not None and left < LITTLE_TIME_SECONDS:
        cells[JOB_COLUMNS.index("left")].stylize("bold red")
    return [Text(safe(cell), style=base, no_wrap=True) for cell in chosen.cells(row["cluster"], ())] + cells
