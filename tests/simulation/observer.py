"""What ckptd sees of the made-up cluster, taken through its real decisions in memory.

Polls fail, directories cannot be read, and what happens between two looks is not seen. Nothing here knows the truth
beyond what a look shows.

Looks come at every tick, but those that cannot show anything new are left out, and a run is judged at the others. Of
the ticks between, at which only time passes, it is judged at the last: where nothing else is found there than before,
nothing else was in between, and otherwise the tick at which that changed is searched for. `is_always` leaves out
nothing: it looks and judges at every tick, to show that the flags are the same.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from ckptd.core import health
from ckptd.core.forecast import projection
from ckptd.core.health import flag_changes
from ckptd.core.model import SUSPENDED_STATES, Flag, LimitSignal, Scan, Severity
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import with_rhythm
from ckptd.core.runs.user_settings import parse_user_settings
from ckptd.steps.run_facts import EndTallies, FreeSpaceSamples, JobHolds
from simulation import directory, polls, queue
from simulation.copies import SecondLocation
from simulation.directory import AFTER_BEGIN, AFTER_END
from simulation.ends import Ends
from simulation.polls import BEGINNING, MAX_AGE, TICK, at_tick, first_tick, instant
from simulation.record import Record
from simulation.run_truth import HOUR, Run
from support.run_builder import change, make_history

FORECAST_EVERY = 10  # ticks
SHARE = 0.25  # of the interval that one judgement stands for, once a save is late
FARTHEST = 12  # ticks that it does where no save is expected


@dataclass
class Watch:
    """Watches a world from its beginning to its end, and keeps every flag.

    `share` is which part of the runs is watched, of how many parts; the queue is always followed whole.
    """

    runs: list[Run]
    seed: int = 1
    share: tuple[int, int] = (0, 1)
    is_always: bool = False
    reads_scripts: bool = False  # the site allows it
    rules: tuple = tuple(kind() for kind in health.RULES.values())

    def __post_init__(self):
        self.polls = polls.plan_polls(self.runs, self.seed)
        self.watched: list[RunWatch] = []

    def watch(self) -> "Watch":
        looks = {run.number: queue.follow(run, self.polls, is_always=self.is_always) for run in self.runs}
        ends = Ends(looks.values())
        first, count = self.share
        for run in self.runs[first::count]:
            self.watched.append(RunWatch(self, run, looks[run.number], ends).watch())
        return self


@dataclass
class Forecasts:
    """What was foretold of a run, and when."""

    next_saves: list = field(default_factory=list)  # (when, when the next save is expected)
    losses: list = field(default_factory=list)  # (when, job, how many seconds the limit is expected to take)
    goals: list = field(default_factory=list)  # (when, job, when its goal is expected to be reached)


class RunWatch:
    """Watches one run."""

    def __init__(self, watch: Watch, run: Run, looks: dict[int, queue.QueueLook], ends: Ends):
        self.run = run
        self.flags: dict[int, Flag] = {}
        self.warned_at = {}  # when a flag was a warning or worse first, by its number
        self.opened_evidence = {}  # of a flag as it opened, by its number
        self.warned_evidence = {}  # of a flag as it was a warning first
        self.forecasts = Forecasts()
        self.tick_count = self.evaluation_count = 0
        self.lost = {}  # by job and restart count: what the ledger says
        self._watch = watch
        self._polls = watch.polls
        self._looks = looks
        self._ends = ends
        self._ends_taken = None
        self._directory = directory.Directory(run)
        self._record = Record()
        self._copies = SecondLocation(run) if run.copies else None
        self._key = self._directory.key
        self._free_space, self._tallies, self._holds = FreeSpaceSamples(), EndTallies(), JobHolds()
        self._user_settings = parse_user_settings(run.user_settings)
        self._open: dict[int, Flag] = {}
        self._jobs = ()
        self._suspended = {}
        self._scan = self._looked_at = None
        self._next_write = 0
        self._history = None
        self._judged = self._forecast_at = first_tick(run.start) - 1
        self._outcome = None
        self._is_edge = False

    def watch(self) -> "RunWatch":
        first = first_tick(self.run.start)
        last = min(first_tick(self.run.end + HOUR), self._polls.last_tick)
        for tick in self._list_turns(first, last):
            self._judge_until(tick - 1)
            self._see(tick)
            self._judge(tick)
        self._judge_until(last)
        self.tick_count = last - first + 1
        self.lost = self._record.measure_lost()
        return self

    def _list_turns(self, first, last):
        """Return the ticks at which a look may show something new, or what is known becomes too old or new again."""
        if self._watch.is_always:
            return range(first, last + 1)
        turns = {first, *self._looks, *directory.list_turns(self.run), *queue.list_turns(self.run)}
        turns.update(self._polls.list_turns())
        turns.update(self._copies.list_turns() if self._copies else ())
        unseen = {tick for tick in turns if self._polls.latest(tick) != tick}
        turns.update(self._polls.following(tick) or tick for tick in unseen)  # what was judged without the queue
        return sorted(tick for tick in turns if first <= tick <= last)

    def _see(self, tick):
        before = self._record.attempts, self._record.checkpoints
        self._look_as_it_changes(tick * TICK)
        if tick in self._looks:
            self._suspended = self._list_suspended(tick - 1)
            self._record.note_queue(self._looks[tick])
            self._jobs = self._looks[tick].jobs
        self._look(tick * TICK)
        known = self._history.rhythm if self._history else None
        is_new = before[0] is not self._record.attempts or before[1] is not self._record.checkpoints
        self._history = self._gather(None if is_new else known)

    def _look_as_it_changes(self, now):
        """Where the kernel tells of changes, the beginning and the end of each save are seen."""
        writes = self.run.writes
        while self._next_write < len(writes) and writes[self._next_write].end + AFTER_END <= now:
            write = writes[self._next_write]
            self._next_write += 1
            if self.run.has_inotify:
                self._look(write.begin + AFTER_BEGIN)
                self._look(write.end + AFTER_END)

    def _look(self, now):
        at = instant(now)
        if self._looked_at is not None and at <= self._looked_at:
            return
        before, self._scan = self._scan, self._directory.look(now)
        if self._copies:
            self._copies.look(now)
        if self._key != self._directory.key:
            self._move()
        if not isinstance(self._scan, Scan):
            return
        if not isinstance(before, Scan) or not directory.is_same(before, self._scan):
            self._record.note_scan(self._scan, self._looked_at)
        if self._key.is_located:
            self._record.conclude(self._scan, self._directory)
        self._looked_at = at
        if (samples := self._free_space.sample(self._directory.key, self._scan)) is not None:
            self._free_space = self._free_space.with_samples({self._directory.key: samples})

    def _move(self):
        """Note that a search has found the directory: what is on record of the run moves there."""
        self._key = self._directory.key
        for number, flag in self._open.items():
            self.flags[number] = self._open[number] = replace(flag, finding=replace(flag.finding, run=self._key))

    def _gather(self, rhythm):
        """Return what is known of the run but for what moves with time."""
        record = self._record
        history = make_history(
            self._key,
            located_by=self.run.located_by if self._key.is_located else None,
            jobs=self._jobs,
            attempts=record.attempts,
            checkpoints=record.checkpoints,
            polled_at=None,
            scan=self._scan,
            recorded_since=instant(self.run.start),
            user_settings=self._user_settings,
            signals=self._signals(),
            is_truncated=record.is_truncated,
            reaches=record.reaches if record.is_truncated else None,
            rhythm=rhythm,
            copies=(self._copies.known,) if self._copies else (),
        )
        return with_rhythm(history)

    def _signals(self):
        if not self._watch.reads_scripts or self.run.asked_lead is None:
            return {}
        return {job.job_id: LimitSignal("B:USR1", self.run.asked_lead) for job in self._jobs}

    def _history_at(self, tick):
        """Return what is known of the run at a tick before the next turn."""
        polled, scan = self._polls.latest(tick), self._scan
        history = self._history
        open_flags = self._open.values()
        ends = self._ends.known_at(tick, self.run.node_count)
        if ends is not self._ends_taken:
            self._tallies = EndTallies().with_tallies(ends)
            self._ends_taken = ends
        return change(
            history,
            polled_at=None if polled is None else at_tick(polled),
            scan=replace(scan, scanned_at=at_tick(tick)) if isinstance(scan, Scan) else scan,
            suspended_until=self._list_suspended(tick),
            maintenance=queue.reserved(self.run, tick),
            free_space_samples=self._free_space.by_run.get(history.key, ()),
            interruptions=self._tallies.find_interruptions(history),
            is_preempted_there=any(self._tallies.is_preempted(job.partition) for job in history.jobs),
            holds=self._holds.find(history.attempts),
            flagged=frozenset((flag.finding.rule, flag.finding.job_id) for flag in open_flags),
            open_evidence={(flag.finding.rule, flag.finding.job_id): flag.finding.evidence for flag in open_flags},
        )

    def _list_suspended(self, tick):
        """Return when each job was last seen suspended."""
        now = [job.job_id for job in self._jobs if job.state in SUSPENDED_STATES]
        return {**self._suspended, **dict.fromkeys(now, at_tick(self._polls.latest(tick)))} if now else self._suspended

    def _evaluate(self, tick):
        self.evaluation_count += 1
        return health.evaluate(
            self._history_at(tick),
            self._watch.rules,
            at_tick(tick),
            max_age=MAX_AGE,
            max_scan_age=timedelta(minutes=20),
            min_job_duration=timedelta(minutes=10),
        )

    def _judge_until(self, last):
        """Judge the ticks from the one that was judged last to this one, at which only time passes."""
        while self._judged < last:
            tick = min(last, self._find_farthest())
            evaluation = self._evaluate(tick)
            if _outcome(evaluation) != self._outcome:
                tick, evaluation = self._find_change(tick, evaluation)
            self._note(tick, evaluation)

    def _find_farthest(self):
        """Return the tick that may be judged next: when the next save is due, or within a share of the interval.

        What is foretold moves with a save that is late, and may do so to and fro.
        """
        if self._is_edge:
            return self._judged + 1
        at, interval = at_tick(self._judged), self._history.rhythm.step_interval
        attempts = [facts.attempt_of(self._history, job) for job in facts.running_jobs(self._history)]
        due = [projection.next_checkpoint_at(self._history, attempt, at) for attempt in attempts if attempt]
        if interval is None or not due:
            return self._judged + FARTHEST
        return self._judged + max(int(max(min(due) - at, interval * SHARE).total_seconds() / TICK), 1)

    def _find_change(self, tick, evaluation):
        """Return the first tick at which something else is found than was last, by halves, and what that is."""
        same = self._judged
        while tick - same > 1:
            middle = (same + tick) // 2
            between = self._evaluate(middle)
            if _outcome(between) == self._outcome:
                same = middle
            else:
                tick, evaluation = middle, between
        return tick, evaluation

    def _judge(self, tick):
        self._note(tick, self._evaluate(tick))

    def _note(self, tick, evaluation):
        changes = flag_changes.compare(self._open.values(), [evaluation], at_tick(tick))
        for flag in changes.opened:
            number = len(self.flags)
            self.flags[number] = self._open[number] = replace(flag, flag_id=number)
            self.opened_evidence[number] = flag.finding.evidence
        for flag in (*changes.worsened, *changes.updated):
            self.flags[flag.flag_id] = self._open[flag.flag_id] = flag
        for flag in changes.resolved:
            self.flags[flag.flag_id] = flag
            del self._open[flag.flag_id]
        for number, flag in self._open.items():
            if flag.finding.severity is not Severity.INFO:
                self.warned_at.setdefault(number, tick * TICK)
                self.warned_evidence.setdefault(number, flag.finding.evidence)
        self._is_edge = bool(changes.opened or changes.resolved)  # then rules ask for more, or for less
        self._outcome, self._judged = _outcome(evaluation), tick
        while self._forecast_at <= tick:
            if self._forecast_at >= first_tick(self.run.start):
                self._forecast(self._forecast_at)
            self._forecast_at += FORECAST_EVERY

    def _forecast(self, tick):
        history, now, at = self._history_at(tick), tick * TICK, at_tick(tick)
        for job in history.jobs[:1]:
            attempt = facts.attempt_of(history, job)
            if not job.is_running or attempt is None:
                continue
            expected = projection.next_checkpoint_at(history, attempt, at)
            if expected is not None:
                self.forecasts.next_saves.append((now, (expected - BEGINNING).total_seconds()))
            limit = projection.at_limit(history, attempt, job.ends_at, at)
            if limit is not None and limit.saves_that_fit <= 1:
                self.forecasts.losses.append((now, job.job_id, limit.lost.total_seconds()))
            goal = projection.toward_goal(history, attempt, job.ends_at, at)
            if goal is not None and goal.done_at is not None:
                self.forecasts.goals.append((now, job.job_id, (goal.done_at - BEGINNING).total_seconds()))


def _outcome(evaluation):
    """Return what flags are made of."""
    found = frozenset((each.rule, each.job_id, each.severity) for each in evaluation.findings)
    return found, evaluation.undecided
