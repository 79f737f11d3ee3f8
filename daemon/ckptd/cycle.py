"""One cycle: observe, record, decide, record the decision, act, publish.

The steps that ask Slurm or look at directories take no lock and change nothing; those that record hold the state's
lock for as long as one short transaction. What could not be looked at is Unknown and changes nothing either.
"""

import functools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.agent_client import NOT_REACHED
from ckptd.checkpoints.locate import SiteRule
from ckptd.checkpoints.look import Agent, Location, LookLimits, locate_jobs, scan_runs
from ckptd.core import alerts, batch_script, fleet, health, ledger, notices, progress, search, settlement, tracking
from ckptd.core.actions import Finished
from ckptd.core.doubts import MAX_AGE as DOUBT_AGE
from ckptd.core.doubts import Doubts
from ckptd.core.ledger import LossKey, LossTotal
from ckptd.core.model import (
    Attempt,
    Checkpoint,
    EndCause,
    EndedAttempt,
    Flag,
    Job,
    JobState,
    QueueSnapshot,
    RecordedCheckpoint,
    RunHistory,
    RunKey,
    Scan,
    Unknown,
)
from ckptd.core.report import Report
from ckptd.core.seen import Seen
from ckptd.core.totals import Totals
from ckptd.core.tracking import TrackedJob
from ckptd.core.watchlist import Watched, Watchlist
from ckptd.slurm.interface import JobSource
from ckptd.store.store import Store

