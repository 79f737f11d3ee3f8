"""Measures how far each checkpoint of a series got, and finds where its run went back to an earlier state.

Both are read from all checkpoints on record whose writer is proven, also from those that are no longer there: what was
pruned still counts for what an attempt had reached.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ckptd.core.model import Checkpoint, CheckpointState, RecordedCheckpoint

Progress = tuple[float, ...]  # comparable within one series; empty: it is not known
_COMPLETE = CheckpointState.COMPLETE


class WrittenCheckpoint(NamedTuple):
    """One checkpoint on record and the rank of the attempt that wrote it."""

    rank: int
    path: str
    record: RecordedCheckpoint


def choose_measure(series: Iterable[WrittenCheckpoint]) -> Callable[[Checkpoint], Progress]:
    """Return the measure that every complete checkpoint of a series has: its names', epoch and step, or one of them.

    Epoch comes before step, because some programs count steps again in each epoch.
    """
    complete = [each.record.checkpoint for each in series if each.record.checkpoint.state is _COMPLETE]
    if complete and all(found.grouping.progress for found in complete):
        return _of_names
    has_epoch = bool(complete) and all(_is_number(found.epoch) for found in complete)
    has_step = bool(complete) and all(found.step is not None for found in complete)
    if has_epoch and has_step:
        return _epoch_and_step
    if has_step:
        return _step
    return _epoch if has_epoch else _of_names


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _epoch_and_step(found: Checkpoint) -> Progress:
    if found.epoch is None or found.step is None or not math.isfinite(found.epoch):
        return ()
    return (found.epoch, found.step)


def _step(found: Checkpoint) -> Progress:
    return () if found.step is None else (found.step,)


def _epoch(found: Checkpoint) -> Progress:
    return (found.epoch,) if found.epoch is not None and math.isfinite(found.epoch) else ()


def _of_names(found: Checkpoint) -> Progress:
    return found.grouping.progress


def number_lineages(ordered: Sequence[tuple[int, Progress]]) -> Iterator[int]:
    """Yield the lineage of each checkpoint of one series, given its attempt's rank and its progress, oldest first.

    A new lineage begins where an attempt saves less progress than it had saved before, or starts with no more than
    the attempts before it had saved.
    """
    lineage, last_rank = 0, -1
    highest: Progress = ()
    for rank, progress in ordered:
        if progress:
            if highest and (progress < highest or (rank != last_rank and progress == highest)):
                lineage += 1
            highest, last_rank = progress, rank
        yield lineage
