"""Find reasons why a restart may start over on purpose: who started the job again, and under which names it saves."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.discovery.generic_job_names import is_interactive
from ckptd.core.model import Attempt, Certainty, EndCause, Job, RecordedCheckpoint, RestartKind, Resume, ResumeReason
from ckptd.core.runs.saved_state import SavedState

COUNTS_ANEW = frozenset({"namd"})  # formats whose programs count from 0 after a resume by default
# a number beside one of the kept words distinguishes trainings that have only their job in common
_NUMBER = re.compile(
    r"(?P<kept>(?<![a-z])(?:folds?|cv|split|seed|trial|stage|phase|lr|bs|task|client|agent)[-_=]?\d+)|\d+",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
# directories that programs make for each start: `version_1` of Lightning's loggers, names with a number or an instant
_OF_A_START = re.compile(
    r"(?:version|run|exp|experiment|attempt|try|job|slurm)[-_]?\d+|.*\d{4}[-_]?\d{2}[-_]?\d{2}.*|\d+"
)


class RestartIntent(StrEnum):
    """Why a restart may be meant not to go on with what was saved last."""

    COMPLETED = "completed"  # the job before ended by itself, and a person submitted another
    RESUBMITTED = "resubmitted"  # a person submitted it again after it had failed or was cancelled, or works in it
    DECLARED = "declared"  # the job says what it loaded
    COUNTED_ANEW = "counted-anew"  # its program counts from 0 again if its input does not contain the last step
    OTHER_NAMES = "other-names"  # it saves under names that nothing before it had


def find_intent(attempt: Attempt, before: Attempt | None, job: Job) -> RestartIntent | None:
    """Return why an attempt may start over on purpose: how the previous one ended, and who started this one."""
    if attempt.resumed_from is not None and attempt.resumed_from.certainty is Certainty.DECLARED:
        return RestartIntent.DECLARED
    if before is None or not is_submitted_later(attempt, before, job):
        return None
    if before.cause is EndCause.COMPLETED:
        return RestartIntent.COMPLETED
    if is_interactive(job.name):
        return RestartIntent.RESUBMITTED
    return RestartIntent.RESUBMITTED if before.cause in {EndCause.CANCEL, EndCause.FAILURE} else None


def is_submitted_later(attempt: Attempt, before: Attempt, job: Job) -> bool:
    """Whether a job was submitted after the one before it had ended, and not as the next one of a chain."""
    if attempt.kind is not RestartKind.RESUBMIT:
        return False
    return job.submitted_at is None or before.ended_at is None or job.submitted_at >= before.ended_at


class Continued(NamedTuple):
    """The newest checkpoint of an attempt whose series was there before, and those of that series."""

    newest: RecordedCheckpoint
    before: list[RecordedCheckpoint]


def find_continued(before: Iterable[RecordedCheckpoint], since: Iterable[RecordedCheckpoint]) -> Continued | None:
    """Return the newest of `since`, which are oldest first, that has the names of a series that was there before.

    Each start may have a directory of its own.
    """
    by_series = _group_by_series(before)
    for newest in reversed([*since]):
        path = newest.checkpoint.path
        alike = [
            each
            for each in by_series.get(_series_of(newest), ())
            if _is_made_for_starts(path.parent, each.checkpoint.path.parent)
        ]
        if alike:
            return Continued(newest, alike)
    return None


def is_next_part(newest: RecordedCheckpoint, ever: Iterable[RecordedCheckpoint], started_at: datetime) -> bool:
    """Whether a run works through parts, such as folds with a number in their names, and has started another part.

    `ever` are its checkpoints, including deleted ones. The run had several parts before, or this attempt, which started
    at `started_at`, has saved in another part.
    """
    name, own = _DIGITS.sub("#", str(newest.checkpoint.path)), _series_of(newest)
    groups = _group_by_series(ever)
    parts = [members for series, members in groups.items() if series != own and _is_called(name, members)]
    is_moved_on = any(each.checkpoint.modified_at > started_at for members in parts for each in members)
    return len(parts) > 1 or is_moved_on


def _is_called(name: str, members: Iterable[RecordedCheckpoint]) -> bool:
    return any(_DIGITS.sub("#", str(each.checkpoint.path)) == name for each in members)


def _group_by_series(records: Iterable[RecordedCheckpoint]) -> dict[tuple[str, str], list[RecordedCheckpoint]]:
    by_series: dict[tuple[str, str], list[RecordedCheckpoint]] = defaultdict(list)
    for each in records:
        by_series[_series_of(each)].append(each)
    return by_series


def _series_of(record: RecordedCheckpoint) -> tuple[str, str]:
    path = record.checkpoint.path
    return record.checkpoint.grouping.series or _strip(path.name), _strip(str(path.parent))


def doubt_fresh_start(
    fresh: Resume, own: Sequence[SavedState], there: Collection[SavedState], job_ids: Collection[int]
) -> Resume:
    """Turn a start from the beginning that progress suggests into an unknown one, if the attempt may have resumed.

    Its program may count from 0 again. Or it saves in another directory, or its names differ in the number of a part:
    then it may do other work, such as the next fold of a cross-validation or a fine-tuning of the earlier model.
    Directories that are made for each start, or named after one of `job_ids`, are no other directories in this sense.
    Another name in the same directory is no reason.
    """
    if own and own[0].format in COUNTS_ANEW and any(each.format == own[0].format for each in there):
        return _doubt(fresh, ResumeReason.COUNTED_ANEW, there)
    names, earlier = frozenset(map(str, job_ids)), {PurePosixPath(each.path) for each in there}
    paths = [PurePosixPath(each.path) for each in own]
    alike = [
        (path, other)
        for path in paths
        for other in earlier
        if _strip(str(path.parent)) == _strip(str(other.parent))
        and _is_made_for_starts(path.parent, other.parent, names)
    ]
    if any(_strip(path.name) == _strip(other.name) for path, other in alike):
        return fresh
    called = {_DIGITS.sub("#", str(each)) for each in earlier}
    is_next = any(_DIGITS.sub("#", str(path)) in called for path in paths)
    return _doubt(fresh, ResumeReason.OTHER_NAMES, there) if earlier and (is_next or not alike) else fresh


def _doubt(fresh: Resume, reason: ResumeReason, there: Iterable[SavedState]) -> Resume:
    candidates = tuple(each.candidate for each in sorted(there, key=lambda each: (each.completed_at, each.path)))
    return replace(fresh, certainty=Certainty.UNKNOWN, reason=reason, candidates=candidates, may_be_fresh=True)


@lru_cache(maxsize=4096)
def _strip(text: str) -> str:
    return _NUMBER.sub(lambda found: found["kept"] or "#", text)


def _is_made_for_starts(here: PurePosixPath, there: PurePosixPath, job_ids: frozenset[str] = frozenset()) -> bool:
    pairs = [(a, b) for a, b in zip(here.parts, there.parts, strict=False) if a != b]
    return all(
        _OF_A_START.fullmatch(name) or _is_progress(name) or not job_ids.isdisjoint(_DIGITS.findall(name))
        for pair in pairs
        for name in pair
    )


def _is_progress(name: str) -> bool:
    return re.fullmatch(r"(?:checkpoint|ckpt|epoch|step|iter|global_step)[-_=]?\d+", name) is not None
