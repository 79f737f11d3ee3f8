"""The grouping of a checkpoint as a short sequence: what follows from its path is left out."""

import functools
import re
from collections.abc import Sequence
from typing import Any

from ckptd.core.model import Grouping

_EVIDENCE = "the word `{}` is beside the number"  # the usual one
_USUAL = re.compile(_EVIDENCE.format("(.*)"), re.DOTALL)
_HAS_WORD, _IS_DIRECTORY = 1, 2
_NUMBER = re.compile(r"([0-9]+)")
_MOST_DIGITS = 18
_NO_GROUPING = Grouping()


def pack_grouping(grouping: Grouping, path: str) -> tuple[Any, ...] | None:
    """Return the grouping of a checkpoint at this path in its run; None: it has the defaults.

    The first element says which numbers of the path `#` stands for in its series, as a sum of powers of two; or is the
    series itself, with its progress numbers behind it.
    """
    if grouping == _NO_GROUPING:
        return None
    values = _pack_rest(grouping.evidence, grouping.has_progress_word, grouping.is_directory, grouping.doubt)
    marked = _find_marked(grouping.series, path)
    if (grouping.series, grouping.progress) == _follow(marked, path):
        return (marked, *values)
    return (grouping.series, grouping.progress, *values)


@functools.lru_cache(maxsize=256)
def _pack_rest(evidence: str, has_progress_word: bool, is_directory: bool, doubt: str | None) -> tuple[Any, ...]:
    """Return what does not depend on the path; equal fields at the end with nothing in them are left out."""
    usual = _USUAL.fullmatch(evidence)
    flags = _HAS_WORD * has_progress_word + _IS_DIRECTORY * is_directory
    values: list[Any] = [(usual[1],) if usual else evidence, flags, doubt]
    while values and not values[-1]:
        values.pop()
    return tuple(values)


def unpack_grouping(values: Sequence[Any], path: str) -> Grouping:
    """Return the grouping that `pack_grouping` wrote."""
    if isinstance(values[0], int):
        (series, progress), rest = _follow(values[0], path), values[1:]
    else:
        series, progress, rest = values[0], tuple(values[1]), values[2:]
    defaults: tuple[Any, ...] = ("", 0, None)
    evidence, flags, doubt = (*rest, *defaults[len(rest) :])
    return Grouping(
        series=series,
        progress=progress,
        evidence=evidence if isinstance(evidence, str) else _EVIDENCE.format(evidence[0]),
        has_progress_word=bool(flags & _HAS_WORD),
        is_directory=bool(flags & _IS_DIRECTORY),
        doubt=doubt,
    )


def _find_marked(series: str, path: str) -> int:
    """Return which numbers of a path may be those that `#` stands for; the caller checks it."""
    marked = place = 0
    for at, text in enumerate(_NUMBER.split(path)):
        if at % 2 and series.startswith("#", place):
            marked |= 1 << at // 2
            place += 1
        else:
            place += len(text)
    return marked


def _follow(marked: int, path: str) -> tuple[str, tuple[int, ...]]:
    """Return the series and the progress numbers of a path."""
    parts = _NUMBER.split(path)
    numbers = []
    for at in range(1, len(parts), 2):
        if marked >> at // 2 & 1 and len(parts[at]) <= _MOST_DIGITS:
            numbers.append(int(parts[at]))
            parts[at] = "#"
    return "".join(parts), tuple(numbers)
