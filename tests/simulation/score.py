"""Compares the flags of a watch with the truth of its world.

A flag is right where it overlaps an episode of truth (a few polls of slack), an episode is found where a flag overlaps
it; episodes that nobody could see long enough do not count.
"""

from dataclasses import dataclass, field, fields
from itertools import pairwise

from ckptd.core.model import JobState, Severity
from ckptd.core.notices.notice_planning import LIKELY
from simulation import lost_truth
from simulation.polls import BEGINNING, TICK
from simulation.run_truth import DAY, HOUR, MINUTE
from simulation.truths import MARGIN, TRUTHS, VISIBLE, is_clear, is_visible, list_episodes

SLACK = 16 * MINUTE
EDGE = 0.1  # a loss that is off by less than this share from what is worth telling is neither found, missed nor false
CHANCE_BOUNDS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
CRITICAL_RULES = (
    "restarted-without-checkpoint",
    "damaged-checkpoint",
    "not-resuming",
    "restart-loop",
    "concurrent-writers",
    "no-room",
)
OTHER_RULES = (
    "no-checkpoint-yet",
    "checkpoint-overdue",
    "interrupted-save",
    "copy-behind",
    "too-frequent",
    "too-sparse",
    "will-not-finish",
)


@dataclass
class Counts:
    """How one rule did."""

    found: int = 0
    episodes: int = 0
    right: int = 0
    flags: int = 0
    wrong: list = field(default_factory=list)
    missed: list = field(default_factory=list)

    @property
    def recall(self):
        return self.found / self.episodes if self.episodes else 1.0

    @property
    def precision(self):
        return self.right / self.flags if self.flags else 1.0


@dataclass
class Notice:
    """How at-risk did: cases are attempts whose limit took work."""

    cases: int = 0
    on_edge: int = 0  # attempts that count for nothing
    predictable: int = 0  # two saves were complete and could be seen one interval before the limit
    announced: int = 0  # of the predictable ones
    in_time: int = 0  # with one interval's notice
    warned_in_time: int = 0  # so, and by a warning
    mailed_in_time: int = 0  # so, and the message about it, a warning or an info, had been sent by then
    unpredictable_announced: int = 0
    infos: Counts = field(default_factory=Counts)  # all of them
    warnings: Counts = field(default_factory=Counts)  # those that were one or worsened to one
    criticals: Counts = field(default_factory=Counts)
    late: list = field(default_factory=list)
    opened_chances: list = field(default_factory=list)  # as flags stated it when they opened, and whether it came true
    warned_chances: list = field(default_factory=list)  # the same of warnings, when they were one first


def seconds(instant):
    return (instant - BEGINNING).total_seconds()


def score_rules(watch):
    """Return the counts of every rule with a truth."""
    result = {rule: Counts() for rule in TRUTHS}
    for watched in watch.watched:
        run = watched.run
        for rule in TRUTHS:
            episodes = list_episodes(run, rule)
            told = [flag for flag in watched.flags.values() if flag.finding.rule == rule and _is_claim(flag)]
            spans = [span(flag, run) for flag in told]
            _count(result[rule], watch, run, episodes, spans, must=is_clear(run, rule))
    return result


def _is_claim(flag):
    """Whether a flag says that something is wrong, and not that it is normal for a job that saves on improvement."""
    return not flag.finding.evidence.get("saves_on_improvement")


def span(flag, run):
    return seconds(flag.opened_at), seconds(flag.resolved_at) if flag.resolved_at else run.end + HOUR


def _count(counts, watch, run, episodes, spans, *, must):
    for opened, resolved in spans:
        counts.flags += 1
        if _is_right(opened, resolved, episodes):
            counts.right += 1
        else:
            counts.wrong.append((run, opened, resolved, episodes))
    for begin, end in episodes:
        if not must or not is_visible(run, begin, end, watch.polls.outages):
            continue
        counts.episodes += 1
        if any(opened <= end + SLACK and resolved >= begin for opened, resolved in spans):
            counts.found += 1
        else:
            counts.missed.append((run, begin, end))


def _is_right(opened, resolved, episodes):
    return any(begin - SLACK <= resolved and opened <= end + SLACK for begin, end in episodes)


@dataclass
class Ordinary:
    """What was said of the jobs that never meant to checkpoint."""

    runs: int = 0
    days: float = 0.0
    flags: int = 0  # from warning on
    infos: int = 0
    right: int = 0  # that their restarts have lost work, as warnings
    wrong: list = field(default_factory=list)

    @property
    def rate(self):
        """False flags per 1,000 job-days."""
        return len(self.wrong) / self.days * 1000 if self.days else 0.0


