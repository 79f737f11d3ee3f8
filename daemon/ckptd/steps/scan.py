"""Searches for the directories of new jobs and scans the known ones that are due, each as its owner."""

import functools
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from ckptd.checkpoints.agent.client import NOT_REACHED, SILENCE
from ckptd.checkpoints.agent.scan_client import CheckpointLocation, locate_jobs
from ckptd.core import retention
from ckptd.core.discovery import batch_script, nearby_candidates
from ckptd.core.discovery.file_system_budgets import find_budget
from ckptd.core.discovery.past_candidates import NearbyJobs
from ckptd.core.discovery.scan_schedule import WatchedRun, is_compared
from ckptd.core.model import JobKey, RunKey, RunRecord, Scan, Unknown
from ckptd.core.model.records import LocationRecord
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.core.runs.user_settings import parse_user_settings, select_user_settings
from ckptd.slurm.failure_reasons import is_deferred
from ckptd.steps import declared_locations, early_scans, named_links, search_again, small_owners
from ckptd.steps.file_system_turns import FileSystemTurns, charge_searches
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.nearby_jobs import collect_nearby_jobs, without_rival
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.record_scans import rescan_directories, scan_directories
from ckptd.steps.results import IDLE, StepResult
from ckptd.steps.small_owners import OwnerTurn
from ckptd.steps.snapshots import RunHistories, ScanProgress
from ckptd.steps.state import State
from ckptd.steps.tracked_jobs import list_tracked

MAX_DUE = 100  # directories of one owner that one task reads, so that their results are recorded soon
GROUPS_AT_ONCE = 2  # of directories of the only owner at work, so that both cores are used
RESCANNED_AT_ONCE = 50  # directories of one owner in one request, which carries no checkpoints
COMPARED_AT_ONCE = 500  # the same, if it is expected to find nothing changed; it ends with its turn
MAX_SILENT = 2  # owners whose file systems do not answer, in one `scan_again`
FEW_KEPT = 100  # of what searches and scripts found: to go through it for each new job would take its square
SECONDS_TO_WAIT = 1.0  # for a running scan of the same directories


@dataclass(slots=True)
class ScanSlice:
    """State of this step alone."""

    owner_locks: dict[int, threading.Lock] = field(default_factory=dict)  # by owner: one scan of a directory at once
    saves: dict[RunKey, tuple[nearby_candidates.NumberedSave, ...]] = field(default_factory=dict)  # that searches saw
    script_places: dict[RunKey, batch_script.Places] = field(default_factory=dict)  # of runs without a directory
    kept_count: int = 0  # of both, when those that are no longer watched were last removed


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Start the scan of every due directory; the runner counts each owner's scans when they end."""
    if parts.watcher:
        state.watchlist.hasten_directories(parts.watcher.take_changed(), now)
    scan_due(parts, state, now)
    if parts.watcher:
        parts.watcher.watch(_list_here(parts, state))
    return IDLE


def _list_here(parts: Parts, state: State) -> frozenset[tuple[str, int]]:
    """Return the directories of watched runs, without those that only nodes see."""
    watched, on_nodes = state.watchlist.directories, parts.node_scans.directories
    return frozenset(each for each in watched if not is_on_nodes(each[0], on_nodes)) if on_nodes else watched


def change_parts(parts: Parts, state: State, now: datetime) -> None:
    """Scan at the new interval, from the next scan of each directory on or sooner."""
    state.watchlist.set_interval(parts.scan_interval, now)


def scan_due(parts: Parts, state: State, now: datetime) -> int:
    """Scan every due directory, as its owner; return their number.

    Each owner's directories are one task of the runner, or those of several owners with few; a hanging one delays only
    its owner's. An owner whose last scan still runs is skipped, and so are directories on file systems whose budget is
    used up.
    """
    memory = state.own(ScanSlice, ScanSlice)
    turns = state.own(FileSystemTurns, FileSystemTurns)
    on_nodes = parts.node_scans.directories

    def must_wait(directory: str) -> bool:
        return is_on_nodes(directory, on_nodes) or turns.must_wait(parts.budgets, directory)

    alone: list[OwnerTurn] = []
    small: list[OwnerTurn] = []
    owners = early_scans.add_early(state, state.watchlist.due(now, MAX_DUE, must_wait), now, MAX_DUE, must_wait)
    for uid, due in owners.items():
        lock = memory.owner_locks.setdefault(uid, threading.Lock())
        if lock.locked():  # what is below would be asked each second of all owners whose turn is not over
            continue
        chosen = small if small_owners.is_small(parts, state, due, now) else alone
        if lock.acquire(blocking=False):
            admitted = [each for each in due if not must_wait(each.key.directory)]  # others took places meanwhile
            if any(find_budget(parts.budgets, each.key.directory) for each in admitted):
                admitted = admitted[:MAX_DUE]  # other owners wait for its place on the file system
            taken = turns.begin(parts.budgets, [each.key.directory for each in admitted])
            chosen.append(OwnerTurn(uid, lock, taken, admitted))
    groups = [*([turn] for turn in alone), *small_owners.form_groups(small)]
    for place, group in enumerate(groups):
        try:
            _submit(parts, state, now, group)
        except BaseException:  # the runner refuses tasks, or has run this one at once
            for left in groups[place + 1 :]:
                for turn in left:
                    turn.end(state)
            raise
    return sum(len(turn.due) for group in groups for turn in group)


