"""Repeats the search for runs whose directory a search found, and whose jobs may save elsewhere now.

The first search may have chosen data or parameters, because no resumable state was saved yet. A job may also save in a
new directory after a restart, or because its next fold or phase has a separate one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

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
from ckptd.steps.file_system_turns import charge_searches
from ckptd.steps.nearby_jobs import collect_nearby_jobs, without_rival
from ckptd.steps.packed_checkpoints import last_modified_at, roles_of
from ckptd.steps.parts import Parts
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import State
from ckptd.steps.tracked_jobs import list_tracked

SEARCH_GAP = timedelta(minutes=5)  # between two searches for another directory of one run
LONGER_GAP = 4  # ... and at least this part of the time without a save, or without a state since the start
LONGEST_GAP = timedelta(minutes=30)  # ... and at most this: until it is found, a first state counts as none
SILENT_INTERVALS = 1.5  # without a save, until a job that saved is searched for
_ROLES = list(Role)  # the strongest evidence first


@dataclass(slots=True)
class SearchSlice:
    """State of this module alone."""

    searched_at: dict[RunKey, datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _SearchedAgain:
    """A run to search again for.

    `silent_since` is when its saves stopped, None where better ones are sought. `has_saved`: since its last start.
    """

    watched: WatchedRun
    record: RunRecord
    jobs: tuple[TrackedJob, ...]
    silent_since: datetime | None = None
    has_saved: bool = False

    def plan(self, around: NearbyJobs) -> DirectorySearch | None:
        """Return what to search for: of a job that saves nothing any more, only what was written since."""
        sought = around.plan_search(self.watched.key)
        if sought is None or self.silent_since is None:
            return sought
        excluded = (self.watched.key.directory, *sought.excluded, *sought.shared)
        return replace(sought, since=self.silent_since, began_at=self.silent_since, excluded=excluded, shared=())


class _Silence(NamedTuple):
    """Since when a job saves nothing: its last save, or its start."""

    since: datetime
    follows_save: bool


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
    charge_searches(parts, state, searches, found)
    moved: list[tuple[WatchedRun, LocationRecord]] = []
    with state.recording():
        for (each, _), sought, location in zip(planned, searches, found, strict=True):
            answer = without_rival(location, each.watched.key, sought, around)
            if isinstance(answer, Unknown) or not _is_elsewhere(answer, each.watched.key):
                continue
            located = declared_locations.make_record(parts, sought, answer, [known.key for known in each.jobs])
            if answer.found is None:  # the job, its owner or the site names it
                if not each.has_saved:  # else it saved here all the same
                    moved.append((each.watched, located))
            elif each.silent_since is not None and answer.found.role is Role.STATE:
                moved.append((each.watched, _as_continued(each, located, state)))
            elif each.silent_since is None and _rank(answer.found.role) < _rank(_strongest_role(each.record)):
                moved.append((each.watched, located))
        declared_locations.record_moves(parts, state, moved, now)


def must_search(state: State, due: Collection[WatchedRun], now: datetime) -> bool:
    """Whether `search_again` searches for one of these runs."""
    return bool(_list_wanted(state, due, now))


def _list_wanted(state: State, due: Iterable[WatchedRun], now: datetime) -> list[_SearchedAgain]:
    histories = state.latest(RunHistories).by_run
    searched_at = state.own(SearchSlice, SearchSlice).searched_at
    located = [
        each
        for each in due
        if not each.is_last_scan
        and (record := histories.get(each.key)) is not None
        and record.located_by == "discovery"
        and abs(now - searched_at.get(each.key, now - SEARCH_GAP)) >= SEARCH_GAP
    ]
    if not located:
        return []
    wanted: list[_SearchedAgain] = []
    for each in located:
        record, mine = histories[each.key], tuple(list_tracked(state, each.key))
        if _strongest_role(record) is not Role.STATE:
            started_at = max((known.attempt.started_at for known in mine if known.attempt), default=now)
            if _is_time(searched_at.get(each.key), started_at, now):
                wanted.append(_SearchedAgain(watched=each, record=record, jobs=mine))
        elif (silence := _find_silence(record, mine, now)) and _is_time(searched_at.get(each.key), silence.since, now):
            wanted.append(
                _SearchedAgain(
                    watched=each,
                    record=record,
                    jobs=mine,
                    silent_since=silence.since,
                    has_saved=silence.follows_save,
                )
            )
    return wanted


def _is_time(searched_at: datetime | None, since: datetime, now: datetime) -> bool:
    """Whether a run is searched for again that saves no states, or nothing, since an instant: ever less often."""
    gap = min(max(SEARCH_GAP, (now - since) / LONGER_GAP), LONGEST_GAP)
    return searched_at is None or abs(now - searched_at) >= gap


def _find_silence(record: RunRecord, jobs: Iterable[TrackedJob], now: datetime) -> _Silence | None:
    """Return since when the only running job of a run saves nothing: its start or its last save.

    None until it should have saved: one interval after its start, some more after a save.
    """
    running = [known for known in jobs if known.is_open and known.attempt is not None]
    if len(running) != 1 or running[0].attempt is None:
        return None
    started_at = running[0].attempt.started_at
    patience = measure_rhythm(record).step_interval or PATIENCE
    saved_at = last_modified_at(record.checkpoints)
    if saved_at is not None and saved_at >= started_at:
        return _Silence(saved_at, follows_save=True) if now - saved_at >= patience * SILENT_INTERVALS else None
    return _Silence(started_at, follows_save=False) if now - started_at >= patience else None


def _is_elsewhere(answer: CheckpointLocation, key: RunKey) -> bool:
    """Whether a search found a directory that the scans of the watched one do not see."""
    return answer.directory is not None and not answer.directory.is_relative_to(key.directory)


def _as_continued(wanted: _SearchedAgain, located: LocationRecord, state: State) -> LocationRecord:
    """Return the new location of a whole run, whose directory so far becomes an earlier one."""
    key = wanted.watched.key
    copies = name_earlier(key, located.run, state.watchlist.copies_of(key))
    return replace(located, copies=copies, continues=key)


def _strongest_role(record: RunRecord) -> Role:
    return min(roles_of(record.checkpoints), key=_rank, default=Role.DATA)


def _rank(role: Role) -> int:
    return _ROLES.index(role)
