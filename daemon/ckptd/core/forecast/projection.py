"""Forecasts: the next checkpoint, work lost at the time limit, what fits before it, and when the disk is full."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from ckptd.core.model import Attempt, EndCause, FreeSpaceSample, LimitSignal, RecordedCheckpoint, RunRecord, Scan
from ckptd.core.model.save_cadence import SaveCadence
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm, saves_of
from ckptd.core.runs.resumable import list_resumable, may_be_results
from ckptd.core.tracked_now import read_seconds

MARGIN = timedelta(seconds=60)  # that a save should be complete before the limit
CAUTION = 1.3  # spreads that a later save may be late and still be counted on
NEXT_CAUTION = 0.3  # the same for the next save: it is near, and ckptd can still warn if it is late
SIGNAL_LEAD = timedelta(minutes=10)  # assumed of a signal of which only its user tells
SIGNAL_GRACE = timedelta(seconds=45)  # after a signal, for a step of the program and for the scan of its files
SAVE_MARGIN = 1.5  # of the time that saves took, for one that is to be complete
SILENCE = 3  # intervals without a save, after which none is counted on
FAR = timedelta(days=36500)  # what nobody can foretell is foretold for then
MIN_SAMPLE_SPAN = timedelta(minutes=30)  # samples of the free space must span it before a rate follows from them


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitForecast:
    """The work that an attempt will lose at its time limit, from its run's checkpoint interval."""

    next_at: datetime  # when the next save is expected to be complete
    saves_that_fit: int  # before the limit, the margin kept
    last_save_at: datetime  # the newest that is expected to be complete at the limit; the attempt's start without any
    lost: timedelta  # from then until the limit
    silent_since: datetime | None = None  # no save is counted on any more, because none came since then


def newest_save(history: RunRecord, attempt: Attempt) -> RecordedCheckpoint | None:
    """The newest checkpoint completed during this attempt."""
    saves = list_resumable(facts.saves_since(history, attempt.started_at))
    return max(saves, key=attrgetter("completed_at"), default=None)


def saved_until(history: RunRecord, attempt: Attempt) -> datetime:
    """The time of the work that is saved: of the newest checkpoint, or the attempt's start without any."""
    newest = newest_save(history, attempt)
    return newest.completed_at if newest and newest.completed_at else attempt.started_at


def next_checkpoint_at(
    history: RunRecord, attempt: Attempt, now: datetime, rhythm: SaveCadence | None = None
) -> datetime | None:
    """When the next checkpoint is expected to be complete; None if no interval is known.

    The first one of an attempt is expected after the time that earlier attempts needed, if there are any.
    """
    rhythm = rhythm or measure_rhythm(history)
    due_at = _next_due_at(history, attempt, rhythm)
    if due_at is None:
        return None
    save_time = rhythm.save_time or timedelta(0)
    begun = [record.started_writing_at or now for record in facts.being_written(history)]
    if begun:
        return max(max(begun) + save_time, now)
    return max(due_at, now + save_time)


def _next_due_at(history: RunRecord, attempt: Attempt, rhythm: SaveCadence) -> datetime | None:
    """When the next checkpoint is due, which may have passed; None if no interval is known."""
    newest = newest_save(history, attempt)
    if newest is None or newest.completed_at is None:
        step = rhythm.time_to_first or rhythm.interval
        base = attempt.started_at
    else:
        step = rhythm.step_interval
        base = newest.completed_at
    return None if step is None else facts.idle_since(history, attempt, base) + step


