"""Format tables for a terminal; fast enough for thousands of rows."""

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import click

GAP = "  "
NARROWEST = 8  # minimum width of a narrowed column, so that a narrow terminal shows something of each
NARROWEST_FIRST = 18  # minimum width of the column that names the row
NARROWEST_LAST = 20
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:d|h|min|s|B|[KMGTPE]iB)\b)")
_MEASURE = re.compile(r"-?|never|unknown|[-+~<>]?[0-9].*", re.DOTALL)


class Cell(NamedTuple):
    """A cell's text, and the colour that click calls it by."""

    text: str
    colour: str | None = None


def align(columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    """Yield the lines of a table: columns as wide as their widest cell, narrower where the terminal is.

    Names are cut then. Numbers, sizes and times are wrapped between their words, because a part of one misleads. The
    last column holds prose, and is wrapped in what is left.
    """
    texts = [[Cell(heading) for heading in columns], *rows]
    widths = [max(measure(row[place].text) for row in texts) for place in range(len(columns))]
    wrapped = _list_measures(columns, rows)
    last = _shrink(widths, width, wrapped)
    for line in _list_heading_lines(columns, widths):
        yield click.style(line, bold=True)
    for row in rows:
        cells = [
            _wrap(cell.text, widths[place]) if place in wrapped else [cell.text] for place, cell in enumerate(row[:-1])
        ]
        cells.append(_wrap(row[-1].text, last))
        for number in range(max(map(len, cells))):
            parts = [each[number] if number < len(each) else "" for each in cells]
            shown = [_paint(_fit(text, each), cell) for text, each, cell in zip(parts[:-1], widths, row, strict=False)]
            yield GAP.join([*shown, _paint(parts[-1], row[-1])])


def choose_columns(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, dispensable: Sequence[str]
) -> list[int]:
    """Return the places of the columns that fit a terminal: without the first dispensable ones, as far as necessary."""
    chosen = list(range(len(columns)))
    wrapped = _list_measures(columns, rows)
    widths = [max(measure(text) for text in (columns[place], *(row[place].text for row in rows))) for place in chosen]
    least = [each if place in wrapped else min(each, NARROWEST) for place, each in enumerate(widths)]
    least[0], least[-1] = min(widths[0], NARROWEST_FIRST), min(widths[-1], NARROWEST_LAST)
    for name in dispensable:
        if sum(least[place] for place in chosen) + len(GAP) * (len(chosen) - 1) <= width:
            break
        chosen.remove(columns.index(name))
    return chosen


def _list_measures(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> dict[int, int]:
    """Return the places of the columns that hold only numbers, sizes and times, with the width of the longest word."""
    found = {}
    for place in range(len(columns) - 1):
        texts = [row[place].text for row in rows]
        if all(map(_MEASURE.fullmatch, texts)):
            found[place] = max((len(word) for text in texts for word in _join_units(text).split(" ")), default=0)
    return found


def _list_heading_lines(columns: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the headings, in as many lines as they need: cut to one, several may look the same."""
    wrapped = [textwrap.wrap(each, width) or [""] for each, width in zip(columns[:-1], widths, strict=False)]
    wrapped.append([columns[-1]])
    height = max(map(len, wrapped))
    lines = zip(*([""] * (height - len(each)) + each for each in wrapped), strict=True)
    return [GAP.join([*map(_fit, line[:-1], widths), line[-1]]) for line in lines]


def _paint(text: str, cell: Cell) -> str:
    return click.style(text, fg=cell.colour) if cell.colour else text


def _shrink(widths: list[int], width: int, wrapped: Mapping[int, int]) -> int:
    """Narrow the widest columns until a row fits, names before measures; return the width of the last one.

    The first column names the row, and stays as wide as it may be.
    """
    available = width - len(GAP) * (len(widths) - 1)
    kept = min(widths[-1], NARROWEST_LAST)
    least = [NARROWEST_FIRST, *(max(wrapped.get(place, 0), NARROWEST) for place in range(1, len(widths) - 1))]
    places = range(len(widths) - 1)
    for narrowed in ([place for place in places if place not in wrapped], list(places)):
        while sum(widths[:-1]) + kept > available:
            cuttable = [place for place in narrowed if widths[place] > least[place]]
            if not cuttable:
                break
            widths[max(cuttable, key=widths.__getitem__)] -= 1
    return max(min(widths[-1], available - sum(widths[:-1])), kept)


def _wrap(cell: str, width: int) -> list[str]:
    """Break a cell between its words, but not before a unit; at hyphens only where a word is too long."""
    if measure(cell) <= width:
        return [cell]
    fitting = width // 2 if measure(cell) > len(cell) else width  # wide characters: only half as many are sure to fit
    cell = _join_units(cell)
    is_too_long = any(len(word) > fitting for word in cell.split(" "))
    lines = textwrap.wrap(cell, fitting, break_on_hyphens=is_too_long) or [""]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _join_units(cell: str) -> str:
    """Return the text with a space that does not break between each number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", cell)


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
