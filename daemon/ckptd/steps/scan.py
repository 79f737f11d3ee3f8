"""Searches for the directories of new jobs and scans the known ones that are due, each as its owner."""

import functools
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import PurePosixPath

from ckptd.checkpoints.agent.client import NOT_REACHED, SILENCE
from ckptd.checkpoints.agent.scan_client import Location, locate_jobs
from ckptd.core import retention
from ckptd.core.discovery import batch_script, nearby_candidates
from ckptd.core.discovery.past_candidates import Around
from ckptd.core.discovery.scan_schedule import Watched
from ckptd.core.model import Job, JobKey, RunKey, RunRecord, Scan, Unknown
from ckptd.core.model.records import Located
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.user_settings import read_wishes, select_wishes
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.record_scans import scan_directories
from ckptd.steps.results import IDLE, StepResult
from ckptd.steps.snapshots import RunHistories, ScanProgress
from ckptd.steps.state import State
from ckptd.steps.watchlist import Watchlist
from ckptd.store.errors import StoreError

MAX_LOOKS = 100  # directories of one owner at once, so that nobody waits long for what is recorded of them
MAX_SILENT = 2  # owners whose file systems do not answer, in one look again
SECONDS_TO_WAIT = 1.0  # for a look at the same directories that is going on


@dataclass(slots=True)
class ScanSlice:
    """State of this step alone."""

    owner_locks: dict[int, threading.Lock] = field(default_factory=dict)  # by owner: one scan of a directory at once
    script_paths: dict[RunKey, tuple[str, ...]] = field(default_factory=dict)  # of runs without a directory


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Start the scan of every due directory; the runner counts each owner's scans when they end."""
    if parts.watcher:
        state.watchlist.hasten_directories(parts.watcher.take_changed(), now)
    look(parts, state, now)
    if parts.watcher:
        watched = {PurePosixPath(each.key.directory) for each in state.watchlist.all if each.key.is_located}
        parts.watcher.watch(watched)
    return IDLE


def change_parts(parts: Parts, state: State, now: datetime) -> None:
    """Scan at the new interval, from the next scan of each directory on or sooner."""
    state.watchlist.set_interval(parts.scan_interval, now)


def look(parts: Parts, state: State, now: datetime) -> int:
    """Scan every due directory, as its owner; return their number.

    Each owner's directories are one task of the runner, so a hanging one delays only its owner's. An owner whose last
    scan still runs is skipped.
    """
    count = 0
    for uid, group in state.watchlist.due(now, MAX_LOOKS).items():
        lock = state.own(ScanSlice, ScanSlice).owner_locks.setdefault(uid, threading.Lock())
        if lock.acquire(blocking=False):
            parts.runner.submit(functools.partial(_look_as_owner, parts, state, lock, group, now))
            count += len(group)
    return count


def _look_as_owner(parts: Parts, state: State, lock: threading.Lock, due: list[Watched], now: datetime) -> None:
    try:
        _find_directories(parts, state, [each for each in due if not each.key.is_located], now)
        scan_directories(parts, state, [each for each in due if each.key.is_located], now)
        state.change(ScanProgress, lambda progress: replace(progress, scanned_at=now))
        state.decision_due.set()
    except StoreError:
        state.watchlist.postpone([each.key for each in due], now)
        raise
    finally:
        lock.release()


def look_again(
    parts: Parts, state: State, runs: Collection[RunKey], reread: Collection[str], now: datetime
) -> dict[RunKey, Scan | Unknown]:
    """Scan these runs' directories even if they are not due, and read the checkpoints at some paths again.

    Owners are processed one after another, so that the due scans of others do not wait. An owner whose scan is running
    is skipped, and so are the remaining ones after several owners' file systems did not answer.
    """
    by_owner: dict[int, list[RunKey]] = defaultdict(list)
    for key in runs:
        by_owner[key.uid].append(key)
    found: dict[RunKey, Scan | Unknown] = {}
    silent_count = 0
    for uid, keys in by_owner.items():
        lock = state.own(ScanSlice, ScanSlice).owner_locks.setdefault(uid, threading.Lock())
        if silent_count < MAX_SILENT and lock.acquire(timeout=SECONDS_TO_WAIT):
            try:
                for start in range(0, len(keys), MAX_LOOKS):
                    found |= _look_at(parts, state, keys[start : start + MAX_LOOKS], reread, now)
            finally:
                lock.release()
            silent_count += any(found.get(key) == SILENCE for key in keys)
    return found