def score_ordinary(watch):
    """Return which flags ordinary jobs got. A critical one about checkpoints that they never meant to save is false."""
    result = Ordinary()
    for watched in watch.watched:
        run = watched.run
        if not run.is_ordinary:
            continue
        result.runs += 1
        result.days += sum(e.end - e.start for e in run.executions) / DAY
        for number, flag in watched.flags.items():
            if number not in watched.warned_at:
                result.infos += 1
                continue
            rule = flag.finding.rule
            result.flags += 1
            episodes = list_episodes(run, rule) if rule in TRUTHS else []
            if rule == "at-risk" and _has_lost_weights(run, flag):
                result.right += 1
                continue
            is_hedged = flag.finding.severity is not Severity.CRITICAL or rule == "restart-loop"
            if is_hedged and _is_right(*span(flag, run), episodes):
                result.right += 1
            else:
                result.wrong.append((run, flag))
    return result


def _has_lost_weights(run, flag):
    """Whether a limit took work of a job that saves the weights of its best model: this is true of it, too."""
    ends = [e.end for e in run.executions if e.job_id == flag.finding.job_id and e.state is JobState.TIMEOUT]
    resolved = seconds(flag.resolved_at) if flag.resolved_at else run.end
    return run.kind == "best-weights" and any(resolved >= end for end in ends)


def score_at_risk(watch):
    """Return how at-risk did with runs that checkpoint; see score_ordinary for the others."""
    notice = Notice()
    for watched in watch.watched:
        if watched.run.is_ordinary:
            continue
        flags = [flag for flag in watched.flags.values() if flag.finding.rule == "at-risk"]
        for execution in watched.run.executions:
            own = [f for f in flags if f.finding.job_id == execution.job_id]
            own = [f for f in own if execution.start <= seconds(f.opened_at) <= execution.end + SLACK]
            _score_attempt(notice, watch, watched, execution, own)
    return notice


def _score_attempt(notice, watch, watched, execution, flags):
    run = watched.run
    bound = max(5 * MINUTE, execution.limit * 0.01)
    lost = _lost(run, execution)
    is_limit = execution.state is JobState.TIMEOUT
    if is_limit and (abs(lost - bound) < EDGE * bound or lost < MARGIN):
        notice.on_edge += 1
        return
    is_case = is_limit and lost >= bound
    for flag in flags:
        resolved = seconds(flag.resolved_at) if flag.resolved_at else execution.end
        was_open = resolved >= execution.end
        is_for_maintenance = flag.finding.evidence.get("maintenance") is not None
        if is_for_maintenance or (was_open and execution.state not in {JobState.TIMEOUT, JobState.COMPLETED}):
            continue  # nobody knows what the limit would have taken
        is_right = is_case and was_open
        _score_flag(notice.infos, run, flag, is_right=is_right)
        _note_chance(notice.opened_chances, watched.opened_evidence.get(flag.flag_id), is_right)
        _note_chance(notice.warned_chances, watched.warned_evidence.get(flag.flag_id), is_right)
        if flag.finding.severity is not Severity.INFO:
            _score_flag(notice.warnings, run, flag, is_right=is_right)
        if flag.finding.severity is Severity.CRITICAL:
            _score_flag(notice.criticals, run, flag, is_right=is_right)
    if not is_case:
        return
    notice.cases += 1
    last = [f for f in flags if f.resolved_at is None or seconds(f.resolved_at) >= execution.end]
    if not _is_predictable(watch, run, execution):
        notice.unpredictable_announced += bool(last)
        return
    notice.predictable += 1
    notice.announced += bool(last)
    is_in_time = any(execution.end - seconds(f.opened_at) >= run.interval for f in last)
    notice.in_time += is_in_time
    warned = [watched.warned_at[f.flag_id] for f in last if f.flag_id in watched.warned_at]
    notice.warned_in_time += any(execution.end - instant >= run.interval for instant in warned)
    mailed = [instant for f in last for instant in _list_mailed(watched, f)]
    notice.mailed_in_time += any(execution.end - instant >= run.interval for instant in mailed)
    if not is_in_time:
        notice.late.append((run, execution, lost, [seconds(f.opened_at) for f in flags]))


def _list_mailed(watched, flag):
    """Return when messages about a flag are sent at the latest, by the default windows of mail."""
    opened = watched.opened_evidence.get(flag.flag_id)
    if opened is not None and opened["chance"] >= LIKELY:
        yield seconds(flag.opened_at) + opened["time_left_seconds"] / 4
    warned = watched.warned_evidence.get(flag.flag_id)
    if warned is not None:
        yield watched.warned_at[flag.flag_id] + min(warned["time_left_seconds"] / 4, HOUR)


def _note_chance(chances, evidence, is_right):
    """Note what a flag stated; one that says what will be lost unless the job ends before states no probability."""
    if evidence is not None and not evidence["is_certain"]:
        chances.append((evidence["chance"], is_right))