MAX_LOOKS = 100  # directories in one step, so that nobody waits long for what it records
MISSED_SCANS = 4  # after so many a look at a directory is too old to judge by
TIMED_OUT_MEMORY = timedelta(hours=1)  # after which a run that its limit ended is left alone
LOSSES_INTERVAL = timedelta(minutes=1)  # between two sums of the ledger
LOSS_FINAL_AGE = timedelta(hours=1)  # a line so old counts, settled or not
SUSPECT_LOOKS = 3  # looks at the queue that must agree before everything is believed to have vanished


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Everything that a cycle works with, wired once."""

    cluster: str
    source: JobSource
    store: Store
    agent: Agent
    rules: tuple[health.Rule, ...]
    overrides: tuple[health.Override, ...] = ()
    site_rules: tuple[SiteRule, ...]
    limits: LookLimits
    reads_batch_scripts: bool = False
    scan_interval: timedelta
    max_poll_age: timedelta  # rules do not judge by an older look at the queue
    min_job_duration: timedelta
    notice_policy: notices.Policy = field(default_factory=notices.Policy)


class Losses:
    """The totals of the ledger for metrics, asked for once in a while; old days are summed up once a day."""

    def __init__(self) -> None:
        self.totals: dict[LossKey, LossTotal] = {}
        self._old: dict[LossKey, LossTotal] = {}
        self._old_until: date | None = None
        self._summed_at: datetime | None = None

    def refresh(self, store: Store, cluster: str, now: datetime) -> None:
        """Sum the ledger up anew, unless that was done just now. No total ever falls."""
        if self._summed_at is not None and now - self._summed_at < LOSSES_INTERVAL:
            return
        until = (now - timedelta(days=2)).date()
        if until != self._old_until:
            self._old = ledger.add_up(store.sum_losses_by_day(cluster, last=until).values())
            self._old_until = until
        recent = store.sum_losses_by_day(cluster, first=until + timedelta(days=1), final_before=now - LOSS_FINAL_AGE)
        found = ledger.add_up([self._old, *recent.values()])
        self.totals = ledger.never_less(self.totals, found)
        self._summed_at = now


@dataclass(kw_only=True)
class State:
    """What is carried from one cycle to the next; all of it can be had again from the store and from looking."""

    tracked: dict[int, TrackedJob]
    watchlist: Watchlist
    histories: dict[RunKey, RunHistory] = field(default_factory=dict)  # as of the last decision
    located_by: dict[RunKey, str] = field(default_factory=dict)
    script_paths: dict[RunKey, tuple[str, ...]] = field(default_factory=dict)  # by runs without a directory
    seen: Seen = field(default_factory=Seen)
    jobs_by_state: Counter[str] = field(default_factory=Counter)
    slurm_trouble: str | None = None
    suspect_count: int = 0
    polled_at: datetime | None = None
    scanned_at: datetime | None = None
    totals: Totals = field(default_factory=Totals)
    timed_out: dict[RunKey, Attempt] = field(default_factory=dict)  # runs whose latest attempt its limit ended
    waiting: frozenset[tuple[int, PurePosixPath | None]] = frozenset()  # owners and directories of waiting jobs
    doubts: Doubts = field(default_factory=Doubts)  # ends that accounting is still asked about
    losses: Losses = field(default_factory=Losses)
    lock: threading.RLock = field(default_factory=threading.RLock)
    look_locks: dict[int, threading.Lock] = field(default_factory=dict)  # by owner: two looks at one directory


def begin(parts: Parts, now: datetime) -> State:
    """Take up what the store knows."""
    state = State(tracked=dict(parts.store.read_tracked(parts.cluster)), watchlist=Watchlist(parts.scan_interval))
    state.doubts.note(parts.store.read_guessed(parts.cluster, now - DOUBT_AGE), now)
    _watch_open_runs(state, now)
    return state


def run_cycle(parts: Parts, state: State, now: datetime) -> Report:
    """Do everything once."""
    snapshot, ended = observe_queue(parts, state, now)
    record_queue(parts, state, snapshot, ended, now)
    for _ in range(2):  # a directory that was found is scanned in the same cycle
        look(parts, state, now)
    decide(parts, state, now)
    return report(parts, state, now)


Ended = tuple[EndedAttempt, ...] | Unknown


def observe_queue(parts: Parts, state: State, now: datetime) -> tuple[QueueSnapshot | Unknown, Ended]:
    """Ask Slurm for every job with one query, and accounting for those whose end the queue does not tell."""
    snapshot = parts.source.read_queue(now)
    nothing: Ended = ()
    if isinstance(snapshot, Unknown):
        return snapshot, nothing
    changes = tracking.compare(state.tracked, snapshot)
    doubted = state.doubts.due(now)
    asked = changes.asks_accounting.union(attempt.job.job_id for attempt in doubted)
    if not asked:
        return snapshot, nothing
    since = min([changes.asks_since, *(attempt.started_at for attempt in doubted)])
    return snapshot, parts.source.read_ended(asked, since)


def record_queue(parts: Parts, state: State, snapshot: QueueSnapshot | Unknown, ended: Ended, now: datetime) -> None:
    """Record what changed in the queue; a look that cannot be believed changes nothing."""
    with state.lock:
        if isinstance(snapshot, Unknown):
            state.slurm_trouble = snapshot.reason
            state.totals = state.totals.with_failed_poll()
            parts.store.record_poll(parts.cluster, now, snapshot)
            return
        if _is_doubtful(state, snapshot, ended):
            state.slurm_trouble = "most running jobs vanished at once; waiting for a second look to agree"
            state.totals = state.totals.with_failed_poll()
            parts.store.record_poll(parts.cluster, now, Unknown(what="queue", reason=state.slurm_trouble))
            return
        _settle_doubts(parts, state, ended, now)
        changes = settlement.settle(tracking.compare(state.tracked, snapshot), ended, now)
        parts.store.record_jobs(changes)
        parts.store.record_poll(parts.cluster, now)
        state.tracked = tracking.apply(state.tracked, changes)
        state.doubts.note(changes.ended, now)
        _note_timed_out(state, changes.ended, snapshot, now)
        state.slurm_trouble = None
        state.polled_at = now
        state.totals = state.totals.with_jobs(changes)
        state.jobs_by_state = _count_states(snapshot)
        state.seen.note_ended(changes.ended)
        state.seen.note_jobs((known.job for known in state.tracked.values()), now)
        touched = _runs_of(state, (*changes.begun, *changes.ended))
        _watch_open_runs(state, now)
        state.watchlist.hasten(touched, now)


def _note_timed_out(state: State, ended: Iterable[Attempt], snapshot: QueueSnapshot, now: datetime) -> None:
    """Remember for an hour which runs their limit has just ended: they may be wished to go on."""
    runs = {known.key: known.run for known in state.tracked.values()}
    for attempt in ended:
        run = runs.get(attempt.job)
        if run is not None and attempt.cause is EndCause.TIME_LIMIT and attempt.ended_at:
            state.timed_out[run] = attempt
    state.timed_out = {
        run: attempt
        for run, attempt in state.timed_out.items()
        if attempt.ended_at and now - attempt.ended_at < TIMED_OUT_MEMORY
    }
    state.waiting = frozenset((job.uid, job.work_dir) for job in snapshot.jobs if job.state is JobState.PENDING)


def list_finished(parts: Parts, state: State, count_resubmits: Callable[[RunKey], int]) -> dict[RunKey, Finished]:
    """Return the runs that their time limit ended within the last hour, by what the record says of their end."""
    jobs = {known.key: known.job for known in state.tracked.values()}
    result: dict[RunKey, Finished] = {}
    for run, attempt in state.timed_out.items():
        job = jobs.get(attempt.job)
        if job is None or not run.is_located:
            continue
        name = attempt.job, attempt.restart_count
        lines = {line.attempt: line for line in parts.store.read_losses(run)}
        result[run] = Finished(
            job=job,
            attempt=attempt,
            is_settled=name in lines and lines[name].is_settled,
            has_successor=(job.uid, job.work_dir) in state.waiting,
            resubmit_count=count_resubmits(run),
        )
    return result


def _settle_doubts(parts: Parts, state: State, ended: Ended, now: datetime) -> None:
    """Correct the attempts whose end was guessed, where accounting has told it since."""
    doubted = state.doubts.due(now)
    told = () if isinstance(ended, Unknown) else settlement.refine(doubted, ended, now)
    parts.store.correct_attempts([attempt for attempt in told if attempt not in doubted])
    state.doubts.asked(doubted, told, now)
    for attempt in told:
        known = state.tracked.get(attempt.job.job_id)
        latest = known.attempt if known else None
        if known and latest and (latest.job, latest.restart_count) == (attempt.job, attempt.restart_count):
            state.tracked[attempt.job.job_id] = replace(known, attempt=attempt)


def _count_states(snapshot: QueueSnapshot) -> Counter[str]:
    counts: Counter[str] = Counter()
    for job in snapshot.jobs:
        counts[job.state.value] += job.task_count
    return counts


def _is_doubtful(state: State, snapshot: QueueSnapshot, ended: Ended) -> bool:
    """Whether to wait for the next look: so much is gone, and accounting does not say that it ended."""
    if not tracking.is_suspect(state.tracked, snapshot):
        state.suspect_count = 0
        return False
    if not isinstance(ended, Unknown):
        shown = {job.job_id for job in snapshot.jobs} | {row.job_id for row in ended}
        if all(known.key.job_id in shown for known in state.tracked.values() if known.is_open):
            return False
    state.suspect_count += 1
    return state.suspect_count < SUSPECT_LOOKS


def _runs_of(state: State, attempts: Iterable[Attempt]) -> set[RunKey]:
    jobs = {attempt.job for attempt in attempts}
    return {known.run for known in state.tracked.values() if known.run is not None and known.key in jobs}


def _watch_open_runs(state: State, now: datetime) -> None:
    state.watchlist.keep({known.run for known in state.tracked.values() if known.is_open and known.run}, now)
    state.script_paths = {key: paths for key, paths in state.script_paths.items() if key in state.watchlist}


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
        _scan_directories(parts, state, [each for each in due if each.key.is_located], now)
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
        return dict(zip(runs, _scan_directories(parts, state, due, now, reread), strict=True))


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


def _scan_directories(
    parts: Parts, state: State, due: list[Watched], now: datetime, reread: Collection[str] = ()
) -> list[Scan | Unknown]:
    """Scan and record; the checkpoints at the paths to reread are read anew though nothing about them changed."""
    if not due:
        return []
    with state.lock:
        known = [parts.store.read_recorded(each.key) for each in due]
    asked = [(each.key, _present_checkpoints(recorded, reread)) for each, recorded in zip(due, known, strict=True)]
    found = scan_runs(parts.agent, asked, parts.limits, now)
    with state.lock:
        attempts = _read_attempts(parts, [each.key for each in due])
        unchanged = [
            watched.key
            for watched, recorded, scan in zip(due, known, found, strict=True)
            if not _record_scan(parts, state, watched, scan, Known(recorded, attempts.get(watched.key, ())), now)
        ]
        parts.store.record_unchanged(unchanged, now)
    return found


def _present_checkpoints(recorded: Iterable[RecordedCheckpoint], reread: Collection[str]) -> list[Checkpoint]:
    return [
        record.checkpoint
        for record in recorded
        if record.gone_at is None and not (reread and str(record.checkpoint.path) in reread)
    ]


def _read_attempts(parts: Parts, keys: list[RunKey]) -> dict[RunKey, tuple[Attempt, ...]]:
    histories = parts.store.read_histories(parts.cluster, keys) if keys else []
    return {history.key: history.attempts for history in histories}


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


class Known(NamedTuple):
    """What the record says of a run that is being looked at."""

    recorded: tuple[RecordedCheckpoint, ...]
    attempts: tuple[Attempt, ...]


def _record_scan(
    parts: Parts, state: State, watched: Watched, scan: Scan | Unknown, known: Known, now: datetime
) -> bool:
    """Record what a look found; False where all is as it was, which is recorded for many runs at once."""
    key = watched.key
    if scan is NOT_REACHED:
        return True  # it stays due
    state.watchlist.looked(key, scan, now)
    if isinstance(scan, Unknown):
        parts.store.record_scan(key, progress.CheckpointChanges(), scan)
        return True
    writers = progress.Writers(owner_uid=key.uid, attempts=known.attempts, looked_at=watched.looked_at)
    changes = progress.merge_scan(known.recorded, scan, writers, now)
    state.totals = state.totals.with_checkpoints(known.recorded, changes)
    if changes.is_empty and scan.is_whole and watched.looked_at is not None:
        return False
    parts.store.record_scan(key, changes, scan)
    return True


def decide(parts: Parts, state: State, now: datetime) -> alerts.FlagChanges:
    """Judge every run in the queue, and record what opened, worsened or resolved, and whom to tell, at once."""
    with state.lock:
        open_flags = parts.store.read_open_flags(parts.cluster)
        keys = {watched.key for watched in state.watchlist.all} | {flag.finding.run for flag in open_flags}
        keys |= state.timed_out.keys()
        flags: dict[RunKey, list[Flag]] = defaultdict(list)
        for flag in open_flags:
            flags[flag.finding.run].append(flag)
        state.seen.keep(keys)
        state.histories = {
            history.key: state.seen.add_to(history, flags[history.key])
            for history in _current_histories(parts, state, keys)
        }
        evaluations = [
            health.evaluate(
                history,
                health.choose_rules(history, parts.rules, parts.overrides),
                now,
                max_age=parts.max_poll_age,
                max_scan_age=parts.scan_interval * MISSED_SCANS,
                min_job_duration=parts.min_job_duration,
            )
            for history in state.histories.values()
        ]
        changes = alerts.compare(open_flags, evaluations, now)
        parts.store.record_flags(changes, now, _plan_notices(parts, state, changes, open_flags, now))
        state.totals = state.totals.with_flags(changes)
        return changes


def _plan_notices(
    parts: Parts, state: State, changes: alerts.FlagChanges, open_flags: tuple[Flag, ...], now: datetime
) -> tuple[notices.Notice, ...]:
    edges = (*changes.opened, *changes.worsened, *changes.resolved)
    if not edges:
        return ()
    jobs: dict[tuple[RunKey, int | None], Job] = {}
    queued: set[RunKey] = set()
    for known in state.tracked.values():
        if known.run is not None:
            jobs[known.run, known.job.job_id] = known.job
            if known.is_open:
                queued.add(known.run)
    gone = [flag for flag in (*edges, *open_flags) if (flag.finding.run, flag.finding.job_id) not in jobs]
    jobs |= parts.store.read_flag_jobs(gone)
    facts = notices.Facts(
        jobs=jobs,
        told=parts.store.read_told(notices.list_topics(changes, jobs)),
        open_flags=open_flags,
        queued_runs=queued,
    )
    return notices.plan(changes, facts, parts.notice_policy, now)


def _current_histories(parts: Parts, state: State, keys: set[RunKey]) -> list[RunHistory]:
    """Return the histories with the jobs, the writers beside them and the look at the disk as they are now."""
    jobs: dict[RunKey, list[Job]] = defaultdict(list)
    writers: dict[str, list[tuple[RunKey, Job]]] = defaultdict(list)
    for known in state.tracked.values():
        if known.is_open and known.run is not None:
            jobs[known.run].append(known.job)
            writers[known.run.directory].append((known.run, known.job))
    current: list[RunHistory] = []
    for history in parts.store.read_histories(parts.cluster, keys):
        key = history.key
        watched = state.watchlist.get(key)
        current.append(
            replace(
                history,
                jobs=tuple(jobs[key]),
                other_writers=tuple((job, job.user) for run, job in writers[key.directory] if run != key),
                polled_at=None if state.slurm_trouble else state.polled_at,  # while Slurm is silent nothing is judged
                scan=watched.last if watched else None,
            )
        )
    return current


def report(parts: Parts, state: State, now: datetime) -> Report:
    """Sum up the moment for metrics and the status page."""
    open_flags = parts.store.read_open_flags(parts.cluster)
    with state.lock:
        watched = state.watchlist.all
        state.losses.refresh(parts.store, parts.cluster, now)
        made = Report(
            cluster=parts.cluster,
            made_at=now,
            slurm_trouble=state.slurm_trouble,
            polled_at=state.polled_at,
            scanned_at=state.scanned_at,
            jobs_by_state=dict(state.jobs_by_state),
            open_flags=open_flags,
            totals=state.totals,
            losses=state.losses.totals,
        )
        histories = state.histories
        located_by = {key: history.located_by for key, history in histories.items()} | state.located_by
    return replace(  # the sums take long where runs are many, and need no lock: histories are never changed
        made,
        runs_by_locator=Counter(
            located_by.get(each.key) or "unknown" if each.key.is_located else "none" for each in watched
        ),
        unknown_directories=sum(isinstance(each.last, Unknown) for each in watched),
        scan_delay=now - min((each.due_at for each in watched if each.due_at < now), default=now),
        fleet=fleet.sum_up(histories.values(), now),
    )
