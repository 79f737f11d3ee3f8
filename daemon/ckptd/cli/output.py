"""How commands speak: tables for people, one JSON document for programs, and exit statuses."""

import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 2000  # what reads a pipe wants one row a line
EXIT_FINE = 0
EXIT_TROUBLE = 1
EXIT_USAGE = 2


def print_json(document: Any) -> None:
    """Print one document; names that are not UTF-8 appear as escapes, never as raw bytes."""
    click.echo(json.dumps(document, default=_plain, indent=None if not sys.stdout.isatty() else 2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Print rows under headings, or the sentence for none."""
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")  # prose comes last, and may take what is left
    for row in rows:
        table.add_row(*(Text(safe(cell)) if not isinstance(cell, Text) else cell for cell in row))
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def safe(value: object) -> str:
    """Make text that users wrote harmless to a terminal: control characters and broken UTF-8 become escapes."""
    if value is None:
        return "-"
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(value)
    )


def format_duration(duration: timedelta | None) -> str:
    """Say a duration in its two largest units: `2d 3h`, `5m 12s`."""
    if duration is None:
        return "-"
    seconds = int(duration.total_seconds())
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    told = [f"{count}{unit}" for count, unit in parts if count][:2]
    return " ".join(told) or "0s"


def format_size(size_bytes: int | None) -> str:
    """Say a size in binary units: `3.2 GiB`."""
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
