"""Tell why a restart that did not go on may be meant: who started the job again, and under which names it saves now."""

import re
from enum import StrEnum
from pathlib import PurePosixPath

from ckptd.core.model import Attempt, Certainty, EndCause, Job, RecordedCheckpoint, RestartKind

_NUMBER = re.compile(r"\d+")
# directories that programs make for each start: `version_1` of Lightning's loggers, names with a number or an instant
_OF_A_START = re.compile(
    r"(?:version|run|exp|experiment|attempt|try|job|slurm)[-_]?\d+|.*\d{4}[-_]?\d{2}[-_]?\d{2}.*|\d+"
)


class RestartIntent(StrEnum):
    """Why a restart may be meant not to go on with what was saved last."""

    COMPLETED = "completed"  # the job before ended by itself, and a person submitted another
    RESUBMITTED = "resubmitted"  # a person submitted it again after it had failed or was cancelled
    DECLARED = "declared"  # the job says what it loaded
    OTHER_NAMES = "other-names"  # it saves under names that nothing before it had


def find_intent(attempt: Attempt, before: Attempt | None, job: Job) -> RestartIntent | None:
    """Return why an attempt may begin anew on purpose, by how the one before it ended and who started this one."""
    if attempt.resumed_from is not None and attempt.resumed_from.certainty is Certainty.DECLARED:
        return RestartIntent.DECLARED
    if before is None or not is_submitted_later(attempt, before, job):
        return None
    if before.cause is EndCause.COMPLETED:
        return RestartIntent.COMPLETED
    return RestartIntent.RESUBMITTED if before.cause in {EndCause.CANCEL, EndCause.FAILURE} else None


def is_submitted_later(attempt: Attempt, before: Attempt, job: Job) -> bool:
    """Whether a job was submitted after the one before it had ended, and not as the next one of a chain."""
    if attempt.kind is not RestartKind.RESUBMIT:
        return False
    return job.submitted_at is None or before.ended_at is None or job.submitted_at >= before.ended_at


def is_of_one_series(one: RecordedCheckpoint, other: RecordedCheckpoint) -> bool:
    """Whether two checkpoints have the names of one series, where each start may have a directory of its own."""
    if _name_of(one) != _name_of(other):
        return False
    here, there = one.checkpoint.path.parent, other.checkpoint.path.parent
    return _strip(here) == _strip(there) and _is_made_for_starts(here, there)


def _name_of(record: RecordedCheckpoint) -> str:
    return record.checkpoint.grouping.series or _NUMBER.sub("#", record.checkpoint.path.name)


def _strip(directory: PurePosixPath) -> str:
    return _NUMBER.sub("#", str(directory))


def _is_made_for_starts(here: PurePosixPath, there: PurePosixPath) -> bool:
    pairs = [(a, b) for a, b in zip(here.parts, there.parts, strict=False) if a != b]
    return all(_OF_A_START.fullmatch(name) or _is_progress(name) for pair in pairs for name in pair)


def _is_progress(name: str) -> bool:
    return re.fullmatch(r"(?:checkpoint|ckpt|epoch|step|iter|global_step)[-_=]?\d+", name) is not None
