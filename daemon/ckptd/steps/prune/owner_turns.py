"""Groups requests by a few owners at a time, and stops if file systems do not answer.

The agent has few children at a time, and scans need them as well: hanging requests of pruning must not use them all.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from ckptd.core.model import RunKey

AT_ONCE = 4  # owners side by side
MAX_SILENT = 2  # groups without an answer in one step: the rest is for later


def group_by_owners(runs: Iterable[RunKey]) -> Iterator[list[RunKey]]:
    """Yield the runs of a few owners at a time."""
    owners = [list(group) for _, group in groupby(sorted(runs, key=_owner), key=_owner)]
    for start in range(0, len(owners), AT_ONCE):
        yield [run for group in owners[start : start + AT_ONCE] for run in group]


def _owner(run: RunKey) -> int:
    return run.uid
