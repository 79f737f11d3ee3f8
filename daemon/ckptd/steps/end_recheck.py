"""Which ended attempts to ask accounting about again: slurmdbd lags behind slurmctld, or is down for a while.

The queue alone cannot tell a preemption from a requeue by hand, nor how a job ended that it no longer shows.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, JobKey
from ckptd.core.queue import is_guessed

FIRST_GAP = timedelta(seconds=10)
LONGEST_GAP = timedelta(hours=1)
MAX_AGE = timedelta(days=1)  # after which an answer is no longer expected
MAX_ASKED = 5000  # in one question

_Name = tuple[JobKey, int]


@dataclass(frozen=True, slots=True)
class _Doubt:
    attempt: Attempt
    due_at: datetime
    gap: timedelta = FIRST_GAP


class Doubts:
    """Attempts whose end was guessed. It holds no clock: every call is told the time."""

    def __init__(self) -> None:
        self._open: dict[_Name, _Doubt] = {}

    def __len__(self) -> int:
        return len(self._open)

    def note(self, ended: Iterable[Attempt], now: datetime) -> None:
        """Remember those that ended for a guessed cause, to be asked about from now on; forget those that did not."""
        for attempt in ended:
            if is_guessed(attempt):
                self._open[_name(attempt)] = _Doubt(attempt, now)
            else:
                self._open.pop(_name(attempt), None)

    def due(self, now: datetime) -> tuple[Attempt, ...]:
        """Return the attempts to ask about now, the latest ended first."""
        self._open = {name: doubt for name, doubt in self._open.items() if _age(doubt.attempt, now) <= MAX_AGE}
        farthest = now + LONGEST_GAP  # what is due later was due before the clock was set back
        late = [doubt.attempt for doubt in self._open.values() if doubt.due_at <= now or doubt.due_at > farthest]
        return tuple(sorted(late, key=lambda attempt: _age(attempt, now))[:MAX_ASKED])

    def asked(self, attempts: Collection[Attempt], told: Iterable[Attempt], now: datetime) -> None:
        """Note an answer: those that were told are settled, the others are asked about again, later each time."""
        for attempt in told:
            self._open.pop(_name(attempt), None)
        for attempt in attempts:
            if doubt := self._open.get(_name(attempt)):
                longer = min(doubt.gap * 2, LONGEST_GAP)
                self._open[_name(attempt)] = replace(doubt, due_at=now + doubt.gap, gap=longer)


def _name(attempt: Attempt) -> _Name:
    return attempt.job, attempt.restart_count


def _age(attempt: Attempt, now: datetime) -> timedelta:
    return now - (attempt.ended_at or now)