def at_limit(  # noqa: PLR0913 - few callers give those with defaults
    history: RunRecord,
    attempt: Attempt,
    ends_at: datetime,
    now: datetime,
    *,
    margin: timedelta = MARGIN,
    is_strict: bool = False,
    most_saves: int | None = None,
) -> LimitForecast | None:
    """Forecast the work lost at the limit; None if no interval is known, or if the files may be results.

    A checkpoint counts as expected only if it is complete before the limit even when it is late: by NEXT_CAUTION times
    the usual spread of intervals for the next one, by CAUTION times for later ones; these delays add up. If the last
    scan found no save of the last SILENCE intervals, none is expected. If `is_strict` is true, the next one is treated
    like later ones, and no checkpoint is expected once it is later than that.

    `most_saves` is the highest count that matters to the caller. While the next checkpoint is late, the exact count
    changes all the time, but whether that many fit does not.
    """
    rhythm = measure_rhythm(history)
    next_at = next_checkpoint_at(history, attempt, now, rhythm)
    interval = rhythm.step_interval
    if next_at is None or not interval or may_be_results(history):
        return None
    last_save_at = saved_until(history, attempt)
    is_late = is_strict and _is_late(history, attempt, rhythm, now)
    if rhythm.interval is None and not is_strict and now > last_save_at + interval + rhythm.spread * CAUTION:
        return None  # one save alone lets expect nothing once it is not followed by the next
    count = 0
    if is_silent(history, attempt, now, rhythm) or (is_late and not facts.being_written(history)):
        return LimitForecast(
            next_at=next_at,
            saves_that_fit=0,
            last_save_at=last_save_at,
            lost=max(ends_at - last_save_at, timedelta(0)),
            silent_since=facts.idle_since(history, attempt, last_save_at),
        )
    time_left = ends_at - margin - next_at
    if time_left >= rhythm.spread * (CAUTION if is_strict else NEXT_CAUTION):
        count = _count_that_fit(time_left, interval, rhythm.spread, most_saves)
        last_save_at = next_at + interval * (count - 1)
    lost = max(ends_at - last_save_at, timedelta(0))
    return LimitForecast(next_at=next_at, saves_that_fit=count, last_save_at=last_save_at, lost=lost)


def is_silent(history: RunRecord, attempt: Attempt, now: datetime, rhythm: SaveCadence | None = None) -> bool:
    """Whether an attempt has saved nothing for SILENCE intervals and is not saving, so that no save is expected.

    That is as of the last scan, because a job may save several times between two; suspended time does not count.
    """
    interval = (rhythm or measure_rhythm(history)).step_interval
    if not interval or facts.being_written(history):
        return False
    since = facts.idle_since(history, attempt, max(saved_until(history, attempt), attempt.started_at))
    seen_until = history.scan.scanned_at if isinstance(history.scan, Scan) else now
    return seen_until > since + interval * SILENCE


def _is_late(history: RunRecord, attempt: Attempt, rhythm: SaveCadence, now: datetime) -> bool:
    due_at = _next_due_at(history, attempt, rhythm)
    return due_at is not None and now - due_at > max(rhythm.spread * CAUTION, MARGIN)


def _count_that_fit(time_left: timedelta, interval: timedelta, spread: timedelta, most: int | None) -> int:
    """Return how many saves fit if the first one does, with `time_left` after it; at most `most`.

    The largest n with (n - 1) * interval + CAUTION * spread * sqrt(n) <= time_left, at least 1. Floats compute it
    first; then it is compared, because comparisons tell until when it holds.
    """
    if most is not None and time_left >= _time_of(most, interval, spread):
        return most
    slack = CAUTION * (spread / interval)
    left = read_seconds(time_left) / interval.total_seconds()
    root = (math.sqrt(slack * slack + 4 * (left + 1)) - slack) / 2
    count = max(int(root * root + 1e-9), 1)
    while count > 1 and time_left < _time_of(count, interval, spread):
        count -= 1
    while time_left >= _time_of(count + 1, interval, spread):
        count += 1
    return count


def _time_of(count: int, interval: timedelta, spread: timedelta) -> timedelta:
    return interval * (count - 1) + spread * (CAUTION * math.sqrt(count))


