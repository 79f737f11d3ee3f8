"""What a run has on record, as the question asks for it what an attempt resumed from."""

from ckptd.core.model import Role
from ckptd.core.runs.saved_state import SavedState


def list_states(recorded):
    """The checkpoints that were complete once."""
    return [
        SavedState(
            path=str(each.checkpoint.path),
            completed_at=each.completed_at,
            deleted_at=each.deleted_at,
            step=each.checkpoint.step,
            epoch=each.checkpoint.epoch,
            attempt=each.attempt,
            is_state=each.checkpoint.role is Role.STATE,
            continued_count=each.checkpoint.continued_count,
            continued_from_step=each.checkpoint.continued_from_step,
            computation=each.checkpoint.computation,
            format=each.checkpoint.format,
        )
        for each in recorded
        if each.completed_at is not None
    ]
