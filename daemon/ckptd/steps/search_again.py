"""Searches again for runs that a search located, and whose jobs may save elsewhere by now.

A first search may have settled for data or parameters, because no resumable state was saved yet. And a job that was
started again may save in a new directory, while the run's own holds what its earlier starts saved.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from ckptd.checkpoints.agent.scan_client import CheckpointLocation, locate_jobs
from ckptd.core.discovery.nearby_candidates import PATIENCE, DirectorySearch
from ckptd.core.discovery.past_candidates import NearbyJobs
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Role, RunKey, RunRecord, Unknown
from ckptd.core.model.records import LocationRecord
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.earlier_directories import name_earlier
from ckptd.steps import declared_locations
from ckptd.steps.nearby_jobs import collect_nearby_jobs, without_rival
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import State

SEARCH_GAP = timedelta(minutes=5)  # between two searches for another directory of one run
LONGER_GAP = 4  # ... and at least this part of the time that its job has run
_ROLES = list(Role)  # the strongest evidence first


@dataclass(slots=True)
class SearchSlice:
    """State of this module alone."""

    searched_at: dict[RunKey, datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _SearchedAgain:
    """A run to search again for; `started_at` is the start whose saves are missed, None where better ones are."""

    watched: WatchedRun
    record: RunRecord
    jobs: tuple[TrackedJob, ...]
    started_at: datetime | None

    def plan(self, around: NearbyJobs) -> DirectorySearch | None:
        """Return what to search for: of a start that has saved nothing, only what was written since."""
        sought = around.plan_search(self.watched.key)
        if sought is None or self.started_at is None:
            return sought
        excluded = (PurePosixPath(self.watched.key.directory), *sought.excluded, *sought.shared)
        return replace(sought, since=self.started_at, began_at=self.started_at, excluded=excluded, shared=())


def search_again(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> None:
    """Search for these runs of one owner, as far as it is time to; watch what is found instead of what is watched."""
    wanted = _list_wanted(state, due, now)
    if not wanted:
        return
    memory = state.own(SearchSlice, SearchSlice)
    with state.record_lock:
        around = collect_nearby_jobs(parts, state, [each.watched for each in wanted], now)
        kept = {key: at for key, at in memory.searched_at.items() if key in state.watchlist}
        memory.searched_at = kept | {each.watched.key: now for each in wanted}
    planned = [(each, sought) for each in wanted if (sought := each.plan(around)) is not None]
    searches = [replace(declared_locations.with_values(parts, sought), is_role_asked=True) for _, sought in planned]
    found = locate_jobs(parts.agent, searches, parts.site_rules, parts.limits) if searches else []
    moved: list[tuple[WatchedRun, LocationRecord]] = []
    with state.recording():
        for (each, _), sought, location in zip(planned, searches, found, strict=True):
            answer = without_rival(location, each.watched.key, sought, around)
            if isinstance(answer, Unknown) or not _is_elsewhere(answer, each.watched.key):
                continue
            located = declared_locations.make_record(parts, sought, answer, [known.key for known in each.jobs])
            if answer.found is None:  # the job, its owner or the site names it
                moved.append((each.watched, located))
            elif each.started_at is not None and answer.found.role is Role.STATE:
                moved.append((each.watched, _as_continued(each, located, state)))
            elif each.started_at is None and _rank(answer.found.role) < _rank(_strongest_role(each.record)):
                moved.append((each.watched, located))
        declared_locations.record_moves(parts, state, moved, now)


def _list_wanted(state: State, due: Iterable[WatchedRun], now: datetime) -> list[_SearchedAgain]:
    histories = state.latest(RunHistories).by_run
    searched_at = state.own(SearchSlice, SearchSlice).searched_at
    located = [
        each
        for each in due
        if not each.is_last_look
        and (record := histories.get(each.key)) is not None
        and record.located_by == "discovery"
        and now - searched_at.get(each.key, now - SEARCH_GAP) >= SEARCH_GAP
    ]
    if not located:
        return []
    jobs: Mapping[RunKey | None, list[TrackedJob]] = defaultdict(list)
    for known in state.latest(PolledQueue).tracked.values():
        jobs[known.run].append(known)
    wanted: list[_SearchedAgain] = []
    for each in located:
        record, mine = histories[each.key], tuple(jobs[each.key])
        if _strongest_role(record) is not Role.STATE:
            wanted.append(_SearchedAgain(watched=each, record=record, jobs=mine, started_at=None))
        elif (started_at := _find_silent_start(record, mine, now)) is not None:
            gap = max(SEARCH_GAP, (now - started_at) / LONGER_GAP)
            if now - searched_at.get(each.key, now - gap) >= gap:
                wanted.append(_SearchedAgain(watched=each, record=record, jobs=mine, started_at=started_at))
    return wanted


def _find_silent_start(record: RunRecord, jobs: Iterable[TrackedJob], now: datetime) -> datetime | None:
    """Return when the only running job of a run was started again, if it should have saved since then and has not."""
    running = [known for known in jobs if known.is_open and known.attempt is not None]
    if len(running) != 1 or len(record.attempts) < 2 or running[0].attempt is None:
        return None
    started_at = running[0].attempt.started_at
    if any(each.checkpoint.modified_at >= started_at for each in record.checkpoints):
        return None
    return started_at if now - started_at >= (measure_rhythm(record).step_interval or PATIENCE) else None


def _is_elsewhere(answer: CheckpointLocation, key: RunKey) -> bool:
    """Whether a search found a directory that the scans of the watched one do not see."""
    return answer.directory is not None and not answer.directory.is_relative_to(key.directory)


def _as_continued(wanted: _SearchedAgain, located: LocationRecord, state: State) -> LocationRecord:
    """Return the new location of a whole run, whose directory so far becomes an earlier one."""
    key = wanted.watched.key
    copies = name_earlier(key, located.run, state.watchlist.copies_of(key))
    return replace(located, copies=copies, continues=key)


def _strongest_role(record: RunRecord) -> Role:
    there = (each.checkpoint.role for each in record.checkpoints if each.deleted_at is None)
    return min(there, key=_rank, default=Role.DATA)


def _rank(role: Role) -> int:
    return _ROLES.index(role)