def _submit(parts: Parts, state: State, now: datetime, turns: list[OwnerTurn]) -> None:
    submit_alone = functools.partial(_submit_alone, parts, state, now)
    if len(turns) == 1:
        submit_alone(turns[0])
    else:
        parts.runner.submit(functools.partial(small_owners.scan_together, parts, state, turns, now, submit_alone))


def _submit_alone(parts: Parts, state: State, now: datetime, turn: OwnerTurn) -> None:
    parts.runner.submit(functools.partial(_scan_as_owner, parts, state, turn, now))


def _scan_as_owner(parts: Parts, state: State, turn: OwnerTurn, now: datetime) -> None:
    turns, due = state.own(FileSystemTurns, FileSystemTurns), turn.due
    try:
        _find_directories(parts, state, [each for each in due if not each.key.is_located], now)
        located = [each for each in due if each.key.is_located]
        for start in range(0, len(located), MAX_DUE):  # many searches would take all places of the agent
            some = located[start : start + MAX_DUE]
            declared_locations.follow_declarations(parts, state, some, now)
            search_again.search_again(parts, state, some, now)
            named_links.follow_links(parts, state, [each for each in some if each.key in state.watchlist], now)
        watched = [each for each in located if each.key in state.watchlist]
        has_changes = len(watched) < len(due)
        for place, some in enumerate(_split_into_requests(parts, watched)):
            if place:  # those before may have used up a budget; the rest stays due
                some = [each for each in some if not turns.owes(parts.budgets, each.key.directory)]  # noqa: PLW2901
            has_changes = rescan_directories(parts, state, some, now, _count_groups(parts, state, some)) or has_changes
        state.change(ScanProgress, lambda progress: replace(progress, scanned_at=now))
        if has_changes:
            state.decision_due.set()
    except Exception:  # also one that nobody expects, or it would be logged each second
        state.watchlist.postpone([each.key for each in due], now)
        raise
    finally:
        turn.end(state)
    if len(due) >= MAX_DUE:
        parts.runner.scan_soon()


def _split_into_requests(parts: Parts, due: list[WatchedRun]) -> Iterator[list[WatchedRun]]:
    """Yield the directories of each request; those that only have to be compared come first, many in each.

    Where a budget protects a disk, a request is small: what it reads is counted afterwards.
    """
    quick: list[WatchedRun] = []
    others: list[WatchedRun] = []
    for each in due:
        is_quick = is_compared(each) and not find_budget(parts.budgets, each.key.directory)
        (quick if is_quick else others).append(each)
    for some, size in ((quick, COMPARED_AT_ONCE), (others, RESCANNED_AT_ONCE)):
        for start in range(0, len(some), size):
            yield some[start : start + size]


def _count_groups(parts: Parts, state: State, due: Collection[WatchedRun]) -> int:
    """Return how many groups of an owner's directories are scanned at once: one, where a budget protects a disk."""
    locks = [*state.own(ScanSlice, ScanSlice).owner_locks.values()]
    has_others = sum(lock.locked() for lock in locks) > 1
    has_budget = any(find_budget(parts.budgets, each.key.directory) for each in due)
    return 1 if has_others or has_budget else GROUPS_AT_ONCE


