"""Which ended attempts to ask accounting about again: slurmdbd lags behind slurmctld, or is down for a while.

The queue alone cannot tell a preemption from a requeue by hand, nor how a job ended that it no longer shows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, JobKey
from ckptd.core.queue import is_guessed

FIRST_GAP = timedelta(seconds=10)
LONGEST_GAP = timedelta(hours=1)
MAX_AGE = timedelta(days=1)  # after which an answer is no longer expected
MAX_ASKED = 5000  # in one question

_Name = tuple[JobKey, int]


@dataclass(frozen=True, slots=True)
class _Recheck:
    attempt: Attempt
    due_at: datetime
    gap: timedelta = FIRST_GAP


@dataclass(frozen=True, slots=True)
class UnconfirmedEnds:
    """Attempts whose end was guessed. It belongs to the step that polls; backfill hands in what accounting told it.

    It holds no clock: every call is told the time. Nobody changes it: each change makes another one.
    """

    _open: Mapping[_Name, _Recheck] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self._open)

    def with_ended(self, ended: Iterable[Attempt], now: datetime) -> "UnconfirmedEnds":
        """Add those that ended for a guessed cause, to be asked about from now on; leave out those that did not."""
        found = {name: each for name, each in self._open.items() if _age(each.attempt, now) <= MAX_AGE}
        for attempt in ended:
            if is_guessed(attempt):
                found[_name(attempt)] = _Recheck(attempt, now)
            else:
                found.pop(_name(attempt), None)
        return UnconfirmedEnds(found)

    def list_due(self, now: datetime) -> tuple[Attempt, ...]:
        """Return the attempts to ask about now, the latest ended first."""
        farthest = now + LONGEST_GAP  # what is due later was due before the clock was set back
        late = [
            each.attempt
            for each in self._open.values()
            if _age(each.attempt, now) <= MAX_AGE and (each.due_at <= now or each.due_at > farthest)
        ]
        return tuple(sorted(late, key=lambda attempt: _age(attempt, now))[:MAX_ASKED])

    def with_answers(self, asked: Iterable[Attempt], told: Iterable[Attempt], now: datetime) -> "UnconfirmedEnds":
        """Leave out the attempts that were told; the others are asked about again, later each time."""
        found = dict(self._open)
        for attempt in told:
            found.pop(_name(attempt), None)
        for attempt in asked:
            if each := found.get(_name(attempt)):
                longer = min(each.gap * 2, LONGEST_GAP)
                found[_name(attempt)] = replace(each, due_at=now + each.gap, gap=longer)
        return UnconfirmedEnds(found)


def _name(attempt: Attempt) -> _Name:
    return attempt.job, attempt.restart_count


def _age(attempt: Attempt, now: datetime) -> timedelta:
    return now - (attempt.ended_at or now)
