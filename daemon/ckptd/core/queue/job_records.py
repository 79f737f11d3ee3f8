"""The recorded jobs of the queue, and the changes that one poll makes to them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, Job, JobKey, JobState, RunKey
from ckptd.core.queue.executions import is_guessed


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedJob:
    """A recorded job that has started. `attempt` is its latest one, open while its `ended_at` is None."""

    key: JobKey
    job: Job
    attempt: Attempt | None
    run: RunKey | None
    last_seen_at: datetime
    ended_at: datetime | None = None  # of the job: a requeue of an ended job opens it again
    released_restart: int | None = None  # its restart count when it was last let go on from a hold

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def last_sign_at(self) -> datetime:
        """Until when the job was known to run; while it is completing, the queue shows its real end."""
        if self.job.state is JobState.COMPLETING and self.job.ends_at is not None:
            return min(self.job.ends_at, self.last_seen_at)
        return self.last_seen_at


@dataclass(frozen=True, kw_only=True, slots=True)
class MissedRestarts:
    """Executions that started and ended between polls: restart counts `first` to `last`, between the two instants."""

    key: JobKey
    first: int
    last: int
    after: datetime | None  # the start of the execution before them, where it was seen
    before: datetime | None  # the start of the one after them


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanges:
    """List the differences between one poll and the record; an unchanged job produces none.

    `new` and `changed` carry each job's latest attempt. Every attempt that differs from the record is also in `begun`
    (not recorded before), `updated` or `ended` (with its cause), and may be in `begun` and `ended` at once. `vanished`
    jobs stay open: the queue does not say how they ended, so nothing is recorded of them.
    """

    cluster: str
    polled_at: datetime
    new: tuple[TrackedJob, ...] = ()
    changed: tuple[TrackedJob, ...] = ()
    begun: tuple[Attempt, ...] = ()
    updated: tuple[Attempt, ...] = ()
    ended: tuple[Attempt, ...] = ()
    jobs_ended: tuple[TrackedJob, ...] = ()
    vanished: tuple[TrackedJob, ...] = ()
    missed: tuple[MissedRestarts, ...] = ()
    replaced: tuple[TrackedJob, ...] = ()  # ended because another job now has their id
    forgotten: tuple[JobKey, ...] = ()  # ended, and no longer in the queue
    pending_count: int = 0  # jobs that wait for their first start

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to record."""
        return not (self.new or self.changed or self.replaced or self.forgotten or self.begun or self.ended)

    @property
    def asks_accounting(self) -> frozenset[int]:
        """The ids of the jobs whose end accounting knows better than the queue, or alone."""
        guessed = (attempt.job.job_id for attempt in self.ended if is_guessed(attempt))
        keys = [known.key for known in (*self.vanished, *self.replaced)] + [missed.key for missed in self.missed]
        return frozenset(guessed).union(key.job_id for key in keys)

    @property
    def asks_since(self) -> datetime:
        """The earliest instant that an answer for `asks_accounting` may concern."""
        starts = [attempt.started_at for attempt in self.ended]
        starts += [item.attempt.started_at for item in (*self.vanished, *self.replaced) if item.attempt]
        starts += [item.key.first_seen_at - timedelta(days=7) for item in self.vanished if item.attempt is None]
        starts += [item.after or self.polled_at - timedelta(days=7) for item in self.missed]
        return min(starts, default=self.polled_at)


def unlocated_run(key: JobKey, uid: int) -> RunKey:
    """Return the run of a job without a known directory; named with the first poll too, because ids are reused."""
    return RunKey(key.cluster, uid, f"job:{key.job_id}@{key.first_seen_at:%Y%m%dT%H%M%SZ}")
