"""Finds older checkpoints of a series that its newest one does not replace, by what they contain and who kept them.

- The newest one may lack the optimizer: many programs save parameters and a counter at their end, or in between.
- A program that keeps its best checkpoints deletes newer ones and leaves them: Orbax with `best_fn`, Ray Tune,
  SpeechBrain and NeMo name neither the best one nor their metric in a way that every reader knows.
- After a restart with fewer ranks, a checkpoint has fewer parts than older ones. Only another one of as many parts
  beside it shows that none is missing.
"""

from collections.abc import Iterator, Sequence

from ckptd.core.retention.checkpoint_order import CheckpointOrder
from ckptd.core.retention.rules import Ranked

_OPTIMIZER = "the state of an optimizer"  # as the readers of formats word it
_LEAST_DELETED = 2  # newer ones, at different times: one alone may have been deleted by hand
_MOST_BEST = 5  # more are milestones, which programs keep by their number and not by a metric


def list_not_replaced(order: CheckpointOrder, complete: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield index and reason of checkpoints to keep; `complete` are at least two complete ones of a series."""
    sets = order.sets
    *older, newest = complete
    with_optimizer = [index for index in complete if _OPTIMIZER in sets[index].record.checkpoint.role_evidence]
    if with_optimizer and with_optimizer[-1] != newest:
        yield with_optimizer[-1], "the newest one of its series with the state of an optimizer"
    part_counts = [_count_parts(sets[index]) for index in complete]
    if part_counts[-2] == part_counts[-1] < max(part_counts):
        yield older[-1], f"it shows that {sets[newest].path} is whole, which has fewer parts than older ones"
    best = list(_list_kept_by_program(order, older))
    if len(best) <= _MOST_BEST:
        yield from ((index, "its program kept it, and deleted newer ones of its series") for index in best)


def _count_parts(each: Ranked) -> int:
    return len(each.record.checkpoint.parts) or 1


def _list_kept_by_program(order: CheckpointOrder, older: Sequence[int]) -> Iterator[int]:
    recorded = order.recorded[order.sets[older[0]].series]
    deleted = [each for each in recorded if each.is_complete and _is_deleted_by_others(each)]
    if len(deleted) < _LEAST_DELETED:
        return
    left = {key for members in order.recorded.values() for each in members if not _is_gone(each) for key in _keys(each)}
    deleted = [each for each in deleted if left.isdisjoint(_keys(each))]  # the others have another name by now
    for index in older:
        if len({each.record.deleted_at for each in deleted if each[:2] > order.sets[index][:2]}) >= _LEAST_DELETED:
            yield index


def _is_gone(each: Ranked) -> bool:
    return each.record.deleted_at is not None or each.record.pruned_at is not None


def _is_deleted_by_others(each: Ranked) -> bool:
    return each.record.deleted_at is not None and each.record.pruned_at is None


def _keys(each: Ranked) -> Iterator[tuple[int, ...]]:
    """Yield what a file keeps when it is renamed; its inode alone may be that of a later file."""
    return ((one.device, one.inode, one.size_bytes, one.modified_ns) for one in each.record.checkpoint.identities)
