"""Counts the requeued jobs that began again lately, of each user some at most. It belongs to the step that polls."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, JobKey, RestartKind
from ckptd.core.queue import TrackedJob

WINDOW = timedelta(minutes=30)
MOST_OF_ONE = 20  # restarts of one user that count: a storm of more than twice as many takes three users


class Requeues:
    """Remembers when requeued jobs began again lately, so many of each user and no more. It holds no clock."""

    def __init__(self) -> None:
        self._begun: dict[int, deque[datetime]] = {}

    def note(self, begun: Iterable[Attempt], jobs: Iterable[TrackedJob]) -> None:
        """Take the attempts that began, and the jobs that they may be of."""
        owners: dict[JobKey, int] = {known.key: known.job.uid for known in jobs}
        for attempt in begun:
            uid = owners.get(attempt.job)
            if attempt.kind is RestartKind.REQUEUE and uid is not None:
                self._begun.setdefault(uid, deque(maxlen=MOST_OF_ONE)).append(attempt.started_at)

    def count(self, now: datetime) -> int:
        """Return how many began within the last half hour, of each user at most MOST_OF_ONE."""
        recent = {uid: [at for at in begun if abs(now - at) <= WINDOW] for uid, begun in self._begun.items()}
        self._begun = {uid: deque(found, MOST_OF_ONE) for uid, found in recent.items() if found}
        return sum(map(len, recent.values()))
