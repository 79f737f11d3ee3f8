"""Counts the requeued jobs that restarted recently, with a maximum per user. Owned by the step `poll`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, JobKey, RestartKind
from ckptd.core.queue import TrackedJob

WINDOW = timedelta(minutes=30)
MOST_OF_ONE = 20  # restarts of one user that count: a storm of more than twice as many takes three users


@dataclass(frozen=True, slots=True)
class RequeueStarts:
    """The recent restarts of requeued jobs, by user, up to a maximum per user."""

    by_user: Mapping[int, tuple[datetime, ...]] = field(default_factory=dict)

    def with_started(self, begun: Iterable[Attempt], jobs: Iterable[TrackedJob], now: datetime) -> "RequeueStarts":
        """Add the started attempts of these jobs, and remove those that no longer count."""
        owners: dict[JobKey, int] = {known.key: known.job.uid for known in jobs}
        found = dict(self.by_user)
        for attempt in begun:
            uid = owners.get(attempt.job)
            if attempt.kind is RestartKind.REQUEUE and uid is not None:
                found[uid] = (*found.get(uid, ()), attempt.started_at)[-MOST_OF_ONE:]
        recent = {uid: tuple(at for at in starts if _counts(at, now)) for uid, starts in found.items()}
        return RequeueStarts({uid: starts for uid, starts in recent.items() if starts})

    def count(self, now: datetime) -> int:
        """Return the restarts within the last half hour, at most MOST_OF_ONE per user."""
        return sum(_counts(at, now) for starts in self.by_user.values() for at in starts)


def _counts(started_at: datetime, now: datetime) -> bool:
    return abs(now - started_at) <= WINDOW
