"""Leaves out users who kept a request waiting, ever longer, so that they delay others at most once a day in the end.

Users can stop the agent's children that work on their files, because these run as the users themselves. The agent ends
such a child at once, and one whose file system hangs at its deadline; both are requests without an answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints.agent.batches import BatchRunner
from ckptd.checkpoints.agent.client import SILENCE, Answer, Batch
from ckptd.core.model import RunKey, Unknown

PAUSES = tuple(timedelta(minutes=minutes) for minutes in (10, 60, 6 * 60, 24 * 60))  # after the first, second ... time
REMEMBERED = timedelta(hours=48)  # longer than the last pause, so that the next silence is not the first one again


class _LeftOut(NamedTuple):
    times: int
    noted_at: datetime
    until: datetime


def is_unanswered(answer: object) -> bool:
    """Whether the child that had to answer was silent, or ended before."""
    return isinstance(answer, Unknown) and answer.what == SILENCE.what


@dataclass(slots=True)
class SilentUsers:
    """The users who lately did not answer."""

    _users: dict[int, _LeftOut] = field(default_factory=dict)

    def note(self, uid: int, now: datetime) -> None:
        """Note that a request for a user was not answered; several in one step count as one."""
        if not self.is_left_out(uid, now):
            count = self._users[uid].times + 1 if uid in self.list_suspects(now) else 1
            self._users[uid] = _LeftOut(count, now, now + PAUSES[min(count, len(PAUSES)) - 1])

    def is_left_out(self, uid: int, now: datetime) -> bool:
        """Whether nothing is asked for a user now."""
        return uid in self._users and self._users[uid].noted_at <= now < self._users[uid].until

    def is_any_left_out(self, runs: Iterable[RunKey], now: datetime) -> bool:
        """Whether the owner of one of these runs is left out now."""
        return any(self.is_left_out(run.uid, now) for run in runs)

    def list_suspects(self, now: datetime) -> frozenset[int]:
        """Return the users who have their turns after all others, because they may keep requests waiting again."""
        self._users = {uid: found for uid, found in self._users.items() if now - found.noted_at < REMEMBERED}
        return frozenset(self._users)


@dataclass(frozen=True, slots=True)
class ListeningAgent:
    """An agent that notes which users did not answer."""

    agent: BatchRunner
    users: SilentUsers
    now: datetime

    def run(self, batches: Sequence[Batch]) -> list[list[Answer]]:
        """Return the answers of every batch, in order."""
        answers = self.agent.run(batches)
        for batch, found in zip(batches, answers, strict=True):
            self._note(batch, found)
        return answers

    def run_as_answered(self, batches: Sequence[Batch]) -> Iterator[list[tuple[int, list[Answer]]]]:
        """Yield the answers of batches as they come."""
        for answered in self.agent.run_as_answered(batches):
            for place, found in answered:
                self._note(batches[place], found)
            yield answered

    def _note(self, batch: Batch, found: Sequence[Answer]) -> None:
        if any(map(is_unanswered, found)):
            self.users.note(batch.uid, self.now)
