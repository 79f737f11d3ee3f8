"""Counts the requeued jobs that began again lately, of each user some at most. It belongs to the step that polls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, JobKey, RestartKind
from ckptd.core.queue import TrackedJob

WINDOW = timedelta(minutes=30)
MOST_OF_ONE = 20  # restarts of one user that count: a storm of more than twice as many takes three users


@dataclass(frozen=True, slots=True)
class RequeueStarts:
    """When requeued jobs began again lately, by user, so many of each and no more."""

    by_user: Mapping[int, tuple[datetime, ...]] = field(default_factory=dict)

    def with_started(self, begun: Iterable[Attempt], jobs: Iterable[TrackedJob], now: datetime) -> "RequeueStarts":
        """Add the attempts that began, of these jobs, and leave out what no longer counts."""
        owners: dict[JobKey, int] = {known.key: known.job.uid for known in jobs}
        found = dict(self.by_user)
        for attempt in begun:
            uid = owners.get(attempt.job)
            if attempt.kind is RestartKind.REQUEUE and uid is not None:
                found[uid] = (*found.get(uid, ()), attempt.started_at)[-MOST_OF_ONE:]
        recent = {uid: tuple(at for at in starts if _counts(at, now)) for uid, starts in found.items()}
        return RequeueStarts({uid: starts for uid, starts in recent.items() if starts})

    def count(self, now: datetime) -> int:
        """Return how many began within the last half hour, of each user at most MOST_OF_ONE."""
        return sum(_counts(at, now) for starts in self.by_user.values() for at in starts)


def _counts(started_at: datetime, now: datetime) -> bool:
    return abs(now - started_at) <= WINDOW