def search_new(parts: Parts, state: State, owners: Collection[int], now: datetime, *, is_recorded: bool = True) -> None:
    """Search for the checkpoints of these owners' jobs that were not searched for yet, with the limits of `look_again`.

    A command does not record the results; it keeps them in `state` only.
    """
    silent_count = 0
    for uid in owners:
        lock = state.own(ScanSlice, ScanSlice).owner_locks.setdefault(uid, threading.Lock())
        if silent_count < MAX_SILENT and lock.acquire(timeout=SECONDS_TO_WAIT):
            try:
                unsearched = state.watchlist.list_unsearched(uid)[:MAX_LOOKS]
                _find_directories(parts, state, unsearched, now, is_recorded=is_recorded)
            finally:
                lock.release()
            silent_count += bool(unsearched) and len(state.watchlist.list_unsearched(uid)) >= len(unsearched)


def _look_at(
    parts: Parts, state: State, keys: list[RunKey], reread: Collection[str], now: datetime
) -> dict[RunKey, Scan | Unknown]:
    due = [state.watchlist.get(key) or Watched(key=key, due_at=now) for key in keys]
    return dict(zip(keys, scan_directories(parts, state, due, now, reread), strict=True))


def _find_directories(
    parts: Parts, state: State, due: list[Watched], now: datetime, *, is_recorded: bool = True
) -> None:
    if not due:
        return
    with state.record_lock:
        around = _look_around(parts, state, due, now)
    planned = [(each, around.plan_search(each.key)) for each in due]
    searches = [_with_script(parts, state, watched, sought) for watched, sought in planned if sought is not None]
    found = locate_jobs(parts.agent, searches, parts.site_rules, parts.limits)
    if any(isinstance(each, Location) and each.found for each in found):
        since = min(sought.since for sought in searches)
        around = replace(around, beside=parts.store.backfill.list_neighbours(parts.cluster, searches[0].job.uid, since))
    locations = iter(found)
    with state.recording():
        answered = [(watched, sought, None if sought is None else next(locations)) for watched, sought in planned]
        _take_locations(parts, state, answered, around, now, is_recorded=is_recorded)


def _look_around(parts: Parts, state: State, due: Collection[Watched], now: datetime) -> Around:
    """Collect the known jobs near the due ones, which all have one owner."""
    keys = {each.key for each in due}
    visited = state.latest(MissedJobs).visited
    past: dict[RunKey | None, TrackedJob] = {known.run: known for known in visited if known.run in keys}
    since = min((known.key.first_seen_at for known in past.values()), default=None)
    uid = next(iter(keys)).uid
    beside = () if since is None else parts.store.backfill.list_neighbours(parts.cluster, uid, since)
    neighbours = nearby_candidates.sort_neighbours(state.latest(PolledQueue).tracked.values())
    return Around(neighbours, past, state.latest(RunHistories).by_run, now, beside)


def _with_script(
    parts: Parts, state: State, watched: Watched, sought: nearby_candidates.Search
) -> nearby_candidates.Search:
    """Add the paths in the job's batch script, read once if the site allows it and the id is still the job's."""
    owner = state.latest(PolledQueue).tracked.get(sought.job.job_id)
    if not parts.reads_batch_scripts or (owner is not None and owner.run != watched.key):
        return sought
    known = state.own(ScanSlice, ScanSlice).script_paths
    found = known.get(watched.key)
    if found is None:
        script = parts.source.read_batch_script(sought.job.job_id)
        found = () if isinstance(script, Unknown) else batch_script.find_directories(script, sought.job)
        with state.record_lock:
            for key in [key for key in known if key not in state.watchlist]:
                del known[key]
            known[watched.key] = found
    return replace(sought, script_paths=found)


def _without_rival(
    location: Location | Unknown, key: RunKey, sought: nearby_candidates.Search, around: Around
) -> Location | Unknown:
    """Drop search results that another job wrote; mark those as unknown that another job may have written."""
    if isinstance(location, Unknown) or location.found is None:
        return location
    if around.is_anothers(key, sought, location.found):
        return replace(location, directory=None, located_by=None)
    rival = around.find_rival(key, sought, location.found)
    if rival is None:
        return location
    reason = f"job {rival.job_id} could have written {location.directory}, too: name it by --comment=ckpt=PATH"
    return Unknown(what="search", reason=reason)


