"""Measure the saved work that is computed again, because later attempts did not resume from it.

The saved work of an attempt is the time from its start to its newest usable checkpoint. A checkpoint that a later
attempt loaded preserves this work up to one instant: the time of the checkpoint if the attempt itself wrote it;
otherwise the instant up to which the writer of the checkpoint had preserved it. The work after the latest such instant
is computed again. If it is not certain which checkpoint was loaded, the result is a bound, or unknown; it is unknown
until a later attempt has saved. Time in the queue and in suspension is no work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import Attempt, Certainty, EndCause, JobKey, Resume, ResumeReason
from ckptd.core.runs import suspension

COPIES = timedelta(seconds=10)  # between a checkpoint and copies of it, such as `last` and `best`
LATENESS = timedelta(minutes=1)  # by which the end of an attempt may be recorded too late
NOTHING = timedelta(0)
NO_TIMES: Mapping["AttemptName", timedelta] = {}
_SUREST_FIRST = list(Certainty)
_ONE_OF_CANDIDATES = frozenset((
    ResumeReason.AMBIGUOUS, ResumeReason.COUNTED_ANEW, ResumeReason.OTHER_NAMES, ResumeReason.PROGRAM,
))  # fmt: skip

AttemptName = tuple[JobKey, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class RedoneWork:
    """How much saved work of one attempt is computed again: at least `low`, at most `high`; None where unknown."""

    low: timedelta | None
    high: timedelta | None
    certainty: Certainty


UNKNOWN = RedoneWork(low=None, high=None, certainty=Certainty.UNKNOWN)
NONE = RedoneWork(low=NOTHING, high=NOTHING, certainty=Certainty.INFERRED)


class _Use(NamedTuple):
    """Up to which instant of an attempt's work a later one builds on it."""

    earliest: datetime
    latest: datetime
    certainty: Certainty


def measure_redone(
    attempts: Sequence[Attempt],
    saved: Mapping[AttemptName, datetime | None],
    unseen: Mapping[AttemptName, timedelta] = NO_TIMES,
) -> dict[AttemptName, RedoneWork]:
    """Return the redone work of the attempts in `saved`, which have ended.

    `attempts` are the run's, in any order; `saved` says when the newest usable checkpoint of each was complete, and
    `unseen` how much later that may have been, where it was overwritten before a scan found it.
    """
    ordered = sorted(attempts, key=lambda each: each.started_at)
    return {
        _name(attempt): _extend(
            _measure(attempt, saved[_name(attempt)], ordered[place + 1 :]), unseen.get(_name(attempt), NOTHING)
        )
        for place, attempt in enumerate(ordered)
        if _name(attempt) in saved
    }


def _extend(found: RedoneWork, unseen: timedelta) -> RedoneWork:
    """Return a bound that contains also the work of saves that nobody saw."""
    return found if found.high is None or not unseen else replace(found, high=found.high + unseen)


def _name(attempt: Attempt) -> AttemptName:
    return attempt.job, attempt.restart_count


def _measure(attempt: Attempt, saved_at: datetime | None, later: Sequence[Attempt]) -> RedoneWork:
    ended_at = attempt.ended_at
    if ended_at is None or saved_at is None or attempt.cause is EndCause.COMPLETED or not later:
        return NONE
    if later[0].started_at < ended_at - LATENESS:  # whose work it is nobody can tell
        return UNKNOWN
    uses: dict[AttemptName, _Use | None] = {}
    is_doubted = is_told = False
    for place, other in enumerate(later):
        resume = other.resumed_from
        uses[_name(other)] = use = _find_use(attempt, saved_at, resume, later[:place], uses) if resume else None
        is_pending = resume is None or resume.reason is ResumeReason.NOT_SAVED
        is_doubted = is_doubted or (use is None and not is_pending)
        is_told = is_told or use is not None
    known = [use for use in uses.values() if use is not None]
    if not is_told:
        return UNKNOWN
    earliest = max(use.earliest for use in known)
    latest = saved_at if is_doubted else max(use.latest for use in known)
    return RedoneWork(
        low=_work_between(attempt, latest, saved_at),
        high=_work_between(attempt, earliest, saved_at),
        certainty=max((use.certainty for use in known), key=_SUREST_FIRST.index),
    )


def _find_use(
    attempt: Attempt,
    saved_at: datetime,
    resume: Resume,
    between: Sequence[Attempt],
    uses: Mapping[AttemptName, _Use | None],
) -> _Use | None:
    """Return up to where a later attempt builds on this one's work; None where that is not known."""
    if resume.is_fresh:
        return _Use(attempt.started_at, attempt.started_at, resume.certainty)
    if resume.is_known:
        instants = [resume.saved_at]
    elif resume.reason in _ONE_OF_CANDIDATES:
        instants = [each.saved_at for each in resume.candidates]
    else:
        return None
    found = [_use_of(attempt, saved_at, instant, between, uses) for instant in instants if instant is not None]
    if not found or None in found:
        return None
    certainty = resume.certainty if resume.is_known else Certainty.INFERRED
    known = [use for use in found if use is not None]
    earliest = attempt.started_at if resume.may_be_fresh else min(use.earliest for use in known)
    return _Use(earliest, max(use.latest for use in known), certainty)


def _use_of(
    attempt: Attempt,
    saved_at: datetime,
    instant: datetime,
    between: Sequence[Attempt],
    uses: Mapping[AttemptName, _Use | None],
) -> _Use | None:
    """Return up to where a checkpoint of that instant builds on this attempt's work."""
    writers = [each for each in between if each.started_at < instant]
    if writers:
        return uses[_name(writers[-1])]
    at = min(max(instant, attempt.started_at), saved_at)
    return _Use(at, at, Certainty.PROVEN)


def _work_between(attempt: Attempt, since: datetime, until: datetime) -> timedelta:
    if until - since <= COPIES:
        return NOTHING
    return max(until - since - suspension.within(attempt.suspensions, since, until), NOTHING)
