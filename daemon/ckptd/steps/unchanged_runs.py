"""Recognises most runs that a full comparison would find unchanged, without making their histories.

A full comparison makes the history of a run and compares every field that a rule may read. If what all runs share did
not change since the one before, only the record of the run, its jobs, their signals, its flags, its free space, and
other runs in its directory can change its history.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ckptd.core.job_actions import sbatch_command
from ckptd.core.model import SUSPENDED_STATES, FreeSpaceSample, LimitSignal, Maintenance, RunKey
from ckptd.steps.evaluated_runs import EvaluatedRun
from ckptd.steps.open_flags import OpenFlags
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.queued_jobs import QueuedJobs
from ckptd.steps.read_scripts import known_signals
from ckptd.steps.run_facts import EndTallies, FreeSpaceSamples
from ckptd.steps.snapshots import SharedRuns
from ckptd.steps.state import State
from ckptd.steps.watchlist import Watchlist


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """What rules read that is the same for all runs, or in snapshots of all. Snapshots are compared by identity."""

    snapshots: tuple[object, ...]
    preempted: frozenset[str]  # partitions
    maintenance: tuple[Maintenance, ...]

    @classmethod
    def read(cls, state: State, snapshots: tuple[object, ...]) -> "SharedFacts":
        """Return the present facts, with these snapshots."""
        preempted = frozenset(name for name, count in state.latest(EndTallies).preempted.items() if count > 0)
        return cls(snapshots, preempted, state.latest(PolledQueue).maintenance)

    def is_same(self, before: "SharedFacts | None") -> bool:
        """Whether nothing of it changed; None: nothing is known of before."""
        if before is None or len(self.snapshots) != len(before.snapshots):
            return False
        pairs = zip(self.snapshots, before.snapshots, strict=True)
        mine, theirs = (self.preempted, self.maintenance), (before.preempted, before.maintenance)
        return mine == theirs and all(one is other for one, other in pairs)


@dataclass(frozen=True, slots=True)
class UnchangedRuns:
    """Recognises runs whose history is as it was evaluated, if what all runs share did not change."""

    queue: QueuedJobs
    free_space: Mapping[RunKey, tuple[FreeSpaceSample, ...]]
    signals: Mapping[int, LimitSignal | None]
    shared_runs: SharedRuns
    flags: OpenFlags
    watchlist: Watchlist

    @classmethod
    def of(cls, state: State, queue: QueuedJobs, flags: OpenFlags) -> "UnchangedRuns":
        """Return one with the present queue, samples of free space, signals and flags."""
        free_space, shared_runs = state.latest(FreeSpaceSamples).by_run, state.latest(SharedRuns)
        return cls(queue, free_space, known_signals(state), shared_runs, flags, state.watchlist)

    def has(self, each: EvaluatedRun) -> bool:
        """Whether a full comparison of a run would find nothing.

        False also for runs that ckptd acts on, with damaged checkpoints, several locations, suspended jobs, jobs that
        ckptd submitted, or other runs in their directory. The caller knows that the revision of the run's record is the
        same, and that the run need not be evaluated because of the time or a scan.
        """
        mine, queued = each.history, self.queue.queued
        if each.follows_more or mine.earlier or mine.copies or mine.other_writers or queued.slurm_trouble:
            return False
        if self.watchlist.copies_of(mine.key) or mine.context.maintenance != queued.maintenance:
            return False
        jobs = self.queue.by_run.get(mine.key, [])
        beside = self.queue.by_directory.get(mine.key.directory, [])
        if len(beside) != len(jobs) or mine.key in self.shared_runs.writers or mine.polled_at is None:
            return False
        if tuple(jobs) != mine.jobs or any(job.state in SUSPENDED_STATES for job in jobs):
            return False
        if any(sbatch_command.mark_of(job.comment) for job in jobs):
            return False
        signals, known = mine.context.signals, self.signals
        if any(signals.get(job.job_id) != known.get(job.job_id) for job in jobs):
            return False
        if mine.context.flagged != {(each.finding.rule, each.finding.job_id) for each in self.flags.of_run(mine.key)}:
            return False
        return self.free_space.get(mine.key, ()) == mine.free_space_samples or each.has_room(mine.scan)
