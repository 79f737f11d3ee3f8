"""Decide whether all checkpoints of a run were deleted before a restart could load them, perhaps on purpose.

Users who start a training over delete its checkpoints and submit again. A batch script or a clean-up job may delete
them by mistake. Only the owner knows which it was.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ckptd.core.model import Attempt, EndCause, RecordedCheckpoint, RestartKind, RunRecord
from ckptd.core.runs.attempt_index import index_attempts
from ckptd.core.runs.resumable import list_resumable

LEAST_AT_ONCE = 2  # checkpoints that go with the first own save: no rotation removes several for one


class EarlierDeletion(NamedTuple):
    """How many complete checkpoints were deleted, and whether a person probably started the job again."""

    checkpoint_count: int
    is_by_hand: bool


def find_removal(history: RunRecord, attempt: Attempt) -> EarlierDeletion | None:
    """Return what was deleted between the attempt before and the first save of this one; None if anything was left.

    What a newer save has replaced under the same name was not deleted, nor what retention removed.
    """
    earlier = index_attempts(history).find_before(attempt.started_at)
    if earlier is None or earlier.ended_at is None:
        return None
    ended_at = earlier.ended_at
    saved = [each for each in list_resumable(history.checkpoints) if each.completed_at is not None]
    before = [each for each in saved if each.checkpoint.modified_at < attempt.started_at]
    own = [each for each in history.checkpoints if each.checkpoint.modified_at >= attempt.started_at]
    left = [each for each in before if each.deleted_at is None or each.deleted_at > ended_at]
    if not left or any(each.deleted_at is None or each.pruned_at is not None for each in left):
        return None
    first_seen_at = min((each.first_seen_at for each in own), default=None)
    if first_seen_at is not None and not _is_gone_by_then(left, own, first_seen_at):
        return None
    return EarlierDeletion(len(left), _is_started_by_hand(attempt, earlier))


def _is_gone_by_then(
    left: Iterable[RecordedCheckpoint], own: Iterable[RecordedCheckpoint], first_seen_at: datetime
) -> bool:
    """Whether all were gone before the first own save was seen, or with it and most of them without a successor.

    A single one that went with it may be what a rotation made room for.
    """
    paths = {each.checkpoint.path for each in own}
    last = [each for each in left if each.deleted_at is not None and each.deleted_at >= first_seen_at]
    removed = [each for each in last if each.checkpoint.path not in paths]
    return not last or (all(each.deleted_at == first_seen_at for each in last) and len(removed) >= LEAST_AT_ONCE)


def _is_started_by_hand(attempt: Attempt, before: Attempt) -> bool:
    return attempt.kind is RestartKind.RESUBMIT or before.cause is EndCause.REQUEUE
