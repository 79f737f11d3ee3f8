"""Distinguishes checkpoints that a run can resume from and the other files in its directory: data, exports, samples.

A job may write samples more often than checkpoints, and most jobs write only results. Such files do not show how often
the job saves, its progress, or the work that is lost when it ends.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath

from ckptd.core.model import CheckpointState, RecordedCheckpoint, Role, RunRecord, UserSettings

_NAMED_SO = re.compile(r"(?<![a-z])(?:checkpoints?|checkpointing|ckpts?|chkpts?|chk|cpt|restarts?|resume)(?![a-z])")


def list_resumable(recorded: Iterable[RecordedCheckpoint]) -> tuple[RecordedCheckpoint, ...]:
    """Return the states among a run's checkpoints, in their order; all of them if there is no state.

    The role of one that is being written or damaged may not be known: it counts if states have the same format.
    """
    everything = tuple(recorded)
    formats = {each.checkpoint.format for each in everything if each.checkpoint.role is Role.STATE}
    if not formats:
        return everything
    return tuple(
        each
        for each in everything
        if each.checkpoint.role is Role.STATE
        or (each.checkpoint.state is not CheckpointState.COMPLETE and each.checkpoint.format in formats)
    )


def are_only_data(history: RunRecord) -> bool:
    """Whether a run's files are `may_be_results`, and all of them have the role `data`."""
    return may_be_results(history) and all(each.checkpoint.role is Role.DATA for each in history.checkpoints)


def may_be_results(history: RunRecord) -> bool:
    """Whether the files of a run may be results, because neither content nor names nor the user call them checkpoints.

    A search found the directory, no file is a resumable state, and no name of a file or directory suggests checkpoints.
    Jobs without checkpoints write such files: results, or the best model so far.
    """
    if history.located_by != "discovery" or not history.checkpoints or is_meant_to_save(history.user_settings):
        return False
    return not any(
        each.checkpoint.role is Role.STATE or is_named_as_checkpoint(each.checkpoint.path)
        for each in history.checkpoints
    )


def is_meant_to_save(settings: UserSettings) -> bool:
    """Whether a user's own settings show that the run saves checkpoints."""
    is_goal_set = settings.goal_epoch is not None or settings.goal_step is not None
    return is_goal_set or settings.saves_on_signal or settings.is_resubmitted or settings.directory is not None


def is_named_as_checkpoint(path: PurePath) -> bool:
    """Whether a file, or the directory that it is in, is named for checkpoints."""
    return any(_NAMED_SO.search(part.lower()) for part in path.parts[-2:])
