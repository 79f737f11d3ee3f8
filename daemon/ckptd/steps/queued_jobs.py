"""The open jobs of one poll, sorted once for many decisions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from ckptd.core.model import Job, RunKey
from ckptd.steps.polled_queue import PolledQueue


@dataclass(frozen=True, slots=True)
class QueuedJobs:
    """The open jobs of one poll, by run and by directory."""

    queued: PolledQueue
    by_run: Mapping[RunKey, list[Job]]
    by_directory: Mapping[str, list[tuple[RunKey, Job]]]

    @classmethod
    def sort(cls, queued: PolledQueue) -> Self:
        """Sort the open jobs of a poll."""
        by_run: dict[RunKey, list[Job]] = defaultdict(list)
        by_directory: dict[str, list[tuple[RunKey, Job]]] = defaultdict(list)
        for known in queued.tracked.values():
            if known.is_open and known.run is not None:
                by_run[known.run].append(known.job)
                by_directory[known.run.directory].append((known.run, known.job))
        return cls(queued, by_run, by_directory)

    def add_neighbours(self, runs: Iterable[RunKey]) -> frozenset[RunKey]:
        """Return these runs and all with open jobs in their directories."""
        own = frozenset(runs)
        return own.union(run for key in own for run, _ in self.by_directory.get(key.directory, ()))
