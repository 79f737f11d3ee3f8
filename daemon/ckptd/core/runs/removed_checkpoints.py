"""Tell whether everything that a run had saved was deleted before a restart could load it, perhaps on purpose.

Whoever starts a training over deletes what is there and submits again. A batch script or a clean-up that deletes it
does the same by mistake, and only the owner knows which it was.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ckptd.core.model import Attempt, EndCause, RecordedCheckpoint, RestartKind, RunRecord
from ckptd.core.runs.resumable import list_resumable


class Removal(NamedTuple):
    """How many complete checkpoints were deleted, and whether a person probably started the job again."""

    checkpoint_count: int
    is_by_hand: bool


def find_removal(history: RunRecord, attempt: Attempt) -> Removal | None:
    """Return what was deleted between the attempt before and the first save of this one; None if anything was left.

    What a newer save has replaced under the same name was not deleted, nor what retention removed.
    """
    earlier = [each for each in history.attempts if each.started_at < attempt.started_at]
    if not earlier or earlier[-1].ended_at is None:
        return None
    ended_at = earlier[-1].ended_at
    saved = [each for each in list_resumable(history.checkpoints) if each.completed_at is not None]
    before = [each for each in saved if each.checkpoint.modified_at < attempt.started_at]
    own = [each for each in history.checkpoints if each.checkpoint.modified_at >= attempt.started_at]
    left = [each for each in before if each.deleted_at is None or each.deleted_at > ended_at]
    if not left or not all(_is_removed(each, own) for each in left):
        return None
    return Removal(len(left), _is_started_by_hand(attempt, earlier[-1]))


def _is_removed(record: RecordedCheckpoint, own: Iterable[RecordedCheckpoint]) -> bool:
    if record.deleted_at is None or record.pruned_at is not None:
        return False
    return all(
        record.deleted_at < each.first_seen_at
        or (record.deleted_at == each.first_seen_at and record.checkpoint.path != each.checkpoint.path)
        for each in own
    )


def _is_started_by_hand(attempt: Attempt, before: Attempt) -> bool:
    return attempt.kind is RestartKind.RESUBMIT or before.cause is EndCause.REQUEUE
