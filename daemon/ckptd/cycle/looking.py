"""Look at the directories that are due, each as its owner: find those of new jobs, scan those that are known."""

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from ckptd.checkpoints.agent_client import NOT_REACHED
from ckptd.checkpoints.look import Location, locate_jobs
from ckptd.core import batch_script, search
from ckptd.core.model import Job, RunKey, Scan, Unknown
from ckptd.core.watchlist import Watched
from ckptd.cycle.scanning import scan_directories
from ckptd.cycle.state import Parts, State

MAX_LOOKS = 100  # directories in one step, so that nobody waits long for what it records
Submit = Callable[[Callable[[], None]], object]


def _at_once(work: Callable[[], None]) -> None:
    work()


def look(parts: Parts, state: State, now: datetime, submit: Submit = _at_once) -> int:
    """Look at every directory that is due, as its owner; return how many there were.

    Each owner's directories are one piece of work for `submit`: a hung one keeps nobody but its owner waiting, and
    an owner whose last look is still going on is passed over.
    """
    with state.lock:
        due = state.watchlist.due(now, MAX_LOOKS)
    by_owner: dict[int, list[Watched]] = defaultdict(list)
    for each in due:
        by_owner[each.key.uid].append(each)
    count = 0
    for uid, group in by_owner.items():
        lock = state.look_locks.setdefault(uid, threading.Lock())
        if lock.acquire(blocking=False):
            submit(functools.partial(_look_as_owner, parts, state, lock, group, now))
            count += len(group)
    return count


def _look_as_owner(parts: Parts, state: State, lock: threading.Lock, due: list[Watched], now: datetime) -> None:
    try:
        _find_directories(parts, state, [each for each in due if not each.key.is_located], now)
        scan_directories(parts, state, [each for each in due if each.key.is_located], now)
        state.scanned_at = now
    finally:
        lock.release()


def look_again(
    parts: Parts, state: State, runs: Collection[RunKey], reread: Collection[str], now: datetime
) -> dict[RunKey, Scan | Unknown]:
    """Look at these runs' directories whether they are due or not, and read the checkpoints at some paths anew."""
    with ExitStack() as owners:
        for uid in sorted({key.uid for key in runs}):
            owners.enter_context(state.look_locks.setdefault(uid, threading.Lock()))
        with state.lock:
            due = [state.watchlist.get(key) or Watched(key=key, due_at=now) for key in runs]
        return dict(zip(runs, scan_directories(parts, state, due, now, reread), strict=True))


def _find_directories(parts: Parts, state: State, due: list[Watched], now: datetime) -> None:
    if not due:
        return
    with state.lock:
        neighbours = search.sort_neighbours(state.tracked.values())
        histories = state.histories
    planned = [(each, search.plan_search(each.key, neighbours, histories.get(each.key))) for each in due]
    searches = [_with_script(parts, state, watched, sought) for watched, sought in planned if sought is not None]
    locations = iter(locate_jobs(parts.agent, searches, parts.site_rules, parts.limits))
    with state.lock:
        for watched, sought in planned:
            location = None if sought is None else next(locations)
            if sought is None or location is None:
                state.watchlist.looked(watched.key, Unknown(what="job", reason="no working directory"), now)
            elif location is not NOT_REACHED:
                doubted = _without_rival(location, sought.job, neighbours)
                _record_location(parts, state, watched, sought.job, doubted, now)


def _with_script(parts: Parts, state: State, watched: Watched, sought: search.Search) -> search.Search:
    """Add what the job's batch script names, read once a job where the site allows it."""
    if not parts.reads_batch_scripts:
        return sought
    if watched.key not in state.script_paths:
        script = parts.source.read_batch_script(sought.job.job_id)
        found = () if isinstance(script, Unknown) else batch_script.find_directories(script, sought.job)
        state.script_paths[watched.key] = found
    return replace(sought, script_paths=state.script_paths[watched.key])


def _without_rival(location: Location | Unknown, job: Job, neighbours: search.Neighbours) -> Location | Unknown:
    """Doubt what a look around found where another job could have written it."""
    if isinstance(location, Unknown) or location.directory is None or location.located_by != "discovery":
        return location
    rival = search.find_rival(job, location.directory, neighbours)
    if rival is None:
        return location
    reason = f"job {rival.job_id} could have written {location.directory}, too: name it by --comment=ckpt=PATH"
    return Unknown(what="search", reason=reason)


def _record_location(
    parts: Parts, state: State, watched: Watched, job: Job, location: Location | Unknown, now: datetime
) -> None:
    if isinstance(location, Location):
        state.seen.note_wishes(watched.key, location.wishes)
    if isinstance(location, Unknown) or location.directory is None:
        state.watchlist.looked(watched.key, _absence(location, job, now), now)
        return
    key = RunKey(parts.cluster, job.uid, str(location.directory))
    moved = [known.key for known in state.tracked.values() if known.run == watched.key]
    parts.store.assign_run(moved, key, job.user, location.located_by, now)
    for job_key in moved:
        state.tracked[job_key.job_id] = replace(state.tracked[job_key.job_id], run=key)
    parts.store.record_wishes(key, location.wishes)
    state.located_by[key] = location.located_by or ""
    state.seen.note_wishes(key, location.wishes)
    state.watchlist.move(watched.key, key, now)


def _absence(location: Location | Unknown, job: Job, now: datetime) -> Scan | Unknown:
    """What a search that found no directory says: that nothing is there, as far as it saw."""
    if isinstance(location, Unknown):
        return location
    problems = tuple(Unknown(what="search", reason=problem) for problem in location.problems)
    assert job.work_dir is not None
    return Scan(directory=job.work_dir, scanned_at=now, checkpoints=(), problems=problems)
