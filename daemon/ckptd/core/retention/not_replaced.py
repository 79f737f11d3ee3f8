"""Finds older checkpoints of a series that its newest one does not replace, by what they contain and who kept them.

- The newest one may lack the optimizer: many programs save parameters and a counter at their end, or in between.
- A program that keeps its best checkpoints deletes newer ones and leaves them: Orbax with `best_fn`, Ray Tune,
  SpeechBrain and NeMo name neither the best one nor their metric in a way that every reader knows.
- After a restart with fewer ranks, a checkpoint has fewer parts than older ones. Only another one of as many parts
  beside it shows that none is missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from ckptd.core.retention.checkpoint_order import CheckpointOrder
from ckptd.core.retention.rules import Ranked

_OPTIMIZER = "the state of an optimizer"  # as the readers of formats word it
_LEAST_DELETED = 2  # newer ones, at different times: one alone may have been deleted by hand
_MOST_BEST = 5  # more are milestones, which programs keep by their number and not by a metric


def list_not_replaced(order: CheckpointOrder) -> Iterator[tuple[int, str]]:
    """Yield index and reason of complete checkpoints to keep beside the newest of their series."""
    series = [complete for complete in order.complete_of_series.values() if len(complete) > 1]
    for complete in series:
        yield from _list_by_content(order.sets, complete)
    yield from _list_kept_by_programs(order, series)


def _list_by_content(sets: Sequence[Ranked], complete: Sequence[int]) -> Iterator[tuple[int, str]]:
    newest = complete[-1]
    with_optimizer = [index for index in complete if _OPTIMIZER in sets[index].record.checkpoint.role_evidence]
    if with_optimizer and with_optimizer[-1] != newest:
        yield with_optimizer[-1], "the newest one of its series with the state of an optimizer"
    part_counts = [_count_parts(sets[index]) for index in complete]
    if part_counts[-2] == part_counts[-1] < max(part_counts):
        yield complete[-2], f"it shows that {sets[newest].path} is whole, which has fewer parts than older ones"


def _count_parts(each: Ranked) -> int:
    return len(each.record.checkpoint.parts) or 1


def _list_kept_by_programs(order: CheckpointOrder, series: Iterable[Sequence[int]]) -> Iterator[tuple[int, str]]:
    deleted = {
        complete[-1]: list(filter(_is_deleted_by_others, order.recorded[order.sets[complete[-1]].series]))
        for complete in series
    }
    if max(map(len, deleted.values()), default=0) < _LEAST_DELETED:
        return
    all_recorded = [each for members in order.recorded.values() for each in members]
    left = {key for each in all_recorded if not _is_gone(each) for key in _keys(each)}
    last_seen: dict[str, datetime] = {}
    for each in all_recorded:
        last_seen[each.path] = max(each.record.first_seen_at, last_seen.get(each.path, each.record.first_seen_at))
    for complete in series:
        final = (
            each
            for each in reversed(deleted[complete[-1]])
            # others have another name by now, or were overwritten, as after a restart from an older one
            if each.record.first_seen_at == last_seen[each.path] and left.isdisjoint(_keys(each))
        )
        if (place := _find_nth_deletion(final)) is not None:
            best = [index for index in complete[:-1] if order.sets[index][:2] < place]
            if len(best) <= _MOST_BEST:
                yield from ((index, "its program kept it, and deleted newer ones of its series") for index in best)


def _find_nth_deletion(deleted: Iterable[Ranked]) -> tuple[int, datetime] | None:
    """Return the place of the newest checkpoint behind which enough were deleted at different times; newest first."""
    instants = set()
    for each in deleted:
        instants.add(each.record.deleted_at)
        if len(instants) >= _LEAST_DELETED:
            return each.rank, each.at
    return None


def _is_gone(each: Ranked) -> bool:
    return each.record.deleted_at is not None or each.record.pruned_at is not None


def _is_deleted_by_others(each: Ranked) -> bool:
    return each.is_complete and each.record.deleted_at is not None and each.record.pruned_at is None


def _keys(each: Ranked) -> Iterator[tuple[int, ...]]:
    """Yield what a file keeps when it is renamed; its inode alone may be that of a later file."""
    return ((one.device, one.inode, one.size_bytes, one.modified_ns) for one in each.record.checkpoint.identities)
