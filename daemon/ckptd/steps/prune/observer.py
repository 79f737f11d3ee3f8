"""How pruning polls the queue and scans directories.

The daemon records what it observes. A command does not, because the daemon compares polls and scans with its memory: a
command starts from the database, and keeps its own observations in memory.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from ckptd.checkpoints.agent.scan_client import JobPlaces, scan_runs
from ckptd.core.model import RunKey
from ckptd.core.retention import ReferenceSources, RunPlan
from ckptd.steps.known_checkpoints import KnownCheckpoints
from ckptd.steps.parts import Parts, Scans
from ckptd.steps.prune import current_references
from ckptd.steps.snapshots import QueuedMentions
from ckptd.steps.state import State
from ckptd.store.recorded_rows import NO_ROWS


class Observer(Protocol):
    """Polls and scans immediately before a removal."""

    @property
    def parts(self) -> Parts: ...

    @property
    def state(self) -> State: ...

    def poll(self) -> None:
        """Poll Slurm now."""

    def search_new(self, owners: Collection[int], now: datetime) -> None:
        """Search for the directories of these owners' jobs that were not searched for yet."""

    def scan(self, runs: Mapping[RunKey, frozenset[str]], now: datetime) -> Scans:
        """Scan these runs' directories; read the checkpoints at the given paths again in any case."""

    def read_names(self, plans: Collection[RunPlan], named: ReferenceSources, now: datetime) -> None:
        """Read which of the checkpoints to remove jobs and links name."""

    def update(self, named: ReferenceSources) -> ReferenceSources:
        """Return the recorded references, updated with what this observer has read since."""


@dataclass(frozen=True, slots=True)
class RecordingObserver:
    """The daemon's observer: polls like its schedule, and records everything."""

    parts: Parts
    state: State

    def poll(self) -> None:
        self.parts.runner.poll(self.parts, self.state)

    def search_new(self, owners: Collection[int], now: datetime) -> None:
        self.parts.runner.search(self.parts, self.state, owners, now)

    def scan(self, runs: Mapping[RunKey, frozenset[str]], now: datetime) -> Scans:
        return self.parts.runner.scan(self.parts, self.state, tuple(runs), frozenset().union(*runs.values()), now)

    def read_names(self, plans: Collection[RunPlan], named: ReferenceSources, now: datetime) -> None:
        current_references.prepare(self.parts, self.state, plans)
        linking = current_references.list_linking(named, plans, now)
        self.parts.runner.scan(self.parts, self.state, linking, frozenset(), now)

    def update(self, named: ReferenceSources) -> ReferenceSources:
        return named  # it is on record


@dataclass(frozen=True, slots=True)
class CommandObserver:
    """A command's observer: `state` starts from the database, and observations are not recorded."""

    parts: Parts
    state: State

    def poll(self) -> None:
        self.parts.runner.poll(self.parts, self.state)

    def search_new(self, owners: Collection[int], now: datetime) -> None:
        self.parts.runner.search(self.parts, self.state, owners, now, is_recorded=False)

    def scan(self, runs: Mapping[RunKey, frozenset[str]], now: datetime) -> Scans:
        present = self.parts.store.checkpoints.read_present(tuple(runs))
        known = {run: KnownCheckpoints(present.get(run, NO_ROWS), reread) for run, reread in runs.items()}
        asked = [(run, each.encode(), None) for run, each in known.items()]
        work_dirs = self.parts.store.runs.read_work_dirs(tuple(runs))
        found = scan_runs(self.parts.agent, asked, self.parts.limits, now, JobPlaces(work_dirs=work_dirs))
        return {run: each.complete(scan) for (run, each), scan in zip(known.items(), found, strict=True)}

    def read_names(self, plans: Collection[RunPlan], named: ReferenceSources, now: datetime) -> None:  # noqa: ARG002
        current_references.prepare(self.parts, self.state, plans, is_recorded=False)

    def update(self, named: ReferenceSources) -> ReferenceSources:
        mentions = self.state.latest(QueuedMentions).by_job
        return replace(named, jobs=[mentions[job_id] for job_id in sorted(mentions)])
