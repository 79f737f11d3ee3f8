"""What will be: the next checkpoint, and the work that the time limit will take."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from ckptd.core import history as facts
from ckptd.core.model import Attempt, RecordedCheckpoint, RunHistory


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveRhythm:
    """How a run saves, as measured. None: not known yet."""

    interval: timedelta | None  # median time between completions within one attempt
    interval_count: int
    save_time: timedelta | None  # median from the first byte to complete, of saves that were seen being written


def measure_rhythm(history: RunHistory) -> SaveRhythm:
    """Measure over all attempts; a pause between attempts is no interval."""
    completed = sorted(record.completed_at for record in history.checkpoints if record.completed_at is not None)
    gaps: list[timedelta] = []
    for attempt in history.attempts:
        end = attempt.ended_at
        own = [at for at in completed if at >= attempt.started_at and (end is None or at <= end)]
        gaps.extend(later - earlier for earlier, later in pairwise(own) if later > earlier)
    durations = [
        record.completed_at - record.started_writing_at
        for record in history.checkpoints
        if record.completed_at is not None and record.started_writing_at is not None
    ]
    return SaveRhythm(
        interval=median_duration(gaps),
        interval_count=len(gaps),
        save_time=median_duration(durations),
    )


def median_duration(durations: list[timedelta]) -> timedelta | None:
    """The median; None of nothing."""
    return timedelta(seconds=median(each.total_seconds() for each in durations)) if durations else None


def newest_save(history: RunHistory, attempt: Attempt) -> RecordedCheckpoint | None:
    """The newest checkpoint completed during this attempt."""
    saves = facts.saves_since(history, attempt.started_at)
    return max(saves, key=lambda record: record.completed_at or record.first_seen_at) if saves else None


def next_checkpoint_at(history: RunHistory, attempt: Attempt, now: datetime) -> datetime | None:
    """When the next checkpoint is expected to be complete; None where no interval is known."""
    rhythm = measure_rhythm(history)
    if rhythm.interval is None:
        return None
    newest = newest_save(history, attempt)
    base = newest.completed_at if newest and newest.completed_at else attempt.started_at
    expected = base + rhythm.interval
    return max(expected, now + (rhythm.save_time or timedelta(0)))


def daly_optimum(save_time: timedelta, mean_time_between_interruptions: timedelta) -> timedelta:
    """The interval that loses least (J. T. Daly, 2006, eq. 37): d is the save time, M the mean time between failures.

    sqrt(2dM) * (1 + sqrt(d/(2M))/3 + d/(2M)/9) - d for d < 2M, else M.
    """
    save = save_time.total_seconds()
    mean = mean_time_between_interruptions.total_seconds()
    if save >= 2 * mean:
        return mean_time_between_interruptions
    ratio = save / (2 * mean)
    return timedelta(seconds=math.sqrt(2 * save * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save)
