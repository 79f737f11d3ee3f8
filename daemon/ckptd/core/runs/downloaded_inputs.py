"""Distinguish weights that a job downloaded when it started from those that it saved: downloads are no checkpoints."""

from datetime import datetime, timedelta

from ckptd.core.model import Attempt, RecordedCheckpoint, Role, RunRecord
from ckptd.core.runs.resumable import may_be_results

FETCHING = timedelta(minutes=10)  # after the start of an attempt, in which it fetches what it begins with
LEAST_RUN_TIME = timedelta(minutes=30)  # of one attempt that wrote nothing afterwards: a training would have saved


def are_only_inputs(history: RunRecord) -> bool:
    """Whether all files of a run may be downloads: weights under fixed names, written at starts and never later.

    Only files that a search found can be. `is_best` marks what a program saves itself.
    """
    if not may_be_results(history) or not any(_ran_for_long(each) for each in history.attempts):
        return False
    starts = [each.started_at for each in history.attempts]
    return all(_may_be_input(each) and _is_of_a_start(each, starts) for each in history.checkpoints)


def _ran_for_long(attempt: Attempt) -> bool:
    return attempt.ended_at is not None and attempt.ended_at - attempt.started_at >= LEAST_RUN_TIME


def _may_be_input(record: RecordedCheckpoint) -> bool:
    found = record.checkpoint
    is_numbered = found.step is not None or found.epoch is not None or bool(found.grouping.progress)
    return found.role is Role.WEIGHTS and not is_numbered and not found.is_best


def _is_of_a_start(record: RecordedCheckpoint, starts: list[datetime]) -> bool:
    """Whether a file was last written soon after a start, or before the first of them."""
    written_at = record.checkpoint.modified_at
    return written_at < min(starts) or any(start <= written_at <= start + FETCHING for start in starts)
