"""Tell what jobs that save into one directory at the same time do to each other, by the order of what they save.

One job alone counts up: it never saves less progress than before under one name, and never numbers a save as it did
before. Where that happens while several run, one overwrites what another saved. Where each of several series of names
goes on by itself, they write files of their own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum, auto
from itertools import pairwise

from ckptd.core.model import Attempt, Job, RecordedCheckpoint, RunHistory
from ckptd.core.runs import history as facts
from ckptd.core.runs.resumable import list_resumable

LEAST_SAVES = 2  # of one series, to see that it goes on by itself


class Sharing(Enum):
    """What is known of jobs that save into one directory."""

    COLLIDES = auto()  # one has overwritten what another saved
    UNKNOWN = auto()
    IS_SEPARATE = auto()  # each of them has names of its own


def judge_sharing(history: RunHistory, others: Iterable[Job]) -> Sharing:
    """Judge by what was saved since two of the running jobs ran together; `others` are jobs of other runs there."""
    since = _find_second_start(history, others)
    if since is None:
        return Sharing.UNKNOWN
    series: dict[tuple[str, str], list[RecordedCheckpoint]] = defaultdict(list)
    for each in list_resumable(history.checkpoints):
        if each.completed_at is not None:
            series[each.checkpoint.grouping.series or str(each.checkpoint.path), each.checkpoint.format].append(each)
    going_on = new = 0
    for members in series.values():
        ordered = sorted(members, key=_saved_at)
        later = [each for each in ordered if _saved_at(each) >= since]
        if any(_is_step_back(*pair) and not _is_restarted_between(history, *pair) for pair in pairwise(later)):
            return Sharing.COLLIDES
        if len(later) >= LEAST_SAVES and all(facts.progress(each.checkpoint) for each in later):
            going_on += 1
            new += later[0] is ordered[0]
    return Sharing.IS_SEPARATE if going_on > 1 and new else Sharing.UNKNOWN


def _find_second_start(history: RunHistory, others: Iterable[Job]) -> datetime | None:
    """Return when the second of the jobs started that ran beside those that run now."""
    running = [attempt for job in facts.running_jobs(history) if (attempt := facts.attempt_of(history, job))]
    together = [each for each in history.attempts if any(_overlap(each, now) for now in running)]
    starts = [each.started_at for each in together]
    starts += [job.started_at for job in others if job.started_at is not None]
    return sorted(starts)[1] if len(starts) > 1 else None


def _overlap(one: Attempt, running: Attempt) -> bool:
    return one.ended_at is None or one.ended_at > running.started_at


def _is_step_back(earlier: RecordedCheckpoint, later: RecordedCheckpoint) -> bool:
    """Whether one job alone would not have saved these two of one series in this order."""
    before, after = facts.progress(earlier.checkpoint), facts.progress(later.checkpoint)
    if before is None or after is None or before[0] != after[0]:
        return False
    is_numbered = bool(later.checkpoint.grouping.progress)
    return after[1] < before[1] or (is_numbered and earlier.checkpoint.path == later.checkpoint.path)


def _is_restarted_between(history: RunHistory, earlier: RecordedCheckpoint, later: RecordedCheckpoint) -> bool:
    """Whether a job of the run started between two saves: then one job alone may have begun again."""
    return any(_saved_at(earlier) < each.started_at <= _saved_at(later) for each in history.attempts)


def _saved_at(record: RecordedCheckpoint) -> datetime:
    return record.checkpoint.modified_at


def list_jobs_to_tell(history: RunHistory, rule: str, own: Sequence[Job]) -> list[Job]:
    """Return one job for each array, the one whose flag is open or else the first; every job that is in none."""
    told: dict[int, Job] = {}
    for job in sorted(own, key=lambda each: (not facts.is_flagged(history, rule, each), each.job_id)):
        told.setdefault(job.job_id if job.array_job_id is None else job.array_job_id, job)
    return sorted(told.values(), key=lambda each: each.job_id)
