"""What ckptd sees of the made-up cluster, taken through its real decisions in memory.

Polls fail, directories cannot be read, and what happens between two looks is not seen. Nothing here knows the truth
beyond what a look shows.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from random import Random
from zlib import crc32

from ckptd.core import alerts, forecast, health, maintenance, ownership, progress, rhythm, settlement, tracking
from ckptd.core import history as facts
from ckptd.core.declared import read_wishes
from ckptd.core.model import (
    SUSPENDED_STATES,
    Checkpoint,
    CheckpointState,
    EndedAttempt,
    FileIdentity,
    Flag,
    Job,
    JobState,
    Level,
    LimitSignal,
    Maintenance,
    QueueSnapshot,
    RunHistory,
    RunKey,
    Scan,
    Severity,
    Unknown,
)
from ckptd.core.reach import list_saved, measure_reaches
from ckptd.core.seen import Seen
from simulation.world import DAY, GIGABYTE, HOUR, MINUTE, QUEUED_SECONDS, Run

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC)
CLUSTER = "sim"
MIN_JOB_AGE = 5 * MINUTE
NOTICE = 2 * DAY
KEPT_CHECKPOINTS = 64  # as the record gives them to rules
UID = 1000
FORECAST_EVERY = 10  # decisions


def instant(seconds: float) -> datetime:
    return BEGINNING + timedelta(seconds=seconds)


@dataclass
class Observed:
    """What is on record of one run."""

    run: Run
    key: RunKey
    attempts: dict = field(default_factory=dict)
    checkpoints: list = field(default_factory=list)
    saved: dict = field(default_factory=dict)  # of all checkpoints ever
    looked_at: datetime | None = None
    scan: Scan | Unknown | None = None
    next_write: int = 0
    made: dict = field(default_factory=dict)
    first_seen_at: datetime | None = None
    # what is worked out of it, until it changes
    measured: tuple | None = None
    reaches: tuple | None = None
    attempts_known: tuple = ()

    def note_attempt(self, name, attempt):
        self.attempts[name] = attempt
        self.attempts_known = tuple(sorted(self.attempts.values(), key=lambda each: each.started_at))
        self.reaches = None

    def all_reaches(self):
        if self.reaches is None:
            self.reaches = measure_reaches(self.attempts_known, self.saved.values())
        return self.reaches


@dataclass
class Watch:
    """Watches a world from its beginning to its end, and keeps every flag."""

    runs: list[Run]
    seed: int = 1
    poll_interval: float = 5 * MINUTE
    poll_failures: float = 0.02
    reads_scripts: bool = False  # the site allows it
    rules: tuple = tuple(kind() for kind in health.RULES.values())

    def __post_init__(self):
        self.chance = Random(self.seed)
        self.tracked = {}
        self.seen = Seen()
        self.suspended = {}
        self.flags: dict[int, Flag] = {}
        self.open: dict[int, Flag] = {}
        self.warned_at = {}  # when a flag was a warning or worse first, by its number
        self.polled_at = None
        self.observed = {}
        self.by_job = {}
        self.ended_unasked = []
        self.active: list[Observed] = []
        self.evaluation_count = 0
        self.outages = []
        self.forecasts = []  # (run, when it was made, when the next save is expected)
        self.loss_forecasts = []  # (run, when it was made, job, how many seconds the limit is expected to take)
        self.goal_forecasts = []  # (run, when it was made, job, when its goal is expected to be reached)

    def watch(self) -> "Watch":
        waiting = sorted(self.runs, key=lambda run: run.start, reverse=True)
        end = max(run.end for run in self.runs) + HOUR
        self.outages = [(at, at + self.chance.uniform(1, 3) * HOUR) for at in _spread(self.chance, end, 3 * 86400.0)]
        now = self.poll_interval
        while now < end:
            while waiting and waiting[-1].start <= now:
                self._take_up(waiting.pop())
            self._tick(now)
            now += self.poll_interval
        return self

    def _take_up(self, run):
        key = RunKey(CLUSTER, UID, f"/scratch/alice/{run.number}")
        observed = Observed(run=run, key=key, first_seen_at=instant(run.start))
        self.observed[key] = observed
        self.by_job.update({execution.job_id: observed for execution in run.executions})
        self.active.append(observed)

    def _tick(self, now):
        for observed in self.active:
            self._look_as_it_changes(observed, now)
        if not self._poll_fails(now):
            self._poll(now)
        for observed in self.active:
            self._look(observed, now)
        self._decide(now)
        self.active = [each for each in self.active if each.run.end + HOUR > now]

    def _poll_fails(self, now):
        is_out = any(begin <= now < end for begin, end in self.outages)
        return is_out or self.chance.random() < self.poll_failures

    def _poll(self, now):
        at = instant(now)
        jobs = [job for observed in self.active for job in _queue_of(observed.run, now)]
        changes = tracking.compare(self.tracked, QueueSnapshot(cluster=CLUSTER, polled_at=at, jobs=tuple(jobs)))
        ended = [row for job_id in changes.asks_accounting for row in _account(self.by_job[job_id].run, job_id, now)]
        changes = settlement.settle(changes, tuple(ended), at)
        changes = maintenance.excuse(changes, self.tracked, self._maintenance(now))
        self.tracked = tracking.apply(self.tracked, changes)
        self.polled_at = at
        for attempt in (*changes.begun, *changes.updated, *changes.ended):
            self._record(attempt)
        self.seen.note_ended(changes.ended)
        jobs = (known.job for known in self.tracked.values())
        self.suspended.update({job.job_id: at for job in jobs if job.state in SUSPENDED_STATES})

    def _maintenance(self, now):
        """Return what is reserved on the nodes that have maintenance, made known two days before."""
        windows = {window for observed in self.active for window in observed.run.maintenance}
        return tuple(
            Maintenance(f"maint{begin:.0f}", instant(begin), instant(end), frozenset({"m1"}))
            for begin, end in sorted(windows)
            if begin - NOTICE <= now < end + HOUR
        )

    def _record(self, attempt):
        observed = self.by_job[attempt.job.job_id]
        name = (attempt.job, attempt.restart_count)
        known = observed.attempts.get(name)
        earlier = tuple(each for other, each in observed.attempts.items() if other != name)
        kind = known.kind if known else tracking.assign_kind(earlier, attempt)
        observed.note_attempt(name, replace(attempt, kind=kind))

    def _look_as_it_changes(self, observed, now):
        """Where the kernel tells of changes, the beginning and the end of each save are seen."""
        writes = observed.run.writes
        while observed.next_write < len(writes) and writes[observed.next_write].end + 2 <= now:
            write = writes[observed.next_write]
            observed.next_write += 1
            if observed.run.has_inotify:
                self._look(observed, write.begin + 1)
                self._look(observed, write.end + 2)

    def _look(self, observed, now):
        at = instant(now)
        if observed.looked_at is not None and at <= observed.looked_at:
            return
        run = observed.run
        if run.unreadable and run.unreadable[0] <= now < run.unreadable[1]:
            observed.scan = Unknown(what=observed.key.directory, reason="it did not answer in time")
            return
        scan = _scan(observed, now)
        if isinstance(observed.scan, Scan) and _is_same(observed.scan, scan):
            observed.scan, observed.looked_at = scan, at
            self._note_room(observed.key, scan)
            return
        attempts = tuple(observed.attempts.values())
        writers = ownership.Writers(owner_uid=UID, attempts=attempts, looked_at=observed.looked_at)
        changes = progress.merge_scan(observed.checkpoints, scan, writers, at)
        if not changes.is_empty:
            observed.checkpoints, observed.reaches = tuple(_merge(observed.checkpoints, changes)), None
            for record in (*changes.appeared, *changes.changed):
                for saved in list_saved([record]):
                    observed.saved[record.first_seen_at, record.checkpoint.path] = saved
        observed.scan, observed.looked_at = scan, at
        self._note_room(observed.key, scan)

    def _note_room(self, key, scan):
        if (samples := self.seen.sample_room(key, scan)) is not None:
            self.seen.note_room(key, samples)

    def _decide(self, now):
        at = instant(now)
        jobs = defaultdict(list)
        for known in self.tracked.values():
            if known.is_open:
                jobs[self.by_job[known.key.job_id].key].append(known.job)
        flags = defaultdict(list)
        for flag in self.open.values():
            flags[flag.finding.run].append(flag)
        evaluations = []
        reserved = self._maintenance(now)
        for observed in self.active:
            history = self.seen.add_to(
                replace(self._history(observed, jobs[observed.key]), maintenance=reserved), flags[observed.key]
            )
            rhythm._last = observed.measured  # else it would measure each run anew at each decision
            evaluations.append(
                health.evaluate(
                    history,
                    self.rules,
                    at,
                    max_age=timedelta(minutes=15),
                    max_scan_age=timedelta(minutes=20),
                    min_job_duration=timedelta(minutes=10),
                )
            )
            observed.measured = rhythm._last
            self.evaluation_count += 1
            if self.evaluation_count % FORECAST_EVERY == 0:
                self._forecast(observed, history, now)
        self._note(alerts.compare(self.open.values(), evaluations, at))
        for number, flag in self.open.items():
            if flag.finding.severity is not Severity.INFO:
                self.warned_at.setdefault(number, now)

    def _forecast(self, observed, history, now):
        for job in history.jobs[:1]:
            attempt = facts.attempt_of(history, job)
            if not job.is_running or attempt is None:
                continue
            run, at = observed.run, instant(now)
            expected = forecast.next_checkpoint_at(history, attempt, at)
            if expected is not None:
                self.forecasts.append((run, now, (expected - BEGINNING).total_seconds()))
            limit = forecast.at_limit(history, attempt, job.ends_at, at)
            if limit is not None and limit.saves_that_fit <= 1:
                self.loss_forecasts.append((run, now, job.job_id, limit.lost.total_seconds()))
            goal = forecast.toward_goal(history, attempt, job.ends_at, at)
            if goal is not None and goal.done_at is not None:
                self.goal_forecasts.append((run, now, job.job_id, (goal.done_at - BEGINNING).total_seconds()))

    def _history(self, observed, jobs):
        is_cut = len(observed.checkpoints) >= KEPT_CHECKPOINTS
        return RunHistory(
            key=observed.key,
            user="alice",
            located_by="comment",
            jobs=tuple(jobs),
            attempts=observed.attempts_known,
            checkpoints=tuple(observed.checkpoints),
            polled_at=self.polled_at,
            scan=observed.scan,
            recorded_since=observed.first_seen_at,
            wishes=read_wishes(observed.run.wishes),
            suspended_until=self.suspended,
            signals=self._signals(observed.run, jobs),
            is_cut=is_cut,
            reaches=observed.all_reaches() if is_cut else None,
        )

    def _signals(self, run, jobs):
        if not self.reads_scripts or run.asked_lead is None:
            return {}
        return {job.job_id: LimitSignal("B:USR1", run.asked_lead) for job in jobs}

    def _note(self, changes):
        for flag in changes.opened:
            number = len(self.flags)
            self.flags[number] = self.open[number] = replace(flag, flag_id=number)
        for flag in (*changes.worsened, *changes.updated):
            self.flags[flag.flag_id] = self.open[flag.flag_id] = flag
        for flag in changes.resolved:
            self.flags[flag.flag_id] = flag
            del self.open[flag.flag_id]


def _spread(chance, end, mean):
    at = chance.expovariate(1 / mean)
    while at < end:
        yield at
        at += chance.expovariate(1 / mean)


def _queue_of(run, now):
    """Return the run's jobs as the queue shows them: each job's latest execution, what waits, what has just ended."""
    latest = {}
    for execution in run.executions:
        if execution.start <= now:
            latest[execution.job_id] = execution
    for execution in latest.values():
        job = _job(run, execution, now)
        if job is not None:
            yield job


def _job(run, execution, now):
    state, ends, restart_count = JobState.RUNNING, execution.limit_end, execution.restart_count
    pause = execution.suspended
    if pause and now < pause[1]:
        ends = execution.start + execution.limit
        if now >= pause[0]:
            state = JobState.SUSPENDED
    started_at, submitted_at = instant(execution.start), instant(execution.start - QUEUED_SECONDS)
    if now >= execution.end:
        if execution.state is JobState.REQUEUED:
            state, restart_count = JobState.PENDING, restart_count + 1
            started_at, submitted_at = None, instant(execution.end)
        elif now >= execution.end + MIN_JOB_AGE:
            return None
        else:
            state, ends = execution.state, execution.end
    return Job(
        cluster=CLUSTER,
        job_id=execution.job_id,
        array_job_id=execution.array_job_id,
        user="alice",
        uid=UID,
        state=state,
        restart_count=restart_count,
        time_limit=timedelta(seconds=execution.limit),
        submitted_at=submitted_at,
        started_at=started_at,
        ends_at=instant(ends) if started_at else None,
        node_list=_node_of(run) if started_at else "",
        node_count=run.node_count,
    )


def _node_of(run):
    return "m1" if run.maintenance else "n1"


def _account(run, job_id, now):
    """Return what accounting has of a job's executions that have ended."""
    for execution in run.executions:
        if execution.job_id == job_id and execution.end <= now:
            yield EndedAttempt(
                job_id=job_id,
                submitted_at=instant(execution.start - QUEUED_SECONDS),
                started_at=instant(execution.start),
                ended_at=instant(execution.end),
                state=execution.told or execution.state,
                node_list=_node_of(run),
                node_count=run.node_count,
                cpu_count=0,
                gpu_count=0,
            )


