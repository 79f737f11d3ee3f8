"""Slurm's lists of nodes, such as `n[1-3,07],gpu05`: which nodes they name."""

import re
from collections.abc import Iterator
from functools import lru_cache

MAX_NODES = 100_000  # nodes of one list; the rest of a longer one is ignored
_PART = re.compile(r"((?:[^,\[\]]|\[[^\]]*\])+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@lru_cache(maxsize=1024)
def expand(text: str) -> frozenset[str]:
    """Return the names of the nodes, with the leading zeros of a range; empty if the text is no list of nodes."""
    found: set[str] = set()
    for part in _PART.findall(text):
        for name in _expand(part):
            found.add(name)
            if len(found) >= MAX_NODES:
                return frozenset(found)
    return frozenset(found)


def find_first(text: str) -> str | None:
    """Return the first node that the list names; None if the text is no list of nodes."""
    return next((name for part in _PART.findall(text) for name in _expand(part)), None)


def _expand(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        if head:
            yield head
        return
    ranges, _, tail = rest.partition("]")
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each)
        if found is None:
            continue
        width = len(found[1])
        for number in range(int(found[1]), int(found[2] or found[1]) + 1):
            for ending in _expand(tail) if tail else ("",):
                yield f"{head}{number:0{width}}{ending}"
