"""Keeps an eye on the queue around a move: a job that begins meanwhile may have chosen what is about to go."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from ckptd import cycle
from ckptd.core import newcomers
from ckptd.core.model import RunKey
from ckptd.core.newcomers import Newcomer
from ckptd.cycle import Parts, State
from ckptd.pruning.planning import Facts

Poll = Callable[[], None]


@dataclass(slots=True)
class Arrivals:
    """The jobs that have begun so shortly ago that they may still be loading."""

    parts: Parts
    state: State
    poll: Poll  # reads the queue and records it, as the schedule does
    grace: timedelta  # for which a job may be loading
    _work_dirs: Mapping[RunKey, PurePosixPath | None] = field(default_factory=dict)
    _found: list[Newcomer] = field(default_factory=list)
    _found_at: datetime | None = None

    def look(self, owners: Collection[int], now: datetime) -> bool:
        """Read the queue, and look for the directories of these owners' new jobs; return whether it could be read."""
        self.poll()
        cycle.search_new(self.parts, self.state, owners, now)
        self._found_at = None
        return self._is_sound()

    def note_facts(self, facts: Facts) -> None:
        """Take the facts that the plan was made of."""
        self._work_dirs = {each.history.key: each.job.work_dir for each in facts.runs if each.job}
        self._found_at = None

    def find_reason(self, run: RunKey, now: datetime) -> str | None:
        """Return why nothing may be moved from a run now, by the newest look at the queue; None where it may."""
        if not self._is_sound():
            return "the queue could not be read"
        if self._found_at != self.state.polled_at:
            self._refresh(now)
        found = newcomers.find_loader(self._found, run, self._work_dirs.get(run))
        return f"job {found.job_id} has just begun and may be loading any of its checkpoints" if found else None

    def _is_sound(self) -> bool:
        return self.state.slurm_trouble is None and self.state.polled_at is not None and not self.state.is_in_doubt

    def _refresh(self, now: datetime) -> None:
        with self.state.lock:
            unsearched = {each.key for each in self.state.list_unsearched()}
            tracked = list(self.state.tracked.values())
            self._found_at = self.state.polled_at
        self._found = newcomers.list_newcomers(tracked, unsearched, now - self.grace)