def saves_before_limit(
    history: RunRecord, *, tolerance: timedelta, asked: LimitSignal | None = None, is_signalled: bool = False
) -> bool:
    """Return whether the run is known to save shortly before its limit, because it says so or because it did so before.

    - ckptd will send a signal, or both the user settings and the script name one: true, until an attempt reaches its
      limit and has not saved after the signal.
    - Only one of settings and script names a signal: true once an attempt has saved after one.
    - Neither does: true if the newest two attempts that reached their limit (or the only one) each saved shortly before
      the end, and sooner after the previous checkpoint than usual. Otherwise the save was a coincidence.
    """
    ended = [each for each in history.attempts if ended_at_limit(each)][-2:]
    rhythm = measure_rhythm(history)
    lead = timedelta(seconds=asked.lead_seconds) if asked else SIGNAL_LEAD
    declares, asks = history.user_settings.saves_on_signal, asks_in_time(asked, rhythm)
    if is_signalled or (declares and asks) or (ended and (declares or asks)):
        return not ended or not lost_at_limit(history, ended[-1], tolerance + lead)
    return bool(ended) and all(_saved_late(history, attempt, rhythm, tolerance) for attempt in ended)


def save_due_at(
    ends_at: datetime, lead: timedelta | None, asked: LimitSignal | None, rhythm: SaveCadence
) -> datetime | None:
    """When the save after the first signal before a limit should be complete; None if no signal is known.

    `lead` is that of the signal that ckptd sends.
    """
    leads = [lead] if lead is not None else []
    if asked is not None and asks_in_time(asked, rhythm):
        leads.append(timedelta(seconds=asked.lead_seconds))
    if not leads:
        return None
    return ends_at - max(leads) + (rhythm.save_time or timedelta(0)) * SAVE_MARGIN + SIGNAL_GRACE


def asks_in_time(asked: LimitSignal | None, rhythm: SaveCadence) -> bool:
    """Whether a signal before the limit leaves enough time for a save."""
    return asked is not None and timedelta(seconds=asked.lead_seconds) >= (rhythm.save_time or timedelta(0))


def ended_at_limit(attempt: Attempt) -> bool:
    """Whether an attempt ended because of its limit: by it, or by a requeue of its own shortly before."""
    if attempt.ended_at is None:
        return False
    if attempt.cause is EndCause.TIME_LIMIT:
        return True
    if attempt.cause is not EndCause.REQUEUE or attempt.time_limit is None:
        return False
    left = attempt.started_at + attempt.time_limit - attempt.ended_at
    return left < max(timedelta(minutes=10), attempt.time_limit * 0.02)


def lost_at_limit(history: RunRecord, attempt: Attempt, tolerance: timedelta) -> bool:
    """Whether an attempt ended because of its limit and had not saved within `tolerance` before it.

    The same progress once more counts as saved: a job that saves at its limit may be in the epoch that it saved before.
    """
    if attempt.ended_at is None or not ended_at_limit(attempt):
        return False
    saves = saves_of(history, attempt)
    return bool(saves) and attempt.ended_at - saves[-1].ended_at >= tolerance


def has_saved_late(history: RunRecord, tolerance: timedelta) -> bool:
    """Whether the newest attempt that reached its limit saved shortly before, sooner than its interval explains."""
    ended = [each for each in history.attempts if ended_at_limit(each)]
    return bool(ended) and _saved_late(history, ended[-1], measure_rhythm(history), tolerance)


def _saved_late(history: RunRecord, attempt: Attempt, rhythm: SaveCadence, tolerance: timedelta) -> bool:
    assert attempt.ended_at is not None
    saves = saves_of(history, attempt)
    if not saves or rhythm.step_interval is None or attempt.ended_at - saves[-1].completed_at >= tolerance:
        return False
    before = saves[-2].completed_at if len(saves) > 1 else attempt.started_at
    return saves[-1].completed_at - before < rhythm.step_interval - rhythm.spread * 3


@dataclass(frozen=True, kw_only=True, slots=True)
class GoalForecast:
    """How far a run will get, in the unit of its goal."""

    unit: str
    goal: float
    reached: float  # by its newest save
    fits: int  # more of them before the limit, saved with the margin kept
    done_at: datetime | None  # when the goal is expected to be saved; None once it is reached
    is_declared: bool  # by its owner; else its checkpoints say so
    more_jobs: int | None  # of the same limit, behind this one; None without a limit, or where none gets it further


