"""Searches near an ended job without a named directory: which files may be its run's checkpoints.

No poll saw the job, so only files that were written while it ran can be its own, and only if no other job of its user
could have written them at that time. If this is unclear, no directory is assigned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from ckptd.core.discovery import nearby_candidates
from ckptd.core.discovery.nearby_candidates import DirectorySearch, FoundDirectory, Neighbour, Neighbours
from ckptd.core.model import Job, RunKey, RunRecord, Unknown
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.ownership import CLOCK_TOLERANCE


@dataclass(frozen=True, slots=True)
class NearbyJobs:
    """The known jobs near those that are searched for: in the queue, and ended ones."""

    neighbours: Neighbours
    past: Mapping[RunKey | None, TrackedJob]  # of the runs searched for, those whose job was over before it was seen
    histories: Mapping[RunKey, RunRecord]
    now: datetime
    beside: Sequence[Neighbour] = ()

    def plan_search(self, key: RunKey) -> DirectorySearch | None:
        """Plan the search for a run without a directory; None if there is no place to search."""
        known = self.past.get(key)
        if known:
            return plan_search(known, self.beside)
        return nearby_candidates.plan_search(key, self.neighbours, self.histories, self.now)

    def explain_no_search(self, key: RunKey) -> Unknown:
        """Return why no search could be planned for a run."""
        known = self.past.get(key) or next(iter(self.neighbours.by_run.get(key, ())), None)
        return nearby_candidates.explain_no_search(known.job if known else None)

    def find_rival(self, key: RunKey, sought: DirectorySearch, found: FoundDirectory) -> Job | None:
        """Return another job that may have written what a search found."""
        known = self.past.get(key)
        if known:
            return None if found.is_named_for_job else find_rival(known, found.directory, self.beside)
        return nearby_candidates.find_rival(sought, found, self.neighbours, self.beside, self.now)

    def is_anothers(self, key: RunKey, sought: DirectorySearch, found: FoundDirectory) -> bool:
        """Whether the directory that a search found is known to be another job's; ended jobs were omitted before."""
        return key not in self.past and nearby_candidates.is_anothers(sought, found, self.beside)


def plan_search(known: TrackedJob, neighbours: Iterable[Neighbour]) -> DirectorySearch | None:
    """Plan the search for an ended job; None if there is no place to search.

    Directories of other work that ran at the same time are excluded.
    """
    if known.job.work_dir is None or known.ended_at is None:
        return None
    others = (each for each in list_beside(known, neighbours) if each.run.is_located)
    excluded = {each.run.directory for each in others}
    since, until = known.key.first_seen_at, known.ended_at + CLOCK_TOLERANCE
    return DirectorySearch(job=known.job, since=since, began_at=since, until=until, excluded=tuple(sorted(excluded)))


def find_rival(known: TrackedJob, directory: PurePosixPath, neighbours: Iterable[Neighbour]) -> Job | None:
    """Return another job that may have written what a search found."""
    for each in list_beside(known, neighbours):
        if not each.run.is_located and nearby_candidates.may_write(each.job, known.job, directory):
            return each.job
    return None


def list_beside(known: TrackedJob, neighbours: Iterable[Neighbour]) -> list[Neighbour]:
    """Return the jobs of other work that ran at the same time."""
    since, until = known.key.first_seen_at, known.ended_at
    return [
        each
        for each in neighbours
        if each.key != known.key
        and (until is None or each.started_at <= until + CLOCK_TOLERANCE)
        and (each.ended_at is None or each.ended_at + CLOCK_TOLERANCE >= since)
        and not nearby_candidates.could_share(each.job, known.job)
    ]
