"""Format tables for a terminal; fast enough for thousands of rows."""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

GAP = "  "
NARROWEST = 8  # minimum width of a cut column, so that a narrow terminal shows something of each
NARROWEST_FIRST = 18  # minimum width of the column that names the row
NARROWEST_LAST = 20


class Cell(NamedTuple):
    """A cell's text, and the colour that click calls it by."""

    text: str
    colour: str | None = None


def align(columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    """Yield the lines of a table: columns as wide as their widest cell, cut where the terminal is narrower.

    The last column holds prose, and is wrapped in what is left.
    """
    texts = [[Cell(heading) for heading in columns], *rows]
    widths = [max(measure(row[place].text) for row in texts) for place in range(len(columns))]
    last = _shrink(widths, width)
    indent = " " * (sum(widths[:-1]) + len(GAP) * (len(widths) - 1))
    for line in _list_heading_lines(columns, widths):
        yield click.style(line, bold=True)
    for row in rows:
        shown = [_paint(_fit(cell.text, each), cell) for cell, each in zip(row[:-1], widths, strict=False)]
        first, *rest = _wrap(row[-1].text, last)
        yield GAP.join([*shown, _paint(first, row[-1])])
        yield from (indent + _paint(line, row[-1]) for line in rest)


def _list_heading_lines(columns: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the headings, in as many lines as they need: cut to one, several may look the same."""
    wrapped = [textwrap.wrap(each, width) or [""] for each, width in zip(columns[:-1], widths, strict=False)]
    wrapped.append([columns[-1]])
    height = max(map(len, wrapped))
    lines = zip(*([""] * (height - len(each)) + each for each in wrapped), strict=True)
    return [GAP.join([*map(_fit, line[:-1], widths), line[-1]]) for line in lines]


def _paint(text: str, cell: Cell) -> str:
    return click.style(text, fg=cell.colour) if cell.colour else text


def _shrink(widths: list[int], width: int) -> int:
    """Cut the widest columns until a row fits; return the width of the last one.

    The first column names the row, and stays as wide as it may be.
    """
    available = width - len(GAP) * (len(widths) - 1)
    kept = min(widths[-1], NARROWEST_LAST)
    least = [NARROWEST_FIRST, *[NARROWEST] * (len(widths) - 2)]
    while sum(widths[:-1]) + kept > available:
        cuttable = [place for place in range(len(widths) - 1) if widths[place] > least[place]]
        if not cuttable:
            break
        widths[max(cuttable, key=widths.__getitem__)] -= 1
    return max(min(widths[-1], available - sum(widths[:-1])), kept)


def _wrap(cell: str, width: int) -> list[str]:
    if measure(cell) <= width:
        return [cell]
    is_wide = measure(cell) > len(cell)  # characters of two columns: only half as many are sure to fit
    return textwrap.wrap(cell, width // 2 if is_wide else width, break_on_hyphens=False) or [""]


def _fit(cell: str, width: int) -> str:
    """Pad or cut a cell to a width."""
    missing = width - measure(cell)
    if missing >= 0:
        return cell + " " * missing
    while measure(cell) >= width:
        cell = cell[:-1]
    return cell + "\u2026" + " " * (width - 1 - measure(cell))


def measure(cell: str) -> int:
    """Return the width of a text in terminal columns."""
    if cell.isascii():
        return len(cell)
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in cell)
