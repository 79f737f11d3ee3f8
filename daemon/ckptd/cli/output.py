"""Output of all commands: tables for people, one JSON document for programs, and exit statuses."""

import functools
import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ckptd.cli import layout
from ckptd.core.text.json_numbers import replace_infinite
from ckptd.present.formatting import format_duration, format_size, safe

__all__ = [
    "format_duration",
    "format_second",
    "format_size",
    "print_flag_text",
    "print_json",
    "print_prose",
    "print_table",
    "safe",
]

_PIPE_WIDTH = 2000  # programs that read a pipe expect one row per line
EXIT_FINE = 0
EXIT_TROUBLE = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3


def format_second(instant: datetime) -> str:
    """Format an instant for a column headed "(UTC)", so that every table shows times in one form."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def print_json(document: Any) -> None:
    """Print one JSON document; invalid UTF-8 in names is escaped."""
    indent = 2 if sys.stdout.isatty() else None
    encode = functools.partial(json.dumps, default=_plain, indent=indent, allow_nan=False)
    try:
        text = encode(document)
    except ValueError:  # an infinite number, which JSON does not have: too rare to check for first
        text = encode(replace_infinite(document))
    click.echo(text)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str, *, dispensable: Sequence[str] = ()
) -> None:
    """Print a table, or the text `empty` if there are no rows.

    On a terminal, columns are aligned, and the first of the `dispensable` ones are left out if it is too narrow for
    all. Otherwise one tab separates the cells, as cut(1) expects; no cell contains a tab
    or is empty.
    """
    if not rows:
        click.echo(empty)
        return
    if sys.stdout.isatty():
        cells = [[_cell(each) for each in row] for row in rows]
        width = shutil.get_terminal_size().columns
        places = layout.choose_columns(columns, cells, width, dispensable)
        shown = [[row[place] for place in places] for row in cells]
        lines = list(layout.align([columns[place] for place in places], shown, width))
        if left_out := [name for place, name in enumerate(columns) if place not in places]:
            note = f"({', '.join(left_out)}: not shown, because the terminal has only {width} columns)"
            lines += textwrap.wrap(note, max(width, 20))
    else:
        lines = ["\t".join(_cell(each).text or "-" for each in row) for row in (columns, *rows)]
    click.echo("\n".join(lines))


def _cell(value: object) -> layout.Cell:
    """Return a cell's text with control characters escaped."""
    return value._replace(text=safe(value.text)) if isinstance(value, layout.Cell) else layout.Cell(safe(value))


def print_prose(text: object) -> None:
    """Print indented text wrapped to the terminal's width; paths and commands are not broken."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH
    lines = textwrap.wrap(safe(text), max(width - 4, 20), break_long_words=False, break_on_hyphens=False)
    click.echo("\n".join(f"    {line}" for line in lines))


def print_flag_text(row: Mapping[str, Any]) -> None:
    """Print what is wrong and what to do, with the command on a line of its own, from which it can be copied.

    A flag of an earlier version has all of it in its advice.
    """
    command = row["command"] or ""
    print_prose(f"{row['statement']} {row['advice'].removesuffix(command)}".strip())
    if command:
        click.echo(f"      {safe(command)}")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
