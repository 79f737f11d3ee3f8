"""State of the backfill: the time range to query in accounting, then the directories to search for.

Owned by the step `backfill`; polls extend the gap.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.queue.poll_gaps import LONGEST_PIECE, PollGap, after

SHORTEST_PIECE = timedelta(minutes=10)
SECOND_TIME = timedelta(minutes=10)  # after a complete answer of accounting; a second query then finds late records
FIRST_PAUSE = timedelta(minutes=1)  # before a query that accounting did not answer is repeated
LONGEST_PAUSE = timedelta(hours=1)
MOST_VISITS = 500  # jobs whose directories are searched at the same time, besides those of the jobs in the queue
MOST_OF_OWNER = 100  # among them: a file system that hangs keeps nobody but its users waiting


@dataclass(frozen=True, kw_only=True, slots=True)
class MissedJobs:
    """The time range still to be backfilled, and the missed jobs whose directories are still to be scanned.

    Polls pass in the gap, scans the location of a job's checkpoints. All of it is in the database, except the time of
    the next query. Immutable: each change makes a new one.
    """

    polled_at: datetime | None = None  # the last good poll, also of an earlier start
    gap: PollGap | None = None  # accounting has still to tell of it
    jobs: Mapping[JobKey, TrackedJob] = field(default_factory=dict)  # their directories have still to be found and read
    trouble: str | None = None  # why accounting did not tell
    is_hopeless: bool = False  # there is no accounting
    visiting: frozenset[JobKey] = frozenset()  # of the jobs, those whose turn it is
    due_at: datetime | None = None
    pause: timedelta = FIRST_PAUSE
    piece: timedelta = LONGEST_PIECE
    doubted_since: datetime | None = None  # accounting was down: what slurmctld had for it may come late
    is_second_time: bool = False  # the first query was answered completely

    def is_pending(self, uid: int) -> bool:
        """Whether the backfill may still find jobs of a user."""
        if self.gap is not None and not self.is_hopeless:
            return True
        return any(known.job.uid == uid for known in self.jobs.values())

    def is_due(self, now: datetime) -> bool:
        """Whether to query accounting now."""
        is_time = self.due_at is None or now >= self.due_at or self.due_at - now > LONGEST_PAUSE  # a clock set back
        return self.gap is not None and is_time

    def with_failure(self, reason: str, now: datetime, *, is_hopeless: bool) -> "MissedJobs":
        """Note a failed query; retry it at growing intervals and for a shorter time range."""
        doubted_since = self.doubted_since
        if self.gap is not None and not is_hopeless:
            doubted_since = min(self.gap.since, doubted_since or self.gap.since)
        return replace(
            self,
            trouble=reason,
            is_hopeless=is_hopeless,
            doubted_since=doubted_since,
            due_at=now + self.pause,
            pause=min(self.pause * 2, LONGEST_PAUSE),
            piece=max(self.piece / 2, SHORTEST_PIECE),
        )

    def find_rest(self, reported_until: datetime) -> PollGap | None:
        """Return the time range that is left; if accounting was down meanwhile, the whole range a second time."""
        left = after(self.gap, reported_until) if self.gap else None
        if left is None and self.gap is not None and self.doubted_since is not None:
            return PollGap(self.doubted_since, self.gap.until)
        return left

    def with_rest(self, gap: PollGap | None, now: datetime) -> "MissedJobs":
        """Note the rest after one part was backfilled."""
        is_again = gap is not None and self.doubted_since is not None and gap.since <= self.doubted_since
        found = self._reset(gap)
        if is_again:
            return replace(found, is_second_time=True, doubted_since=None, due_at=now + SECOND_TIME)
        return found

    def with_gap(self, gap: PollGap) -> "MissedJobs":
        """Add a gap to the time range."""
        return replace(self._reset(gap), is_second_time=False)

    def _reset(self, gap: PollGap | None) -> "MissedJobs":
        return replace(
            self,
            gap=gap,
            trouble=None,
            is_hopeless=False,
            due_at=None,
            pause=FIRST_PAUSE,
            piece=min(self.piece * 2, LONGEST_PIECE),
        )

    def with_jobs(self, jobs: Mapping[JobKey, TrackedJob]) -> "MissedJobs":
        """Add jobs whose directories are still to be found and scanned."""
        return replace(self, jobs={**self.jobs, **jobs}) if jobs else self

    def with_runs(self, runs: Mapping[JobKey, RunKey]) -> "MissedJobs":
        """Note the runs of these jobs; ignore jobs that are not missed ones."""
        return self.with_jobs({key: replace(self.jobs[key], run=run) for key, run in runs.items() if key in self.jobs})

    def without(self, done: Collection[JobKey]) -> "MissedJobs":
        """Remove the jobs whose directories were scanned."""
        left = {key: known for key, known in self.jobs.items() if key not in done}
        return replace(self, jobs=left, visiting=self.visiting.difference(done))

    def with_visits(self, jobs: Iterable[TrackedJob]) -> "MissedJobs":
        """Add jobs to those whose directories are searched for now."""
        return replace(self, visiting=self.visiting.union(known.key for known in jobs))

    @property
    def visited(self) -> list[TrackedJob]:
        """The jobs whose directories are searched for now."""
        return [self.jobs[key] for key in self.visiting]

    def next_visits(self) -> list[TrackedJob]:
        """Return the next jobs to search directories for: none before all jobs are known, and a limited number."""
        if self.gap is not None and not self.is_hopeless and not self.is_second_time:
            return []
        owners = Counter(known.job.uid for known in self.visited)
        chosen: list[TrackedJob] = []
        for key, known in self.jobs.items():
            if len(chosen) + len(self.visiting) >= MOST_VISITS:
                break
            if key not in self.visiting and owners[known.job.uid] < MOST_OF_OWNER:
                owners[known.job.uid] += 1
                chosen.append(known)
        return chosen
