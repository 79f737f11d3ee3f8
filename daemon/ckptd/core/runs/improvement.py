"""Tell whether a run saves only when a measured value improves: then the time to its next save is not known."""

import math
import re
from collections.abc import Iterable
from itertools import pairwise

from ckptd.core.model import Checkpoint, RecordedCheckpoint

RECENT_COUNT = 10  # saves that are looked at
LEAST_COUNT = 4  # saves, each better than the one before: with fewer, chance does it, too


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
    return any(_improves(latest, metric) for metric in common)


def _improves(latest: Iterable[Checkpoint], metric: str) -> bool:
    """Whether a value in the names has gone in one direction only, with every save."""
    checkpoints = list(latest)
    values = [each.metrics[metric] for each in checkpoints]
    if not all(map(math.isfinite, values)) or not all(is_in_name(metric, each) for each in checkpoints):
        return False
    return all(one > other for one, other in pairwise(values)) or all(one < other for one, other in pairwise(values))


def is_in_name(metric: str, found: Checkpoint) -> bool:
    """Whether the name of a checkpoint states the value of a metric."""
    return re.search(rf"(?<![A-Za-z]){re.escape(metric)}[-_=:]?-?\d", found.path.name) is not None
