"""Decide whether jobs that save into one directory at the same time overwrite each other's checkpoints.

The order of the saves shows it. A single job counts up: under one name its progress never decreases, and it never uses
a number twice. If that happens while several jobs run, one overwrites the checkpoints of another. The same is true if
each job saves each progress once under one name: jobs that started together may advance at the same pace. If several
series of names each count up, the jobs write separate files.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from enum import Enum, auto
from itertools import pairwise
from pathlib import PurePosixPath

from ckptd.core.discovery.declared import NAMING_PLACES
from ckptd.core.model import Attempt, Job, RecordedCheckpoint, RunHistory
from ckptd.core.runs import history as facts
from ckptd.core.runs.resumable import list_resumable

LEAST_REPEATED = 3  # values of progress in a row that are saved once by each job, to see that jobs keep step
LEAST_SAVES = 2  # of one series with different progress, to see that it goes on by itself


class Sharing(Enum):
    """What is known of jobs that save into one directory."""

    COLLIDES = auto()  # one has overwritten what another saved
    UNKNOWN = auto()
    IS_SEPARATE = auto()  # each of them has names of its own


def judge_sharing(history: RunHistory, others: Sequence[Job]) -> Sharing:
    """Judge by what was saved since two of the running jobs ran together; `others` are jobs of other runs there."""
    together = _list_together(history)
    starts = sorted([each.started_at for each in together] + [job.started_at for job in others if job.started_at])
    if len(starts) < 2:
        return Sharing.UNKNOWN
    job_count = len({each.job for each in together}) + len(others)
    going_on = new = 0
    for members, counts in _list_series(history, starts[1], job_count):
        ordered = sorted(members, key=_saved_at)
        later = [each for each in ordered if _saved_at(each) >= starts[1]]
        steps_back = (pair for pair in pairwise(later) if _is_step_back(*pair, is_counted=counts))
        if any(not _is_restarted_between(history, *pair) for pair in steps_back):
            return Sharing.COLLIDES
        if not counts and _keep_step(history, ordered, starts[1], job_count):
            return Sharing.COLLIDES
        if len({facts.progress(each.checkpoint) for each in later} - {None}) >= LEAST_SAVES:
            going_on += 1
            new += later[0] is ordered[0]
    return Sharing.IS_SEPARATE if going_on > 1 and new else Sharing.UNKNOWN


def _list_series(history: RunHistory, since: datetime, job_count: int) -> list[tuple[list[RecordedCheckpoint], bool]]:
    """Return the checkpoints that one job alone would write in order, and whether the numbers in their names count.

    Those are the checkpoints of one series, or else of one name.

    A number in the names may be that of a task, `model_3.pt`. It counts progress if a word such as `epoch` says so, or
    if there are more numbers than jobs.
    """
    by_series: dict[tuple[str, str], list[RecordedCheckpoint]] = defaultdict(list)
    for each in list_resumable(history.checkpoints):
        if each.completed_at is not None:
            by_series[each.checkpoint.grouping.series, each.checkpoint.format].append(each)
    found: list[tuple[list[RecordedCheckpoint], bool]] = []
    for (series, _), members in by_series.items():
        numbers = {each.checkpoint.grouping.progress for each in members if _saved_at(each) >= since}
        has_word = all(each.checkpoint.grouping.has_progress_word for each in members)
        if series and (has_word or len(numbers) > job_count):
            found.append((members, True))
            continue
        by_path: dict[PurePosixPath, list[RecordedCheckpoint]] = defaultdict(list)
        for each in members:
            by_path[each.checkpoint.path].append(each)
        found.extend((alike, False) for alike in by_path.values())
    return found


def _list_together(history: RunHistory) -> list[Attempt]:
    """Return the attempts that ran beside one that runs now, these included."""
    running = [attempt for job in facts.running_jobs(history) if (attempt := facts.attempt_of(history, job))]
    if not running:
        return []
    first_at = min(each.started_at for each in running)
    return [each for each in history.attempts if each.ended_at is None or each.ended_at > first_at]


def _is_step_back(earlier: RecordedCheckpoint, later: RecordedCheckpoint, *, is_counted: bool) -> bool:
    """Whether one job alone would not have saved these two in this order; a number that counts is saved once."""
    before, after = facts.progress(earlier.checkpoint), facts.progress(later.checkpoint)
    if before is None or after is None or before[0] != after[0]:
        return False
    return after[1] < before[1] or (is_counted and earlier.checkpoint.path == later.checkpoint.path)


def _keep_step(history: RunHistory, saves: Sequence[RecordedCheckpoint], since: datetime, job_count: int) -> bool:
    """Whether each progress has been saved once more by each job under one name, since `since`, when two ran.

    What one job alone saved before then shows how often it saves each. Where nothing does, all jobs must have one name
    and say themselves that they save there: a job may save each progress twice while another only reads.
    """
    units = [(_saved_at(each) < since, found) for each in saves if (found := facts.progress(each.checkpoint))]
    before = Counter(found for is_before, found in units if is_before)
    after = Counter(found for is_before, found in units if not is_before)
    whole = [*after][1:-1]  # the first and the last one may be saved again before or after what is on record
    repeated = [after[found] for found in whole][-LEAST_REPEATED:]
    if len(repeated) < LEAST_REPEATED or whole != sorted(whole):
        return False
    if len(before) >= LEAST_SAVES:
        return min(repeated) >= 2 * max(before.values())
    own = facts.running_jobs(history)
    are_alike = len({job.name for job in own}) == 1 and len(own) == job_count and history.located_by in NAMING_PLACES
    return are_alike and set(repeated) == {job_count}


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
