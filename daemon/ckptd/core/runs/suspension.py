"""When an attempt was suspended, as far as polls and accounting show: that time is no work.

Slurm shows that a job is suspended and how long it has run, but not since when; accounting has the total. If the
position of a suspension is unknown, the latest possible one is assumed, so that lost work is never overstated.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.model import SUSPENDED_STATES, Attempt, Job, Suspension

MAX_KEPT = 100  # gang scheduling suspends every half minute; the oldest are joined
UNSEEN_AT_LEAST = timedelta(minutes=1)  # a limit's whole minutes explain smaller shifts of the end


def update(attempt: Attempt, job: Job, at: datetime) -> Attempt:
    """Return the attempt, updated with the suspensions that one poll shows."""
    known = attempt.suspensions
    is_open = bool(known) and known[-1].ended_at is None
    if job.state in SUSPENDED_STATES:
        return attempt if is_open else replace(attempt, suspensions=_join((*known, _begun(attempt, job, at))))
    if is_open:
        *earlier, last = known
        until = _end_of(attempt, job, tuple(earlier), last, at)
        return replace(attempt, suspensions=(*earlier, last._replace(ended_at=until)))
    shift = _shift(attempt, job) if job.is_running else None
    if shift is not None and shift - total(known, at) >= UNSEEN_AT_LEAST:
        return replace(attempt, suspensions=fit(known, attempt.started_at, at, shift))
    return attempt


def total(suspensions: Iterable[Suspension], until: datetime) -> timedelta:
    """Return how long they lasted, an open one until then."""
    return sum(((each.ended_at or until) - each.began_at for each in suspensions), timedelta(0))


def within(suspensions: Iterable[Suspension], since: datetime, until: datetime) -> timedelta:
    """Return how much of the time between two instants they took."""
    shares = (min(each.ended_at or until, until) - max(each.began_at, since) for each in suspensions)
    return sum((share for share in shares if share > timedelta(0)), timedelta(0))


def close(attempt: Attempt, suspended: timedelta | None = None) -> Attempt:
    """Return an attempt that has ended with its suspensions bounded by its end; `suspended` is their sum."""
    assert attempt.ended_at is not None
    if not attempt.suspensions and not suspended:
        return attempt
    wanted = within(attempt.suspensions, attempt.started_at, attempt.ended_at) if suspended is None else suspended
    return replace(attempt, suspensions=fit(attempt.suspensions, attempt.started_at, attempt.ended_at, wanted))


def fit(
    suspensions: Iterable[Suspension], started_at: datetime, until: datetime, wanted: timedelta
) -> tuple[Suspension, ...]:
    """Return them within two instants and of a given sum: what is missing is added last, what is over goes first."""
    wanted = min(wanted, until - started_at)
    kept: list[Suspension] = []
    for each in suspensions:
        began_at, ended_at = max(each.began_at, started_at), min(each.ended_at or until, until)
        if ended_at > began_at:
            kept.append(Suspension(began_at, ended_at))
    over = total(kept, until) - wanted
    while over > timedelta(0):
        first = kept.pop(0)
        length = total([first], until)
        if length > over:
            kept.insert(0, first._replace(began_at=first.began_at + over))
        over -= min(length, over)
    return _add_last(kept, started_at, until, -over)


def _add_last(
    kept: list[Suspension], started_at: datetime, until: datetime, missing: timedelta
) -> tuple[Suspension, ...]:
    """Fill the gaps between suspensions from the end on."""
    added: list[Suspension] = []
    edges = [Suspension(started_at, started_at), *kept, Suspension(until, until)]
    for before, after in zip(reversed(edges[:-1]), reversed(edges[1:]), strict=True):
        assert before.ended_at is not None
        length = min(missing, after.began_at - before.ended_at)
        if length > timedelta(0):
            added.append(Suspension(after.began_at - length, after.began_at))
            missing -= length
    return _join(sorted((*kept, *added)))


def _join(suspensions: Iterable[Suspension]) -> tuple[Suspension, ...]:
    """Join those that touch, and the oldest where they are too many."""
    result: list[Suspension] = []
    for each in suspensions:
        if result and result[-1].ended_at == each.began_at:
            result[-1] = result[-1]._replace(ended_at=each.ended_at)
        else:
            result.append(each)
    while len(result) > MAX_KEPT:
        first, second = result[:2]
        assert first.ended_at is not None
        result[:2] = [Suspension(second.began_at - (first.ended_at - first.began_at), second.ended_at)]
    return tuple(result)


def _begun(attempt: Attempt, job: Job, at: datetime) -> Suspension:
    """Return the suspension that a job is seen in: it began when the time that the job ran was over."""
    earliest = attempt.suspensions[-1].ended_at if attempt.suspensions else attempt.started_at
    began_at = at
    if job.time_limit is not None and job.time_left:
        ran = job.time_limit - job.time_left
        began_at = attempt.started_at + ran + total(attempt.suspensions, at)
    return Suspension(min(max(began_at, earliest or at), at))


def _end_of(attempt: Attempt, job: Job, earlier: tuple[Suspension, ...], last: Suspension, at: datetime) -> datetime:
    """Return when a suspension that is over ended: resuming a job, Slurm moves its expected end on by what it took."""
    shift = _shift(attempt, job) if job.is_running else None
    if shift is not None:
        until = last.began_at + shift - total(earlier, at)
        if last.began_at <= until <= at:
            return until
    return max(last.began_at, attempt.ended_at or at)


def _shift(attempt: Attempt, job: Job) -> timedelta | None:
    if job.time_limit is None or job.ends_at is None or job.started_at != attempt.started_at:
        return None
    return job.ends_at - attempt.started_at - job.time_limit
