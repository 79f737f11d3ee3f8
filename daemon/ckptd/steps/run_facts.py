"""Data that the rules need over several polls and scans; after a restart it is read from the database.

Each class is a snapshot of one step's slice. Immutable: each change makes a new one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from ckptd.core.model import (
    Attempt,
    EndCause,
    FreeSpaceSample,
    Hold,
    InterruptionTally,
    JobKey,
    RunKey,
    RunRecord,
    Scan,
)
from ckptd.core.queue import TrackedJob
from ckptd.core.runs import observations
from ckptd.core.runs.interruptions import InterruptionTallies, Owner
from ckptd.core.runs.observations import EndTally

SAMPLE_GAP = timedelta(minutes=10)  # between two samples of the free space that are kept
SAMPLE_COUNT = 18


@dataclass(frozen=True, slots=True)
class EndTallies:
    """How often jobs of each size were interrupted. Owned by the step `poll`.

    Backfill passes in the ends that it records. Once a day, `expire` recounts them over the time that still counts.
    """

    by_size: Mapping[int, Mapping[Owner, InterruptionTally]] = field(default_factory=dict)
    preempted: Mapping[str, int] = field(default_factory=dict)  # attempts, by partition
    # by size, made when they are asked for
    _pools: dict[int, InterruptionTallies] = field(default_factory=dict, compare=False)

    def with_tallies(self, tallies: Iterable[EndTally]) -> "EndTallies":
        """Add the database's counts of ends."""
        by_size: dict[int, dict[Owner, InterruptionTally]] = {}
        preempted = dict(self.preempted)
        for tally in tallies:
            size = observations.size_class(tally.node_count)
            owners = by_size.setdefault(size, dict(self.by_size.get(size, {})))
            owners[tally.uid] = observations.add_tally(owners.get(tally.uid, observations.NOTHING), tally)
            if tally.cause is EndCause.PREEMPTION and tally.partition:
                preempted[tally.partition] = preempted.get(tally.partition, 0) + tally.attempt_count
        pools = {size: pool for size, pool in self._pools.items() if size not in by_size}
        return EndTallies({**self.by_size, **by_size}, preempted, pools)

    def with_ended(
        self,
        attempts: Iterable[Attempt],
        before: Iterable[Attempt] = (),
        *,
        owner_of: Callable[[JobKey], Owner] = lambda _: None,
    ) -> "EndTallies":
        """Add ended attempts; `before` has the earlier versions of those that were already counted."""
        counted = [(attempt, -1) for attempt in before] + [(attempt, 1) for attempt in attempts]
        ended = [(attempt, count) for attempt, count in counted if attempt.ended_at is not None]
        if not ended:
            return self
        return self.with_tallies(observations.tally_of(each, count, owner_of(each.job)) for each, count in ended)

    def is_preempted(self, partition: str) -> bool:
        """Whether jobs of a partition have been preempted."""
        return self.preempted.get(partition, 0) > 0

    def find_interruptions(self, history: RunRecord) -> InterruptionTally | None:
        """Return the interruptions of jobs of a run's size on its cluster; None if no such job has ended."""
        size = observations.size_class(max((job.node_count for job in history.jobs), default=1))
        if size not in self.by_size:
            return None
        if size not in self._pools:
            self._pools[size] = InterruptionTallies(self.by_size[size])
        return self._pools[size].of(history.key.uid)


@dataclass(frozen=True, slots=True)
class FreeSpaceSamples:
    """The free space at runs' directories over time, oldest first. Owned by the scans; decisions trim it."""

    by_run: Mapping[RunKey, tuple[FreeSpaceSample, ...]] = field(default_factory=dict)

    def sample(self, key: RunKey, scan: Scan) -> tuple[FreeSpaceSample, ...] | None:
        """Return a run's samples with this scan's added; None if it is too soon after the last, or has no value."""
        if scan.available_bytes is None or scan.quota_error is not None:  # the usable space would seem to jump
            return None
        samples = self.by_run.get(key, ())
        if samples and abs(scan.scanned_at - samples[-1].at) < SAMPLE_GAP:
            return None
        earlier = [sample for sample in samples if sample.at < scan.scanned_at]  # a clock may be set back
        return (*earlier, FreeSpaceSample(scan.scanned_at, scan.available_bytes))[-SAMPLE_COUNT:]

    def with_samples(self, samples: Mapping[RunKey, tuple[FreeSpaceSample, ...]]) -> "FreeSpaceSamples":
        """Replace the samples of some runs."""
        return FreeSpaceSamples({**self.by_run, **samples}) if samples else self

    def keep(self, keys: Collection[RunKey]) -> "FreeSpaceSamples":
        """Remove all other runs."""
        return FreeSpaceSamples({key: samples for key, samples in self.by_run.items() if key in keys})


@dataclass(frozen=True, slots=True)
class JobHolds:
    """The latest hold of each job that ckptd held. Owned by the step `act`; polls pass in releases."""

    by_job: Mapping[JobKey, Hold] = field(default_factory=dict)

    def with_holds(self, holds: Iterable[tuple[JobKey, Hold]]) -> "JobHolds":
        """Add holds, oldest first; keep which attempts earlier holds ended."""
        found = dict(self.by_job)
        for key, hold in holds:
            known = found.get(key)
            found[key] = hold._replace(broken_off=hold.broken_off | known.broken_off) if known else hold
        return JobHolds(found)

    def with_released(self, jobs: Iterable[TrackedJob]) -> "JobHolds":
        """Note the released jobs, unless they have been held again since."""
        released = [
            (known.key, Hold(known.released_restart))
            for known in jobs
            if known.released_restart is not None and self._is_earlier(known.key, known.released_restart)
        ]
        return self.with_holds(released) if released else self

    def _is_earlier(self, key: JobKey, restart: int) -> bool:
        hold = self.by_job.get(key)
        return hold is None or hold.next_restart <= restart

    def find(self, attempts: Iterable[Attempt]) -> dict[JobKey, Hold]:
        """Return the latest hold of each held job among these attempts."""
        return {each.job: self.by_job[each.job] for each in attempts if each.job in self.by_job}
