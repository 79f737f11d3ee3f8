"""The attempts of a run by what rules ask of them for each of its jobs, sorted once for all rules.

Thousands of tasks of an array may share a directory: to go through all attempts for each of them takes their square.
"""

import functools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from ckptd.core.model import Attempt, Job, RunRecord

KEPT_COUNT = 8  # runs: several threads may ask at the same time


class AttemptIndex:
    """The attempts of one run, oldest first."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts
        self._starts = [each.started_at for each in attempts]
        self._by_job: dict[tuple[str, int], list[Attempt]] = defaultdict(list)
        for each in attempts:
            self._by_job[each.job.cluster, each.job.job_id].append(each)
        self.first_open_at = min((each.started_at for each in attempts if each.ended_at is None), default=None)

    def list_of(self, job: Job) -> Sequence[Attempt]:
        """Return the attempts of a job."""
        return self._by_job.get((job.cluster, job.job_id), ())

    def find_open(self, job: Job) -> Attempt | None:
        """Return the attempt that a job is in now."""
        return next((each for each in reversed(self.list_of(job)) if each.ended_at is None), None)

    def find_before(self, instant: datetime) -> Attempt | None:
        """Return the last attempt that started before an instant."""
        place = bisect_left(self._starts, instant)
        return self._attempts[place - 1] if place else None


class _SameAttempts:
    """Attempts that are compared by identity: a record is replaced, and never changed."""

    __slots__ = ("attempts",)

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.attempts = attempts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameAttempts) and self.attempts is other.attempts

    def __hash__(self) -> int:
        return id(self.attempts)


def index_attempts(history: RunRecord) -> AttemptIndex:
    """Return the attempts of a run, sorted once as long as they stay the same."""
    return _index(_SameAttempts(history.attempts))


@functools.lru_cache(maxsize=KEPT_COUNT)
def _index(same: _SameAttempts) -> AttemptIndex:
    return AttemptIndex(same.attempts)