def toward_goal(
    history: RunRecord, attempt: Attempt, ends_at: datetime | None, now: datetime, *, margin: timedelta = MARGIN
) -> GoalForecast | None:
    """Forecast whether the run reaches its goal; None without a goal, a rate or a checkpoint to count from.

    The user's goal takes precedence over the one in the checkpoints; there, steps take precedence over epochs, which
    are often counted from 0 or rounded up.
    """
    rhythm = measure_rhythm(history)
    for unit, goal, is_declared in _goals(history):
        pace = rhythm.time_per_epoch if unit == "epoch" else rhythm.time_per_step
        reached = _reached(history, unit)
        if not pace or reached is None:
            continue
        base = min(saved_until(history, attempt), now)
        left = max(goal - reached, 0.0)
        overhead = margin + (rhythm.save_time or timedelta(0))
        fits = min(math.ceil(left), _count_fitting(base, ends_at or base, overhead, pace))
        return GoalForecast(
            unit=unit,
            goal=goal,
            reached=reached,
            fits=fits,
            done_at=max(base + _times(pace, left), now) + (rhythm.save_time or timedelta(0)) if left else None,
            is_declared=is_declared,
            more_jobs=_more_jobs(left - fits, attempt.time_limit, overhead, pace),
        )
    return None


def count_fitting(
    history: RunRecord, attempt: Attempt, ends_at: datetime, unit: str, *, margin: timedelta = MARGIN
) -> int | None:
    """Return how many epochs or steps can be done and saved from the newest save until an end; None without a rate."""
    rhythm = measure_rhythm(history)
    pace = rhythm.time_per_epoch if unit == "epoch" else rhythm.time_per_step
    if not pace:
        return None
    return _count_fitting(saved_until(history, attempt), ends_at, margin + (rhythm.save_time or timedelta(0)), pace)


def _count_fitting(base: datetime, ends_at: datetime, overhead: timedelta, pace: timedelta) -> int:
    return int(max(ends_at - overhead - base, timedelta(0)) / pace)


def _times(pace: timedelta, count: float) -> timedelta:
    """Return the time for `count` epochs or steps, at most `FAR`, because users may set goals beyond any calendar."""
    return FAR if pace.total_seconds() * count >= FAR.total_seconds() else pace * count


def _goals(history: RunRecord) -> Iterator[tuple[str, float, bool]]:
    user_settings = history.user_settings
    content = [record.checkpoint for record in sorted(facts.complete_now(history), key=_saved_at, reverse=True)]
    said_step = next((each.goal_step for each in content if each.goal_step is not None), None)
    said_epoch = next((each.goal_epoch for each in content if each.goal_epoch is not None), None)
    for unit, goal, is_declared in (
        ("epoch", user_settings.goal_epoch, True),
        ("step", user_settings.goal_step, True),
        ("step", said_step, False),
        ("epoch", said_epoch, False),
    ):
        if goal is not None:
            yield unit, goal, is_declared


def _more_jobs(left: float, limit: timedelta | None, overhead: timedelta, pace: timedelta) -> int | None:
    if left <= 0:
        return 0
    if limit is None or limit - overhead < pace:
        return None
    return math.ceil(left / ((limit - overhead) / pace))


def _reached(history: RunRecord, unit: str) -> float | None:
    """Return the progress of the newest checkpoint; an older training in the directory may have got further."""
    found = [
        (_saved_at(record), float(value))
        for record in facts.complete_now(history)
        if (value := getattr(record.checkpoint, unit)) is not None
    ]
    return max(found)[1] if found else None


def _saved_at(record: RecordedCheckpoint) -> datetime:
    return record.completed_at or record.checkpoint.modified_at


def full_at(samples: Sequence[FreeSpaceSample]) -> datetime | None:
    """When a file system will be full at the rate of its samples; None if it is not filling or they are too close.

    The rate is that of a straight line from the first sample to the last.
    """
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    span = last.at - first.at
    used = first.free_bytes - last.free_bytes
    if span < MIN_SAMPLE_SPAN or used <= 0:
        return None
    seconds = last.free_bytes / used * span.total_seconds()
    return last.at + timedelta(seconds=seconds) if seconds < 10 * 365 * 86400 else None
