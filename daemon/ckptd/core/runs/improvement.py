"""Decide whether a run saves only when a measured value improves: the time of its next save is then unknown."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ckptd.core.model import Checkpoint, RecordedCheckpoint

RECENT_COUNT = 10  # saves that are compared
LEAST_COUNT = 4  # saves, each better than the one before: with fewer, chance does it, too
_UNNAMED = re.compile(r"(?<!\d)\d{1,9}[-_](-?\d+\.\d+)(?![\d.]*\d)")  # Keras: `weights.{epoch}-{val_loss:.2f}.h5`


def saves_on_improvement(recorded: Iterable[RecordedCheckpoint]) -> bool:
    """Whether all of the latest complete checkpoints are marked as best, or each states a better value in its name.

    A program that saves every epoch and names the loss fits as long as the loss falls each time.
    """
    saved = sorted(
        ((each.completed_at, each.checkpoint) for each in recorded if each.completed_at is not None),
        key=lambda entry: entry[0],
    )
    latest = [checkpoint for _, checkpoint in saved[-RECENT_COUNT:]]
    if len(latest) < LEAST_COUNT:
        return False
    if all(each.is_best for each in latest):
        return True
    common = set.intersection(*(set(each.metrics) for each in latest))
    return any(_improves(latest, metric) for metric in common) or _is_one_way(_list_unnamed(latest))


def _improves(latest: Iterable[Checkpoint], metric: str) -> bool:
    """Whether a value in the names has gone in one direction only, with every save."""
    checkpoints = list(latest)
    values = [each.metrics[metric] for each in checkpoints]
    return all(is_in_name(metric, each) for each in checkpoints) and _is_one_way(values)


def _list_unnamed(latest: Iterable[Checkpoint]) -> list[float]:
    """Return the values that names state behind the epoch and without a word; none unless all names do."""
    found = [None if each.epoch is None else _UNNAMED.search(each.path.name) for each in latest]
    return [float(each[1]) for each in found if each is not None] if all(found) else []


def _is_one_way(values: Sequence[float]) -> bool:
    if not values or not all(map(math.isfinite, values)):
        return False
    return all(one > other for one, other in pairwise(values)) or all(one < other for one, other in pairwise(values))


def is_in_name(metric: str, found: Checkpoint) -> bool:
    """Whether the name of a checkpoint states the value of a metric."""
    return re.search(rf"(?<![A-Za-z]){re.escape(metric)}[-_=:]?-?\d", found.path.name) is not None
