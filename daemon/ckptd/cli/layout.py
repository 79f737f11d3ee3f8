"""Lays a table out for a terminal, in time that even thousands of rows do not make noticeable."""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

import click

GAP = "  "
NARROWEST = 8  # a column is cut to no less, so that a narrow terminal still shows something of each
NARROWEST_LAST = 20


def align(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of a table: columns as wide as their widest cell, cut where the terminal is narrower.

    The last column holds prose, and is wrapped in what is left.
    """
    widths = [max(map(_measure, (heading, *cells))) for heading, *cells in zip(columns, *rows, strict=True)]
    last = _shrink(widths, width)
    yield click.style(_line(columns, widths, columns[-1]), bold=True)
    for row in rows:
        first, *rest = _wrap(row[-1], last)
        yield _line(row, widths, first)
        indent = " " * (sum(widths[:-1]) + len(GAP) * (len(widths) - 1))
        yield from (indent + line for line in rest)


def _shrink(widths: list[int], width: int) -> int:
    """Cut the widest columns until a row fits; return the width of the last one."""
    available = width - len(GAP) * (len(widths) - 1)
    kept = min(widths[-1], NARROWEST_LAST)
    while sum(widths[:-1]) + kept > available and max(widths[:-1], default=0) > NARROWEST:
        widest = max(range(len(widths) - 1), key=widths.__getitem__)
        widths[widest] -= 1
    return max(min(widths[-1], available - sum(widths[:-1])), kept)


def _wrap(cell: str, width: int) -> list[str]:
    return [cell] if _measure(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def _line(row: Sequence[str], widths: Sequence[int], last: str) -> str:
    return GAP.join([*map(_fit, row[:-1], widths), last])


def _fit(cell: str, width: int) -> str:
    """Fill or cut a cell to a width."""
    missing = width - _measure(cell)
    if missing >= 0:
        return cell + " " * missing
    while _measure(cell) >= width:
        cell = cell[:-1]
    return cell + "\u2026" + " " * (width - 1 - _measure(cell))


def _measure(cell: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if cell.isascii():
        return len(cell)
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in cell)
