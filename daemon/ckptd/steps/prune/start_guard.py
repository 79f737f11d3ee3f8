"""Protects what a job that has just started may be loading, by polls before and after every removal."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core.model import RunKey
from ckptd.core.runs import starting_jobs
from ckptd.core.runs.starting_jobs import StartingJob
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.prune.observer import Observer
from ckptd.steps.prune.planning import PlanFacts


@dataclass(slots=True)
class StartGuard:
    """The jobs that started so recently that they may still be loading a checkpoint."""

    observer: Observer
    grace: timedelta  # for which a job may be loading
    _work_dirs: Mapping[RunKey, PurePosixPath | None] = field(default_factory=dict)
    _primaries: Mapping[RunKey, tuple[RunKey, ...]] = field(default_factory=dict)  # of runs whose copies these are
    _found: list[StartingJob] = field(default_factory=list)
    _found_at: datetime | None = None

    def poll(self, owners: Collection[int], now: datetime) -> str | None:
        """Poll Slurm and search for the directories of these owners' new jobs; return why that failed, or None."""
        self.observer.poll()
        self.observer.search_new(owners, now)
        self._found_at = None
        return self._find_trouble()

    def set_facts(self, facts: PlanFacts) -> None:
        """Note the data that the plan was made from."""
        self._work_dirs = {each.history.key: each.job.work_dir for each in facts.runs if each.job}
        self._primaries = {each.history.key: each.history.primaries for each in facts.runs}
        self._found_at = None

    def find_reason(self, run: RunKey, now: datetime) -> str | None:
        """Return why nothing may be moved from a run now, from the newest poll; None if it may."""
        if trouble := self._find_trouble():
            return trouble
        if self._found_at != self.observer.state.latest(PolledQueue).polled_at:
            self._refresh(now)
        loaders = (
            starting_jobs.find_loader(self._found, key, self._work_dirs.get(run))
            for key in (run, *self._primaries.get(run, ()))
        )
        found = next((job for job in loaders if job is not None), None)
        return f"job {found.job_id} has just started and may be loading any of its checkpoints" if found else None

    def _find_trouble(self) -> str | None:
        state = self.observer.state
        queued = state.latest(PolledQueue)
        if queued.slurm_trouble is not None:
            return f"the queue could not be read: {queued.slurm_trouble}"
        return "the queue could not be read" if queued.polled_at is None or state.is_in_doubt else None

    def _refresh(self, now: datetime) -> None:
        state = self.observer.state
        with state.record_lock:  # between the two a scan may move a run to where it was found
            unsearched = {each.key for each in state.watchlist.list_unsearched()}
            queued = state.latest(PolledQueue)
        self._found_at = queued.polled_at
        self._found = starting_jobs.list_newcomers(queued.tracked.values(), unsearched, now - self.grace)
