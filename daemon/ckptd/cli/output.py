"""How commands speak: tables for people, one JSON document for programs, and exit statuses."""

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ckptd.core.text.formatting import format_duration, format_size, safe
from ckptd.core.text.json_numbers import replace_infinite

__all__ = ["format_duration", "format_size", "make_table", "print_json", "print_prose", "print_table", "safe"]

_PIPE_WIDTH = 2000  # programs that read a pipe expect one row per line
EXIT_FINE = 0
EXIT_TROUBLE = 1
EXIT_USAGE = 2


def print_json(document: Any) -> None:
    """Print one JSON document; invalid UTF-8 in names is escaped."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(replace_infinite(document), default=_plain, indent=indent, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Print a table, or the text `empty` if there are no rows."""
    if not rows:
        click.echo(empty)
        return
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(make_table(columns, rows))


def print_prose(text: object) -> None:
    """Print indented text wrapped to the terminal's width; paths and commands are not broken."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH
    lines = textwrap.wrap(safe(text), max(width - 4, 20), break_long_words=False, break_on_hyphens=False)
    click.echo("\n".join(f"    {line}" for line in lines))


def make_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table; text written by users is escaped."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")  # the last column holds prose and takes the remaining width
    for row in rows:
        table.add_row(*(Text(safe(cell)) if not isinstance(cell, Text) else cell for cell in row))
    return table


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
