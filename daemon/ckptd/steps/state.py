"""Holds the state of the steps: each step owns its part and publishes frozen snapshots of it.

There is one lock for recording. A step that records holds it for a transaction and for the change of snapshots that
follows, so that memory and database change in the same order. A step that needs several consistent snapshots holds it
to read them; a single snapshot is read without a lock. Objects that several steps use at any time have small locks of
their own: the watchlist, the counter of events and the flag that a decision is due.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from ckptd.core.discovery.declared import is_declared_without
from ckptd.core.discovery.scan_schedule import LAST_PATIENCE
from ckptd.core.model import RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.observations import TALLY_AGE
from ckptd.steps.end_recheck import MAX_AGE as RECHECK_AGE
from ckptd.steps.end_recheck import UnconfirmedEnds
from ckptd.steps.event_counter import EventCounter
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import TIMED_OUT_MEMORY, PolledQueue
from ckptd.steps.run_facts import EndTallies, FreeSpaceSamples, JobHolds
from ckptd.steps.snapshots import MailAddresses, QueuedMentions, Submission
from ckptd.steps.watchlist import Watchlist
from ckptd.store.database_errors import StoreError

T = TypeVar("T")


@dataclass(kw_only=True)
class State:
    """The slices of the steps. All of it can be rebuilt from the database, polls and scans."""

    watchlist: Watchlist
    events: EventCounter = field(default_factory=EventCounter)
    decision_due: threading.Event = field(default_factory=threading.Event)  # set by polls and scans
    record_lock: threading.RLock = field(default_factory=threading.RLock)
    is_in_doubt: bool = False  # recording failed: nobody knows what the database kept of it
    slices: dict[type, Any] = field(default_factory=dict)  # each used by one step alone
    published: dict[type, Any] = field(default_factory=dict)  # what steps let others read: never changed, only replaced

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Hold the record lock; if recording fails, the next poll reads the database again."""
        with self.record_lock:
            try:
                yield
            except StoreError:
                self.is_in_doubt = True
                raise

    def own(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the private slice of a step; create it at the first call."""
        if kind not in self.slices:  # else nobody waits for a transaction
            with self.record_lock:
                self.slices.setdefault(kind, make())
        found: T = self.slices[kind]
        return found

    def find(self, kind: type[T]) -> T | None:
        """Return a step's slice; None if the step has not run yet."""
        found: T | None = self.slices.get(kind)
        return found

    def publish(self, snapshot: object) -> None:
        """Publish an immutable value for other steps."""
        self.published[type(snapshot)] = snapshot

    def latest(self, kind: type[T]) -> T:
        """Return the newest published value of a type; before the first an empty one, always the same."""
        found: T | None = self.published.get(kind)
        return self.published.setdefault(kind, kind()) if found is None else found

    def change(self, kind: type[T], make: Callable[[T], T]) -> None:
        """Replace the newest value of a type by a function of it; under the lock, so that no other change is lost."""
        with self.record_lock:
            self.publish(make(self.latest(kind)))

    def read_restart_state(self, parts: Parts, now: datetime) -> None:
        """Read the tracked jobs and the restart state from the database."""
        learned = parts.store.restart_state.read(
            parts.cluster, ended_since=now - TALLY_AGE, timed_out_since=now - TIMED_OUT_MEMORY
        )
        tracked = dict(parts.store.jobs.read_tracked(parts.cluster))
        unconfirmed = parts.store.jobs.list_unconfirmed_attempts(parts.cluster, now - RECHECK_AGE)
        polled_at, gap = parts.store.backfill.read_gap(parts.cluster)
        missed = MissedJobs(polled_at=polled_at, gap=gap, jobs=parts.store.backfill.read_unscanned_jobs(parts.cluster))
        unscanned = parts.store.lost_work.list_unscanned_runs(
            parts.cluster, now - RECHECK_AGE, partly_since=now - LAST_PATIENCE
        )
        waiting = frozenset(map(Submission.of_notice, parts.store.outbox.list_unaddressed(parts.cluster)))
        mentions = {each.job_id: each for each in parts.store.mentions.read(parts.cluster)}
        copies = parts.store.located_runs.read_copies(parts.cluster)
        with self.record_lock:
            self.change(PolledQueue, lambda queue: replace(queue, tracked=tracked, timed_out=dict(learned.timed_out)))
            self.publish(EndTallies().with_tallies(learned.ends))
            self.publish(FreeSpaceSamples(dict(learned.free_space_samples)))
            self.publish(JobHolds().with_holds(learned.holds).with_released(tracked.values()))
            self.change(UnconfirmedEnds, lambda ends: ends.with_ended(unconfirmed, now))
            self.publish(missed)
            self.change(MailAddresses, lambda addresses: replace(addresses, unaddressed=waiting))
            self.publish(QueuedMentions(by_job=mentions))
            for key, named in copies.items():
                self.watchlist.set_copies(key, named, now)
            self.watchlist.keep_open(tracked.values(), now)
            self.watchlist.visit([*unscanned, *_list_unsearched(parts, tracked.values(), now)], now)
            self.is_in_doubt = False


def _list_unsearched(parts: Parts, tracked: Iterable[TrackedJob], now: datetime) -> list[RunKey]:
    """Return the runs of jobs that ended lately, and whose directory may not have been searched since.

    Only of jobs long enough for rules, and not of those that say that they save nothing.
    """
    return [
        known.run
        for known in tracked
        if known.ended_at is not None and known.attempt is not None and now - known.ended_at < LAST_PATIENCE
        if known.ended_at - known.attempt.started_at >= parts.min_job_duration
        if known.run is not None and not known.run.is_located and not is_declared_without(known.job)
    ]


def begin(parts: Parts, now: datetime) -> State:
    """Return the state of a starting process, read from the database."""
    state = State(watchlist=Watchlist(parts.scan_interval))
    state.read_restart_state(parts, now)
    return state
