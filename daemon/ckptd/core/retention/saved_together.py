"""Keeps the newest save of which every part is there, where the parts of one save are series of their own.

A script may save `G_epoch3.pth` beside `D_epoch3.pth`, or `forward/step_300.pt` beside `inverse/step_300.pt`. No known
word says that they belong together. If the last save was cut short, only the number before it is in both series.
"""

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import combinations

from ckptd.core.checkpoint_sets.name_numbers import SPECIAL
from ckptd.core.model import Role
from ckptd.core.retention.checkpoint_order import CheckpointOrder
from ckptd.core.retention.rules import Ranked, SeriesKey

_MOST_CUT = 2  # saves that may be cut short; a series that went on for more has outlived the other one
_MOST_PARTS = 50  # of more series in one directory, each is a trial of a sweep; every one is compared with all others


def list_newest_common(order: CheckpointOrder) -> Iterator[tuple[int, str]]:
    """Yield index and reason of the newest checkpoints that two series have in common, if they were saved together."""
    series = [
        _Series(key, indexes, order)
        for key, indexes in order.complete_of_series.items()
        if _may_be_part(order.sets[indexes[-1]])
    ]
    if len(series) > _MOST_PARTS:
        return
    for one, other in combinations(series, 2):
        if one.newest == other.newest or one.role != other.role:
            continue  # both newest ones stay in any case
        common = one.indexes.keys() & other.indexes.keys()
        if not common:
            continue
        number = max(common, key=lambda each: min(one.indexes[each], other.indexes[each]))
        ahead = max(each.count_since(order.sets[each.indexes[number]].at) for each in (one, other))
        if ahead <= _MOST_CUT and _is_saved_together(one, other, number, order.sets):
            for each, partner in ((one, other), (other, one)):
                yield each.indexes[number], f"the newest one that {partner.name} has as well, which was saved with it"


def _may_be_part(newest: Ranked) -> bool:
    """Whether a series may be a part of saves: it is counted, and no choice among checkpoints such as `best`."""
    found = newest.record.checkpoint
    is_counted = found.role in {Role.STATE, Role.WEIGHTS} and bool(found.grouping.progress)
    return is_counted and not SPECIAL.search(posixpath.basename(newest.path))


class _Series:
    """The complete checkpoints of one series that are there, by their progress numbers."""

    def __init__(self, key: SeriesKey, indexes: Sequence[int], order: CheckpointOrder) -> None:
        self.name = key[0]
        self.role = order.sets[indexes[-1]].record.checkpoint.role
        self.newest = order.sets[indexes[-1]].record.checkpoint.grouping.progress
        self.indexes: Mapping[tuple[int, ...], int] = {
            order.sets[index].record.checkpoint.grouping.progress: index for index in indexes
        }
        self._recorded = order.recorded[key]

    @cached_property
    def _written(self) -> list[datetime]:
        return sorted(each.at for each in self._recorded)

    def count_since(self, begin: datetime) -> int:
        """Count the checkpoints of the series, deleted ones included, that were written after an instant."""
        return len(self._written) - bisect_right(self._written, begin)

    def has_saved_between(self, begin: datetime, end: datetime) -> bool:
        """Whether a checkpoint of the series, deleted ones included, was written between two instants."""
        return bisect_right(self._written, begin) < bisect_left(self._written, end)


def _is_saved_together(one: _Series, other: _Series, number: tuple[int, ...], sets: Sequence[Ranked]) -> bool:
    """Whether both have a number from one save: between the two, neither of the series saved anything else."""
    begin, end = sorted(sets[each.indexes[number]].at for each in (one, other))
    return not one.has_saved_between(begin, end) and not other.has_saved_between(begin, end)