def _is_same(before, after):
    """Whether a look saw what the one before it saw; each state of a checkpoint is made once."""
    if len(before.checkpoints) != len(after.checkpoints) or before.leftovers != after.leftovers:
        return False
    return all(one is other for one, other in zip(before.checkpoints, after.checkpoints, strict=True))


def _scan(observed, now):
    run = observed.run
    found = [_checkpoint(observed, write, now) for write in run.writes if write.begin <= now < write.gone]
    is_full = run.free_drops_at is not None and now >= run.free_drops_at
    return Scan(
        directory=PurePosixPath(observed.key.directory),
        scanned_at=instant(now),
        checkpoints=tuple(found),
        leftovers=tuple(w.name for w in run.writes if w.is_leftover and w.begin <= now < w.gone),
        free_bytes=run.size if is_full else 1000 * GIGABYTE,
        total_bytes=10_000 * GIGABYTE,
        filesystem_type="lustre",
    )


def _checkpoint(observed, write, now):
    state = CheckpointState.COMPLETE if write.is_whole else CheckpointState.DAMAGED
    changed = write.end
    if now < write.end or (not write.is_whole and now < write.end + MINUTE):
        state, changed = CheckpointState.WRITING, min(now, write.end)
    elif write.corrupt_from is not None and now >= write.corrupt_from:
        state = CheckpointState.DAMAGED
    known = observed.made.get((write.name, state, changed))
    if known is None:
        known = observed.made[write.name, state, changed] = Checkpoint(
            path=PurePosixPath(observed.key.directory) / write.name,
            format="torch",
            files=(write.name,),
            identities=(FileIdentity(1, crc32(write.name.encode()), write.size, int(changed * 1e9)),),
            owner_uids=frozenset({UID}),
            size_bytes=write.size,
            modified_at=instant(changed),
            state=state,
            reason=None if state is not CheckpointState.DAMAGED else "cut off",
            level=Level.FULL if write.corrupt_from is not None and now >= write.corrupt_from else Level.STRUCTURE,
            step=write.step,
            goal_step=int(observed.run.work) if observed.run.states_goal else None,
        )
    return known


def _merge(recorded, changes):
    replaced = {(str(each.checkpoint.path), each.first_seen_at): each for each in (*changes.changed, *changes.gone)}
    kept = [replaced.get((str(each.checkpoint.path), each.first_seen_at), each) for each in recorded]
    every = [*kept, *changes.appeared]
    furthest = max(every, key=lambda record: record.checkpoint.step)
    newest = every[-KEPT_CHECKPOINTS:]
    return newest if any(record is furthest for record in newest) else [furthest, *newest]
