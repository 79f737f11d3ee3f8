"""What the steps carry from one run to the next."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, TypeVar

from ckptd.core.discovery.path_mentions import JobMentions
from ckptd.core.discovery.scan_schedule import Watched
from ckptd.core.job_actions.resubmit_policy import LATEST
from ckptd.core.model import Job, JobKey, Maintenance, RunHistory, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.observations import TALLY_AGE, TimedOut
from ckptd.steps.end_recheck import MAX_AGE as DOUBT_AGE
from ckptd.steps.end_recheck import Doubts
from ckptd.steps.event_counter import EventCounter
from ckptd.steps.missed_jobs import Unseen
from ckptd.steps.parts import Parts
from ckptd.steps.requeue_counts import Requeues
from ckptd.steps.run_facts import Seen
from ckptd.steps.watchlist import Watchlist
from ckptd.store.errors import StoreError

T = TypeVar("T")

TIMED_OUT_MEMORY = LATEST * 2  # of a run that its limit ended: so that it is told that it was left alone


@dataclass(kw_only=True)
class State:
    """What is carried from one cycle to the next; all of it can be had again from the store and from looking."""

    tracked: dict[int, TrackedJob]
    watchlist: Watchlist
    histories: dict[RunKey, RunHistory] = field(default_factory=dict)  # as of the last decision
    located_by: dict[RunKey, str] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    jobs_by_state: Counter[str] = field(default_factory=Counter)
    slurm_trouble: str | None = None
    polled_at: datetime | None = None
    scanned_at: datetime | None = None
    events: EventCounter = field(default_factory=EventCounter)
    requeues: Requeues = field(default_factory=Requeues)
    timed_out: dict[RunKey, TimedOut] = field(default_factory=dict)  # runs whose latest attempt its limit ended
    # by owner and directory: the jobs that wait or run there and were not submitted by ckptd
    unended: Mapping[tuple[int, PurePosixPath | None], Collection[Job]] = field(default_factory=dict)
    marked: Mapping[tuple[int, str], int] = field(default_factory=dict)  # jobs that ckptd has submitted, by their mark
    goes_on: Mapping[tuple[int, str], int] = field(default_factory=dict)  # those of them that have not ended
    mail_users: dict[int, str | None] = field(default_factory=dict)  # by job or array, of those asked about
    rests_since: datetime | None = None  # from asking more such questions
    unaddressed: set[str] = field(default_factory=set)  # jobs and arrays whose answer a notice waits for
    queued: dict[int, Job] = field(default_factory=dict)  # every job that has not ended, as of the last poll
    mentions: dict[int, JobMentions] = field(default_factory=dict)  # what each of them names
    unread_scripts: Counter[int] = field(default_factory=Counter)  # by job: how often Slurm did not give its script
    maintenance: tuple[Maintenance, ...] = ()
    doubts: Doubts = field(default_factory=Doubts)  # ends that accounting is still asked about
    unseen: Unseen = field(default_factory=Unseen)
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_decision_due: bool = False  # something was polled or scanned since the last decision
    slices: dict[type, Any] = field(default_factory=dict)  # each used by one step alone
    published: dict[type, Any] = field(default_factory=dict)  # what steps let others read
    is_in_doubt: bool = False  # recording failed: nobody knows what the database kept of it

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Hold the lock while something is recorded; where that fails, the next look at the queue asks the record."""
        with self.lock:
            try:
                yield
            except StoreError:
                self.is_in_doubt = True
                raise

    def own(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the slice of the step that asks, which no other step uses; made when it is first asked for."""
        with self.lock:
            if kind not in self.slices:
                self.slices[kind] = make()
            found: T = self.slices[kind]
            return found

    def find(self, kind: type[T]) -> T | None:
        """Return a step's slice; None where the step has not run yet."""
        found: T | None = self.slices.get(kind)
        return found

    def publish(self, snapshot: object) -> None:
        """Let other steps read a value that never changes."""
        self.published[type(snapshot)] = snapshot

    def latest(self, kind: type[T]) -> T:
        """Return the newest value of a kind that was published; an empty one before the first."""
        found: T = self.published.get(kind) or kind()
        return found

    def take_up(self, parts: Parts, now: datetime) -> None:
        """Take what is tracked and what was learned from the record."""
        learned = parts.store.restart_state.read(
            parts.cluster, ended_since=now - TALLY_AGE, timed_out_since=now - TIMED_OUT_MEMORY
        )
        self.tracked = dict(parts.store.jobs.read_tracked(parts.cluster))
        self.seen = Seen(learned)
        self.seen.note_released(self.tracked.values())
        self.timed_out = dict(learned.timed_out)
        self.doubts.note(parts.store.jobs.list_unconfirmed_attempts(parts.cluster, now - DOUBT_AGE), now)
        polled_at, gap = parts.store.backfill.read_gap(parts.cluster)
        self.unseen = Unseen(polled_at=polled_at, gap=gap, jobs=parts.store.backfill.read_unscanned_jobs(parts.cluster))
        self.watch_open_runs(now)
        self.watchlist.visit(parts.store.lost_work.list_unscanned_runs(parts.cluster, now - DOUBT_AGE), now)
        self.unaddressed = {each.recipient.address for each in parts.store.outbox.list_unaddressed(parts.cluster)}
        self.mentions = {each.job_id: each for each in parts.store.mentions.read(parts.cluster)}
        self.queued = {}
        self.is_in_doubt = False

    def note_run(self, job: JobKey, run: RunKey) -> None:
        """Note of which run a job is: one in the queue, or one that was over before it was seen."""
        tracked = self.tracked.get(job.job_id)
        if tracked is not None and tracked.key == job:
            self.tracked[job.job_id] = replace(tracked, run=run)
        if job in self.unseen.jobs:
            self.unseen.jobs[job] = replace(self.unseen.jobs[job], run=run)

    def list_unsearched(self, uid: int | None = None) -> list[Watched]:
        """Return the runs, of one owner or of all, whose directory nobody has looked for yet."""
        with self.lock:
            watched = self.watchlist.all
        return [
            each for each in watched if not each.key.is_located and each.last is None and uid in {None, each.key.uid}
        ]

    def watch_open_runs(self, now: datetime, missed: Collection[RunKey] = ()) -> None:
        """Keep an eye on the runs that have a job in the queue, and on no others; look at those that were missed."""
        opened = {known.run for known in self.tracked.values() if known.is_open and known.run}
        self.watchlist.keep(opened.union(missed), now)


def begin(parts: Parts, now: datetime) -> State:
    """Take up what the store knows."""
    state = State(tracked={}, watchlist=Watchlist(parts.scan_interval))
    state.take_up(parts, now)
    return state
