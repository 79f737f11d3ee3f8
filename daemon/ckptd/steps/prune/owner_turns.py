"""Asks for the files of a few owners at a time, and stops where file systems are silent.

The agent has few children at once, and looks need them, too: what hangs here must not fill them all.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from ckptd.core.model import RunKey

AT_ONCE = 4  # owners side by side
MAX_SILENT = 2  # groups of which nothing was heard, in one step: the rest is for later


def group_by_owners(runs: Iterable[RunKey]) -> Iterator[list[RunKey]]:
    """Give the runs of a few owners at a time."""
    owners = [list(group) for _, group in groupby(sorted(runs, key=_owner), key=_owner)]
    for start in range(0, len(owners), AT_ONCE):
        yield [run for group in owners[start : start + AT_ONCE] for run in group]


def _owner(run: RunKey) -> int:
    return run.uid