Answered = tuple[Watched, nearby_candidates.Search | None, Location | Unknown | None]


def _take_locations(
    parts: Parts, state: State, answered: Collection[Answered], around: Around, now: datetime, *, is_recorded: bool
) -> None:
    """Record locations of checkpoints and user settings in one transaction, then publish them."""
    jobs: dict[RunKey | None, list[JobKey]] = defaultdict(list)
    for known in chain(state.latest(PolledQueue).tracked.values(), state.latest(MissedJobs).visited):
        jobs[known.run].append(known.key)
    found: list[tuple[Watched, Located]] = []
    absent: list[tuple[Watched, Scan | Unknown]] = []
    heard: list[Located] = []
    histories = state.latest(RunHistories).by_run
    for watched, sought, answer in answered:
        if sought is None or answer is None:
            absent.append((watched, Unknown(what="job", reason="no working directory")))
            continue
        if answer is NOT_REACHED:
            continue
        location, user = _without_rival(answer, watched.key, sought, around), sought.job.user
        wished_in = str(sought.job.work_dir or "")
        if isinstance(location, Unknown) or location.directory is None:
            absent.append((watched, _absence(location, sought.job, now)))
            if isinstance(answer, Location) and _is_news(answer, histories.get(watched.key)):
                told = Located(
                    jobs=(), run=watched.key, user=user, located_by=None, wishes=answer.wishes, wished_in=wished_in
                )
                heard.append(told)
            continue
        located = Located(
            jobs=tuple(dict.fromkeys(jobs[watched.key])),
            run=RunKey(parts.cluster, sought.job.uid, str(location.directory)),
            user=user,
            located_by=location.located_by,
            wishes=location.wishes,
            wished_in=wished_in,
        )
        found.append((watched, located))
    if is_recorded:
        parts.store.checkpoints.record_searches(_find_news(absent))
        parts.store.located_runs.record([*heard, *(located for _, located in found)], now)
    _note_locations(state, absent, found, now)


def _note_locations(
    state: State,
    absent: Collection[tuple[Watched, Scan | Unknown]],
    found: Collection[tuple[Watched, Located]],
    now: datetime,
) -> None:
    for watched, nothing in absent:
        state.watchlist.looked(watched.key, nothing, now)
    if not found:
        return
    runs = {job: located.run for _, located in found for job in located.jobs}
    state.change(PolledQueue, lambda queued: queued.with_runs(runs))
    state.change(MissedJobs, lambda missed: missed.with_runs(runs))
    for watched, located in found:
        state.watchlist.move(watched.key, located.run, now)
    located_by = {located.run: located.located_by or "" for _, located in found}
    state.change(ScanProgress, lambda progress: _with_located(progress, located_by, state.watchlist))


def _with_located(progress: ScanProgress, located_by: Mapping[RunKey, str], watchlist: Watchlist) -> ScanProgress:
    """Note how runs were located; remove those that are no longer watched."""
    known = {run: how for run, how in progress.located_by.items() if run in watchlist}
    return replace(progress, located_by={**known, **located_by})


def _find_news(absent: Collection[tuple[Watched, Scan | Unknown]]) -> dict[RunKey, Unknown | None]:
    """Return the search results that differ from the last ones; searches for ended jobs do not replace a result."""
    return {
        watched.key: nearby_candidates.summarize_doubt(nothing)
        for watched, nothing in absent
        if not watched.is_last_look
        and (
            watched.last is None
            or nearby_candidates.summarize_doubt(watched.last) != nearby_candidates.summarize_doubt(nothing)
        )
    }


def _is_news(location: Location, history: RunRecord | None) -> bool:
    """Whether the user settings differ from the recorded ones."""
    said = select_wishes(location.wishes, {}, retention.KEYS_ABOUT_KEEPING)
    return history is None or read_wishes(said) != history.wishes


def _absence(location: Location | Unknown, job: Job, now: datetime) -> Scan | Unknown:
    """Return the result of a search that found no directory, with what it could not read."""
    if isinstance(location, Unknown):
        return location
    problems = tuple(Unknown(what="search", reason=problem) for problem in location.problems)
    assert job.work_dir is not None
    return Scan(directory=job.work_dir, scanned_at=now, checkpoints=(), problems=problems)