def _is_predictable(watch, run, execution):
    """Whether enough was there to be seen one interval before the limit, by a look that came then."""
    due = execution.end - run.interval
    known = [w for w in run.saves if w.is_whole and w.end <= due - TICK]
    has_saved = any(w.is_whole and execution.start < w.end <= execution.end for w in run.saves)
    begin = max(due - max(run.interval, 2 * VISIBLE), execution.start)
    is_regular = not run.hung_from and run.kind != "improving"  # nobody knows when a loss falls
    return len(known) >= 2 and has_saved and is_regular and is_visible(run, begin, due, watch.polls.outages)


def _score_flag(counts, run, flag, *, is_right):
    counts.flags += 1
    counts.right += is_right
    if not is_right:
        counts.wrong.append((run, flag))


def calibrate(chances, bounds=CHANCE_BOUNDS):
    """Return the ranges of stated probabilities that have cases: bounds, count, mean stated, share that came true."""
    rows = []
    for low, high in pairwise(bounds):
        found = [(stated, came) for stated, came in chances if low <= stated < high or stated == high == bounds[-1]]
        if found:
            stated, came = zip(*found, strict=True)
            rows.append((low, high, len(found), sum(stated) / len(found), sum(came) / len(found)))
    return rows


def forecast_errors(watch):
    """Return by how much of an interval each forecast of the next save was wrong, for those that came."""
    errors = []
    for watched in watch.watched:
        run = watched.run
        for made, expected in watched.forecasts.next_saves:
            running = [e for e in run.executions if e.start <= made < e.end]
            following = min((w.end for w in run.saves if w.is_whole and w.end > made), default=None)
            if running and following and following <= running[0].end and not running[0].suspended:
                errors.append(abs(following - expected) / run.interval)
    return errors


def loss_errors(watch):
    """Return by how much of an interval what the limit was foretold to take was wrong, where the limit came."""
    errors = []
    for watched in watch.watched:
        run = watched.run
        for made, job_id, expected in watched.forecasts.losses:
            execution = _execution_of(run, job_id, made)
            if execution and execution.state is JobState.TIMEOUT and run.hung_from is None:
                errors.append(abs(_lost(run, execution) - expected) / run.interval)
    return errors


def goal_errors(watch):
    """Return by how much of the time to it the instant of a goal was foretold wrong, where the attempt reached it."""
    errors = []
    for watched in watch.watched:
        for made, job_id, expected in watched.forecasts.goals:
            execution = _execution_of(watched.run, job_id, made)
            if execution and execution.state is JobState.COMPLETED:
                errors.append(abs(execution.end - expected) / max(execution.end - made, watched.run.interval))
    return errors


def _execution_of(run, job_id, moment):
    """Return what ran then of a job; None where that was suspended once: nobody could foretell its end."""
    found = (each for each in run.executions if each.job_id == job_id and each.start <= moment < each.end)
    return next((each for each in found if not each.suspended), None)


def _lost(run, execution):
    saves = [w.end for w in run.saves if w.is_whole and execution.start < w.end <= execution.end]
    return execution.end - max(saves, default=execution.start)


def job_days(watch):
    return sum(e.end - e.start for watched in watch.watched for e in watched.run.executions) / DAY


@dataclass
class Result:
    """How one watch did, or several together."""

    runs: int
    attempts: int
    days: float
    looks: int  # at which each run could have been judged
    decisions: int
    rules: dict
    notice: Notice
    errors: dict  # of forecasts, by what was foretold
    ordinary: Ordinary
    lost: lost_truth.LostWork

    def __add__(self, other):
        return Result(
            self.runs + other.runs,
            self.attempts + other.attempts,
            self.days + other.days,
            self.looks + other.looks,
            self.decisions + other.decisions,
            {rule: _add(counts, other.rules[rule]) for rule, counts in self.rules.items()},
            _add(self.notice, other.notice),
            {name: values + other.errors[name] for name, values in self.errors.items()},
            _add(self.ordinary, other.ordinary),
            _add(self.lost, other.lost),
        )


def _add(one, other):
    """Add up, field by field, what was counted."""
    both = {each.name: (getattr(one, each.name), getattr(other, each.name)) for each in fields(one)}
    summed = {name: _add(*pair) if isinstance(pair[0], Counts) else pair[0] + pair[1] for name, pair in both.items()}
    return type(one)(**summed)


def measure(watch):
    """Return how a watch did."""
    return Result(
        runs=len(watch.watched),
        attempts=sum(len(watched.run.executions) for watched in watch.watched),
        days=job_days(watch),
        looks=sum(watched.tick_count for watched in watch.watched),
        decisions=sum(watched.evaluation_count for watched in watch.watched),
        rules=score_rules(watch),
        notice=score_at_risk(watch),
        errors={
            "next save, of the interval": forecast_errors(watch),
            "loss at the limit, of the interval": loss_errors(watch),
            "instant of the goal, of the time to it": goal_errors(watch),
        },
        ordinary=score_ordinary(watch),
        lost=lost_truth.measure(watch),
    )