def scan_again(
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
                for start in range(0, len(keys), MAX_DUE):
                    found |= _scan_runs(parts, state, keys[start : start + MAX_DUE], reread, now)
            finally:
                lock.release()
            silent_count += any(found.get(key) == SILENCE for key in keys)
    return found


def search_new(parts: Parts, state: State, owners: Collection[int], now: datetime, *, is_recorded: bool = True) -> None:
    """Search for the checkpoints of these owners' jobs that were not searched for yet, with the limits of `scan_again`.

    A command does not record the results; it keeps them in `state` only.
    """
    silent_count = 0
    for uid in owners:
        lock = state.own(ScanSlice, ScanSlice).owner_locks.setdefault(uid, threading.Lock())
        if silent_count < MAX_SILENT and lock.acquire(timeout=SECONDS_TO_WAIT):
            try:
                unsearched = state.watchlist.list_unsearched(uid)[:MAX_DUE]
                _find_directories(parts, state, unsearched, now, is_recorded=is_recorded)
            finally:
                lock.release()
            silent_count += bool(unsearched) and len(state.watchlist.list_unsearched(uid)) >= len(unsearched)


def _scan_runs(
    parts: Parts, state: State, keys: list[RunKey], reread: Collection[str], now: datetime
) -> dict[RunKey, Scan | Unknown]:
    due = [state.watchlist.get(key) or WatchedRun(key=key, due_at=now) for key in keys]
    return dict(zip(keys, scan_directories(parts, state, due, now, reread), strict=True))


def _find_directories(
    parts: Parts, state: State, due: list[WatchedRun], now: datetime, *, is_recorded: bool = True
) -> None:
    if not due:
        return
    with state.record_lock:
        _forget_others(state)
        around = collect_nearby_jobs(parts, state, due, now)
    planned = _hold_back(parts, state, [(each, around.plan_search(each.key)) for each in due], now)
    prepared = [(each, sought and _with_script(parts, state, each, sought)) for each, sought in planned]
    # Without the script, a search could settle for another directory.
    state.watchlist.postpone([each.key for each, sought in prepared if isinstance(sought, Unknown)], now)
    planned = [(each, sought) for each, sought in prepared if not isinstance(sought, Unknown)]
    searches = [sought for _, sought in planned if sought is not None]
    found = locate_jobs(parts.agent, searches, parts.site_rules, parts.limits)
    charge_searches(parts, state, searches, found)
    if any(isinstance(each, CheckpointLocation) and each.found for each in found):
        since = min(sought.since for sought in searches)
        around = replace(around, beside=parts.store.backfill.list_neighbours(parts.cluster, searches[0].job.uid, since))
    locations = iter(found)
    with state.recording():
        answered = [(watched, sought, None if sought is None else next(locations)) for watched, sought in planned]
        _record_locations(parts, state, answered, around, now, is_recorded=is_recorded)


def _forget_others(state: State) -> None:
    """Remove what searches and scripts found of runs that are no longer watched, once it has doubled."""
    memory = state.own(ScanSlice, ScanSlice)
    if len(memory.saves) + len(memory.script_places) <= 2 * memory.kept_count + FEW_KEPT:
        return
    for known in (memory.saves, memory.script_places):
        for key in [key for key in known if key not in state.watchlist]:
            known.pop(key)
    memory.kept_count = len(memory.saves) + len(memory.script_places)
    state.change(ScanProgress, lambda progress: progress.without_unnamed(memory.script_places))


Planned = list[tuple[WatchedRun, nearby_candidates.DirectorySearch | None]]


def _hold_back(parts: Parts, state: State, planned: Planned, now: datetime) -> Planned:
    """Return the searches that may begin; those on a file system whose budget is used up wait a little."""
    turns = state.own(FileSystemTurns, FileSystemTurns)
    held = {
        watched.key for watched, sought in planned if sought and turns.owes(parts.budgets, str(sought.job.work_dir))
    }
    state.watchlist.postpone(held, now)
    return [each for each in planned if each[0].key not in held]


def _with_script(
    parts: Parts, state: State, watched: WatchedRun, sought: nearby_candidates.DirectorySearch
) -> nearby_candidates.DirectorySearch | Unknown:
    """Add what the job's batch script names, read once a job where the site allows it and its id is still its own.

    Unknown if Slurm must be asked later.
    """
    sought = declared_locations.with_values(parts, sought)
    owner = state.latest(PolledQueue).tracked.get(sought.job.job_id)
    if not parts.reads_batch_scripts or (owner is not None and owner.run != watched.key):
        return sought
    known = state.own(ScanSlice, ScanSlice).script_places
    found = known.get(watched.key)
    if found is None:
        script = parts.source.read_batch_script(sought.job)
        if isinstance(script, Unknown) and is_deferred(script):
            return script
        found = batch_script.Places()
        if not isinstance(script, Unknown):
            found = batch_script.read_places(script, sought.job, sought.values)
        with state.record_lock:
            known[watched.key] = found
            if found.paths or found.gaps:
                state.change(ScanProgress, lambda progress: progress.with_named(watched.key))
    return replace(sought, script_paths=found.paths, script_gaps=found.gaps)


def _with_saves_before(state: State, key: RunKey, answer: CheckpointLocation | Unknown) -> CheckpointLocation | Unknown:
    """Add what the search before saw of the same saves, and keep what this one saw for the next."""
    if isinstance(answer, Unknown) or answer.found is None:
        return answer
    known = state.own(ScanSlice, ScanSlice).saves
    before, known[key] = known.get(key, ()), answer.found.saves
    return replace(answer, found=answer.found._replace(saves_before=before))


Answered = tuple[WatchedRun, nearby_candidates.DirectorySearch | None, CheckpointLocation | Unknown | None]


def _record_locations(
    parts: Parts, state: State, answered: Collection[Answered], around: NearbyJobs, now: datetime, *, is_recorded: bool
) -> None:
    """Record locations of checkpoints and user settings in one transaction, then publish them."""
    jobs: dict[RunKey | None, list[JobKey]] = {
        watched.key: [known.key for known in list_tracked(state, watched.key)] for watched, _, _ in answered
    }
    for known in state.latest(MissedJobs).visited:
        if known.run in jobs:
            jobs[known.run].append(known.key)
    found: list[tuple[WatchedRun, LocationRecord]] = []
    absent: list[tuple[WatchedRun, Scan | Unknown]] = []
    unlocated: list[LocationRecord] = []
    histories = state.latest(RunHistories).by_run
    for watched, sought, answer in answered:
        if sought is None or answer is None:
            absent.append((watched, around.explain_no_search(watched.key)))
            continue
        if answer is NOT_REACHED:
            continue
        answer = _with_saves_before(state, watched.key, answer)  # noqa: PLW2901 - the answer, completed
        location, user = without_rival(answer, watched.key, sought, around), sought.job.user
        settings_directory = str(sought.job.work_dir or "")
        if isinstance(location, Unknown) or location.directory is None:
            absent.append((watched, _absence(location, sought, now)))
            if isinstance(answer, CheckpointLocation) and (
                _has_new_settings(answer, histories.get(watched.key))
                or answer.copies != state.watchlist.copies_of(watched.key)
            ):
                record = LocationRecord(
                    jobs=(),
                    run=watched.key,
                    user=user,
                    located_by=None,
                    user_settings=answer.user_settings,
                    settings_directory=settings_directory,
                    copies=answer.copies,
                )
                unlocated.append(record)
            continue
        located = declared_locations.make_record(parts, sought, location, jobs[watched.key])
        found.append((watched, located))
    if is_recorded:
        parts.store.checkpoints.record_searches(_find_news(absent))
        risen = parts.store.located_runs.record([*unlocated, *(located for _, located in found)], now)
        parts.store.histories.fresh.keep_same(risen)
        declared_locations.publish_copies(state, unlocated, now)
    declared_locations.publish_locations(state, absent, found, now)


def _find_news(absent: Collection[tuple[WatchedRun, Scan | Unknown]]) -> dict[RunKey, Unknown | None]:
    """Return the search results that differ from the last ones; searches for ended jobs do not replace a result."""
    return {
        watched.key: nearby_candidates.summarize_doubt(nothing)
        for watched, nothing in absent
        if not watched.is_last_scan
        and (
            watched.last is None
            or nearby_candidates.summarize_doubt(watched.last) != nearby_candidates.summarize_doubt(nothing)
        )
    }


def _has_new_settings(location: CheckpointLocation, history: RunRecord | None) -> bool:
    """Whether the user settings differ from the recorded ones."""
    stated = select_user_settings(location.user_settings, {}, retention.KEYS_ABOUT_KEEPING)
    return history is None or parse_user_settings(stated) != history.user_settings


def _absence(
    location: CheckpointLocation | Unknown, sought: nearby_candidates.DirectorySearch, now: datetime
) -> Scan | Unknown:
    """What a search that found no directory says: that nothing is there, as far as it saw."""
    if isinstance(location, Unknown):
        return location
    gaps = [f"the batch script names {gap}, which ckptd cannot resolve" for gap in sought.script_gaps]
    problems = tuple(Unknown(what="search", reason=problem) for problem in (*location.problems, *gaps))
    assert sought.job.work_dir is not None
    return Scan(directory=sought.job.work_dir, scanned_at=now, checkpoints=(), problems=problems)
