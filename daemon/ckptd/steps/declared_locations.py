"""Records the locations of runs: the primary one, and further ones that jobs, their owners or the site name."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.checkpoints.agent.scan_client import CheckpointLocation, locate_jobs
from ckptd.checkpoints.scanning.locate import expand_template
from ckptd.core.discovery import declared, nearby_candidates
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import JobKey, RunKey, Scan, Unknown
from ckptd.core.model.records import LocationRecord
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.earlier_directories import keep_earlier
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.snapshots import ScanProgress
from ckptd.steps.state import State
from ckptd.steps.tracked_jobs import list_tracked, move_jobs
from ckptd.steps.watchlist import Watchlist

COPY_GAP = timedelta(minutes=5)  # between two searches for a further location that is not there yet
_BY_JOB = frozenset({"comment", "admin-comment"})  # where a job itself names its checkpoints


@dataclass(slots=True)
class LocationSlice:
    """State of this module alone."""

    resolved_paths: dict[JobKey, tuple[str, str]] = field(
        default_factory=dict
    )  # a declared path, and where links lead it
    asked_at: dict[RunKey, datetime] = field(default_factory=dict)  # for further locations that are not there yet

    def forget_others(self, state: State) -> None:
        """Remove what is known of jobs that have ended and of runs that are no longer watched."""
        open_jobs = {known.key for known in state.latest(PolledQueue).tracked.values()}
        # copies: other owners' scans add to these meanwhile
        self.resolved_paths = {job: known for job, known in dict(self.resolved_paths).items() if job in open_jobs}
        self.asked_at = {run: at for run, at in dict(self.asked_at).items() if run in state.watchlist}


def follow_declarations(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> None:
    """Ask again for jobs that name other directories than those that are watched, and for copies that are not there.

    A job moves to another run only where its own comment names another primary location, and once that exists.
    """
    memory = state.own(LocationSlice, LocationSlice)
    asked = [
        (
            known,
            watched,
            with_values(
                parts,
                nearby_candidates.DirectorySearch(
                    job=known.job, since=began_at, began_at=began_at, is_declared_only=True
                ),
            ),
        )
        for watched, known, began_at in _list_asked(state, due, now)
    ]
    if not asked:
        return
    answers = locate_jobs(parts.agent, [sought for *_, sought in asked], parts.site_rules, parts.limits)
    changed: list[tuple[WatchedRun, LocationRecord]] = []
    with state.recording():
        memory.forget_others(state)
        for (known, watched, sought), found in zip(asked, answers, strict=True):
            memory.asked_at[watched.key] = now
            if isinstance(found, Unknown) or found.directory is None:
                continue
            if str(found.directory) == watched.key.directory:
                memory.resolved_paths[known.key] = (declared.declared_path(known.job) or "", watched.key.directory)
                known_copies = state.watchlist.copies_of(watched.key)
                copies = keep_earlier(found.copies, known_copies)
                if copies != known_copies:
                    changed.append((watched, replace(make_record(parts, sought, found, ()), copies=copies)))
            elif found.located_by in _BY_JOB:
                changed.append((watched, make_record(parts, sought, found, [known.key])))
        record_moves(parts, state, changed, now)


def must_ask(state: State, due: Collection[WatchedRun], now: datetime) -> bool:
    """Whether `follow_declarations` has a question."""
    return next(_list_asked(state, due, now), None) is not None


def _list_asked(
    state: State, due: Iterable[WatchedRun], now: datetime
) -> Iterator[tuple[WatchedRun, TrackedJob, datetime]]:
    """Yield the jobs to ask for, with their runs and when they started."""
    memory = state.own(LocationSlice, LocationSlice)
    for watched in due:
        for known in list_tracked(state, watched.key):
            if known.is_open and known.attempt is not None and _is_to_ask(state, memory, known, watched.key, now):
                yield watched, known, known.attempt.started_at


def _is_to_ask(state: State, memory: LocationSlice, known: TrackedJob, run: RunKey, now: datetime) -> bool:
    """Whether what a job names may differ from the locations that are watched for it."""
    path, copies = declared.declared_path(known.job), state.watchlist.copies_of(run)
    if path is not None and memory.resolved_paths.get(known.key) != (path, run.directory):
        is_other = not declared.means(path, known.job, run.directory)
        if is_other or copies or len(declared.split_locations(path)) > 1:
            return True
    asked_at = memory.asked_at.get(run)
    return any(not each.is_scanned for each in copies) and (asked_at is None or abs(now - asked_at) >= COPY_GAP)


def make_record(
    parts: Parts, sought: nearby_candidates.DirectorySearch, found: CheckpointLocation, jobs: Collection[JobKey]
) -> LocationRecord:
    """Return what is recorded of a search that found a directory."""
    return LocationRecord(
        jobs=tuple(dict.fromkeys(jobs)),
        run=RunKey(parts.cluster, sought.job.uid, str(found.directory)),
        user=sought.job.user,
        located_by=found.located_by,
        user_settings=found.user_settings,
        settings_directory=str(sought.job.work_dir or ""),
        copies=found.copies,
    )


def record_moves(
    parts: Parts, state: State, moved: Collection[tuple[WatchedRun, LocationRecord]], now: datetime
) -> None:
    """Record directories that were found, and watch them."""
    if moved:
        risen = parts.store.located_runs.record([located for _, located in moved], now)
        parts.store.histories.fresh.keep_same(risen)
        publish_locations(state, (), moved, now)


def with_values(parts: Parts, sought: nearby_candidates.DirectorySearch) -> nearby_candidates.DirectorySearch:
    """Add what the site's variables hold for a job."""
    expanded = {name: expand_template(each, sought.job) for name, each in parts.site_variables.items()}
    return replace(sought, values={name: value for name, value in expanded.items() if value})


def publish_locations(
    state: State,
    absent: Collection[tuple[WatchedRun, Scan | Unknown]],
    found: Collection[tuple[WatchedRun, LocationRecord]],
    now: datetime,
) -> None:
    """Take recorded results of searches into the watchlist and the snapshots."""
    for watched, nothing in absent:
        state.watchlist.record_scan(watched.key, nothing, now, watched)
    if not found:
        return
    runs = {job: located.run for _, located in found for job in located.jobs}
    move_jobs(state, runs)
    state.change(MissedJobs, lambda missed: missed.with_runs(runs))
    for watched, located in found:
        if watched.key != located.run:
            state.watchlist.move(watched.key, located.run, now)
    publish_copies(state, (located for _, located in found), now)
    located_by = {located.run: located.located_by or "" for _, located in found}
    state.change(ScanProgress, lambda progress: _with_located(progress, located_by, state.watchlist))


def publish_copies(state: State, records: Iterable[LocationRecord], now: datetime) -> None:
    """Watch the further locations that were recorded."""
    for each in records:
        if each.copies is not None:
            state.watchlist.set_copies(each.run, each.copies, now)


def _with_located(progress: ScanProgress, located_by: Mapping[RunKey, str], watchlist: Watchlist) -> ScanProgress:
    """Record how runs were located; remove those that are no longer watched once they are the most."""
    known = progress.located_by
    if len(known) > 2 * len(watchlist.all):
        known = {run: how for run, how in known.items() if run in watchlist}
    return replace(progress, located_by={**known, **located_by})
