"""Selects the ended attempts to query in accounting again, because slurmdbd lags behind slurmctld or is down.

The queue alone cannot distinguish a preemption from a requeue by hand, nor show how a job that left it has ended.
"""

from collections.abc import Container, Iterable, Mapping
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
    """Attempts with an unconfirmed cause of end. Owned by the poll; backfill passes in accounting's answers.

    Immutable: each change makes a new one. The time is an argument of every call.
    """

    _open: Mapping[_Name, _Recheck] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def names(self) -> Container[_Name]:
        """The attempts, by job and restart count."""
        return self._open.keys()

    def with_ended(self, ended: Iterable[Attempt], now: datetime) -> "UnconfirmedEnds":
        """Add the attempts whose cause is unconfirmed, to be queried from now on; ignore the others."""
        found = {name: each for name, each in self._open.items() if _age(each.attempt, now) <= MAX_AGE}
        for attempt in ended:
            if is_guessed(attempt):
                found[_name(attempt)] = _Recheck(attempt, now)
            else:
                found.pop(_name(attempt), None)
        return UnconfirmedEnds(found)

    def list_due(self, now: datetime) -> tuple[Attempt, ...]:
        """Return the attempts to query now, latest end first."""
        farthest = now + LONGEST_GAP  # what is due later was due before the clock was set back
        late = [
            each.attempt
            for each in self._open.values()
            if _age(each.attempt, now) <= MAX_AGE and (each.due_at <= now or each.due_at > farthest)
        ]
        return tuple(sorted(late, key=lambda attempt: _age(attempt, now))[:MAX_ASKED])

    def with_answers(self, asked: Iterable[Attempt], confirmed: Iterable[Attempt], now: datetime) -> "UnconfirmedEnds":
        """Remove the answered attempts; query the others again at growing intervals."""
        found = dict(self._open)
        for attempt in confirmed:
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
