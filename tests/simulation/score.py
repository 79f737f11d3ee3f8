"""Compares the flags of a watch with the truth of its world.

An episode is a time in which what a rule is about really was so. A flag is right where it overlaps one (a few polls of
slack), an episode is found where a flag overlaps it; episodes that nobody could see long enough do not count.
"""

from collections import defaultdict
from dataclasses import dataclass, field, fields
from datetime import timedelta
from itertools import pairwise
from statistics import median

from ckptd.core.model import JobState, Severity
from ckptd.core.optimum import daly_optimum
from simulation.observer import BEGINNING, MIN_JOB_AGE
from simulation.world import DAY, HOUR, MINUTE, QUEUED_SECONDS, is_interrupted

SLACK = 16 * MINUTE
VISIBLE = 21 * MINUTE
EDGE = 0.1  # a loss that is off by less than this share from what is worth telling is neither found, missed nor false
MARGIN = MINUTE  # nor one that a save prevented which was complete less than this before the limit: the rule's own
LATE_TORN = MINUTE  # a broken file that changed a moment ago still counts as being written
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
    unpredictable_announced: int = 0
    infos: Counts = field(default_factory=Counts)  # all of them
    warnings: Counts = field(default_factory=Counts)  # those that were one or worsened to one
    criticals: Counts = field(default_factory=Counts)
    late: list = field(default_factory=list)


def seconds(instant):
    return (instant - BEGINNING).total_seconds()


def good_at(run, now):
    return [
        write
        for write in run.writes
        if write.is_whole and write.end <= now < write.gone and not (write.corrupt_from and write.corrupt_from <= now)
    ]


def ran_before(run, execution):
    earlier = [each for each in executions(run) if each.start < execution.start]
    suspended = [each.suspended[1] - each.suspended[0] for each in earlier if each.suspended]
    return sum(each.end - each.start for each in earlier) - sum(suspended)


def restarted_without_checkpoint(run):
    for execution in executions(run)[1:]:
        if not good_at(run, execution.start) and ran_before(run, execution) >= 10 * MINUTE:
            saved = [w.end for w in run.writes if w.is_whole and execution.start < w.end <= execution.end]
            yield execution.start, min([execution.end, *saved])


def no_checkpoint_yet(run):
    """An attempt that saves nothing for long, the first one or one before which next to nothing was lost."""
    for execution in executions(run):
        if ran_before(run, execution) >= 10 * MINUTE or good_at(run, execution.start):
            break
        begun = [w.begin for w in run.writes if w.begin >= execution.start]
        bound = execution.start + min(HOUR, execution.limit * 0.25)
        if execution.suspended and execution.suspended[0] < bound:
            bound += execution.suspended[1] - execution.suspended[0]
        yield bound, min([execution.end, *begun])


def not_resuming(run):
    for execution in executions(run)[1:]:
        before = max((w.step for w in good_at(run, execution.start)), default=None)
        own = sorted((w.end, w.step) for w in run.writes if w.is_whole and execution.start < w.end <= execution.end)
        behind = [end for end, step in own if before is not None and step < before]
        if behind:
            caught_up = [end for end, step in own if step >= before]
            yield behind[0], min([execution.end, *caught_up])


def restart_loop(run):
    """Three attempts that moved nothing on, the third as long as the longest of the others or to its end.

    One that a preemption or a failed node ended is none of them, however long it ran. A job that was submitted when the
    third had failed may be mended: it has to fail, too, or to run as long as the others where those had time.
    """
    idle, own_count, opened = [], 0, None
    for previous, execution in zip([None, *executions(run)], executions(run), strict=False):
        is_anew = is_submitted_after(execution, previous)
        opened = None if is_anew and opened == previous.end else opened
        reached = max((w.step for w in run.writes if w.is_whole and w.end <= execution.start), default=None)
        own = [w for w in run.writes if w.is_whole and execution.start < w.end <= execution.end]
        moved = [w.end for w in own if reached is None or w.step > reached]
        if moved and opened is not None:
            yield opened, min(moved)
        is_own = not (is_interrupted(execution) or execution.is_for_maintenance)
        longest = max(idle, default=0.0)
        chance_until = execution.end if is_anew and longest < HOUR / 2 else execution.start + longest
        if own_count >= 2 and opened is None and (is_own or chance_until <= execution.end):
            chance_until = min(chance_until, execution.end)
            opened = chance_until if not moved or min(moved) > chance_until else None
            if opened is not None and moved:
                yield opened, min(moved)
        own_count += is_own
        if opened is not None and not moved and own_count < 3:
            yield opened, execution.end
            opened = None
        idle.append(execution.end - execution.start)
        if moved:
            idle, own_count, opened = [], 0, None
        if execution.state in {JobState.COMPLETED, JobState.CANCELLED}:
            if opened is not None:
                yield opened, execution.end
            idle, own_count, opened = [], 0, None
    if opened is not None:
        yield opened, seen_until(run) + MIN_JOB_AGE  # an end is judged once it is seen


def is_submitted_after(execution, previous):
    """Whether an execution is the first of a job that a person submitted when the one before had ended."""
    if previous is None or execution.job_id == previous.job_id:
        return False
    return execution.start - QUEUED_SECONDS > previous.end


def seen_until(run):
    """Return until when its jobs are in the queue: the last one may wait there, requeued."""
    return run.end + HOUR * (executions(run)[-1].state is JobState.REQUEUED)


def damaged_checkpoint(run):
    finished = sorted((w for w in run.writes if not w.is_leftover), key=lambda w: w.end)
    for write, following in pairwise([*finished, None]):
        until = min(following.end if following else seen_until(run), write.gone)
        if not write.is_whole:
            yield write.end + LATE_TORN, until
        elif write.corrupt_from is not None:
            yield write.corrupt_from, until


def interrupted_save(run):
    for write in run.writes:
        if write.is_leftover:
            yield write.end + 10 * MINUTE, min(write.gone, seen_until(run))


def concurrent_writers(run):
    ordered = executions(run)
    for index, one in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if other.start < one.end:
                yield other.start, min(one.end, other.end)


def checkpoint_overdue(run):
    if run.hung_from is not None:
        bound = run.hung_from + max(3 * run.interval, 15 * MINUTE)
        yield bound, next(e.end for e in run.executions if e.start <= run.hung_from <= e.end)


def no_room(run):
    if run.free_drops_at is not None:
        saved = [w.end for w in run.writes if w.is_whole]
        yield max(run.free_drops_at, min(saved, default=run.end)), run.end


def too_frequent(run):
    if run.save_time > 0.085 * run.interval:
        yield run.start, run.end


def too_sparse(run):
    if run.interval > max(1.4 * _optimum(run), 15 * MINUTE):
        yield run.start, run.end


def _optimum(run):
    mean = timedelta(seconds=run.mean_between_interruptions)
    return daly_optimum(timedelta(seconds=run.save_time), mean).total_seconds()


def will_not_finish(run):
    """From its first save on, once two saves of one attempt have shown the pace."""
    paced = float("inf")
    for execution in executions(run):
        pause = execution.suspended[1] - execution.suspended[0] if execution.suspended else 0.0
        is_late = execution.start + run.work - execution.done + pause + MARGIN > execution.limit_end
        saved = sorted(w.end for w in run.writes if w.is_whole and execution.start < w.end <= execution.end)
        paced = min([paced, *saved[1:2]])
        if saved and ("steps" in run.wishes or run.states_goal) and is_late:
            yield max(saved[0], paced), execution.end


TRUTHS = {
    "restarted-without-checkpoint": restarted_without_checkpoint,
    "no-checkpoint-yet": no_checkpoint_yet,
    "not-resuming": not_resuming,
    "restart-loop": restart_loop,
    "damaged-checkpoint": damaged_checkpoint,
    "interrupted-save": interrupted_save,
    "concurrent-writers": concurrent_writers,
    "checkpoint-overdue": checkpoint_overdue,
    "no-room": no_room,
    "too-frequent": too_frequent,
    "too-sparse": too_sparse,
    "will-not-finish": will_not_finish,
}


def executions(run):
    return sorted(run.executions, key=lambda execution: execution.start)


def is_clear(run, rule):
    """Whether a case is so far beyond the threshold, and so well seen, that it has to be found."""
    saves = sum(write.is_whole for write in run.writes)
    if rule == "too-frequent":
        return run.has_inotify and saves >= 12 and run.save_time > 0.115 * run.interval
    if rule == "too-sparse":
        return run.has_inotify and saves >= 8 and run.interval > 3 * _optimum(run)
    return rule != "will-not-finish" or (saves >= 8 and run.hung_from is None)


def score_rules(watch):
    """Return the counts of every rule with a truth."""
    by_run = defaultdict(list)
    for flag in watch.flags.values():
        by_run[flag.finding.run, flag.finding.rule].append(flag)
    result = {rule: Counts() for rule in TRUTHS}
    for key, observed in watch.observed.items():
        for rule, truth in TRUTHS.items():
            run = observed.run
            episodes = [(begin, end) for begin, end in truth(run) if end > begin]
            spans = [span(flag, run) for flag in by_run[key, rule]]
            _count(result[rule], watch, run, episodes, spans, must=is_clear(run, rule))
    return result


def span(flag, run):
    return seconds(flag.opened_at), seconds(flag.resolved_at) if flag.resolved_at else run.end + HOUR


def _count(counts, watch, run, episodes, spans, *, must):
    for opened, resolved in spans:
        counts.flags += 1
        if any(begin - SLACK <= resolved and opened <= end + SLACK for begin, end in episodes):
            counts.right += 1
        else:
            counts.wrong.append((run, opened, resolved, episodes))
    for begin, end in episodes:
        if not must or not _is_visible(watch, run, begin, end):
            continue
        counts.episodes += 1
        if any(opened <= end + SLACK and resolved >= begin for opened, resolved in spans):
            counts.found += 1
        else:
            counts.missed.append((run, begin, end))


def _is_visible(watch, run, begin, end):
    """Whether the run could be judged for long enough: its directory readable, the queue answering, a job running."""
    hidden = list(watch.outages)
    hidden += [run.unreadable] if run.unreadable else []
    hidden += [(e.suspended[0], e.suspended[1] + 10 * MINUTE) for e in run.executions if e.suspended]
    ordered = executions(run)
    hidden += [(begin, end + HOUR) for begin, end in run.maintenance]
    hidden += [(one.end, other.start) for one, other in pairwise(ordered) if one.end < other.start]
    cursor, longest = begin, 0.0
    for start, stop in sorted(hidden):
        if stop <= cursor or start >= end:
            continue
        longest = max(longest, start - cursor)
        cursor = max(cursor, stop)
    return max(longest, end - cursor) >= VISIBLE


def score_at_risk(watch):
    """Return how at-risk did."""
    notice = Notice()
    flags = defaultdict(list)
    for flag in watch.flags.values():
        if flag.finding.rule == "at-risk":
            flags[flag.finding.run].append(flag)
    for key, observed in watch.observed.items():
        for execution in observed.run.executions:
            own = [f for f in flags[key] if f.finding.job_id == execution.job_id]
            own = [f for f in own if execution.start <= seconds(f.opened_at) <= execution.end + SLACK]
            _score_attempt(notice, watch, observed.run, execution, own)
    return notice


def _score_attempt(notice, watch, run, execution, flags):
    bound = max(5 * MINUTE, execution.limit * 0.01)
    saves = [w.end for w in run.writes if w.is_whole and execution.start < w.end <= execution.end]
    lost = execution.end - max(saves, default=execution.start)
    is_limit = execution.state is JobState.TIMEOUT
    if is_limit and (abs(lost - bound) < EDGE * bound or lost < MARGIN):
        notice.on_edge += 1
        return
    is_case = is_limit and lost >= bound
    for flag in flags:
        resolved = seconds(flag.resolved_at) if flag.resolved_at else execution.end
        was_open = resolved >= execution.end
        is_for_maintenance = "maintenance" in flag.finding.evidence
        if is_for_maintenance or (was_open and execution.state not in {JobState.TIMEOUT, JobState.COMPLETED}):
            continue  # nobody knows what the limit would have taken
        _score_flag(notice.infos, run, flag, is_right=is_case and was_open)
        if flag.finding.severity is not Severity.INFO:
            _score_flag(notice.warnings, run, flag, is_right=is_case and was_open)
        if flag.finding.severity is Severity.CRITICAL:
            _score_flag(notice.criticals, run, flag, is_right=is_case and was_open)
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
    warned = [watch.warned_at[f.flag_id] for f in last if f.flag_id in watch.warned_at]
    notice.warned_in_time += any(execution.end - instant >= run.interval for instant in warned)
    if not is_in_time:
        notice.late.append((run, execution, lost, [seconds(f.opened_at) for f in flags]))


def _is_predictable(watch, run, execution):
    """Whether enough was there to be seen one interval before the limit, by a look that came then."""
    due = execution.end - run.interval
    known = [w for w in run.writes if w.is_whole and w.end <= due - watch.poll_interval]
    has_saved = any(w.is_whole and execution.start < w.end <= execution.end for w in run.writes)
    begin = max(due - max(run.interval, 2 * VISIBLE), execution.start)
    return len(known) >= 2 and has_saved and not run.hung_from and _is_visible(watch, run, begin, due)


def _score_flag(counts, run, flag, *, is_right):
    counts.flags += 1
    counts.right += is_right
    if not is_right:
        counts.wrong.append((run, flag))


def forecast_errors(watch):
    """Return by how much of an interval each forecast of the next save was wrong, for those that came."""
    errors = []
    for run, made, expected in watch.forecasts:
        running = [e for e in run.executions if e.start <= made < e.end]
        following = [w.end for w in run.writes if w.is_whole and w.end > made]
        if running and following and min(following) <= running[0].end and not running[0].suspended:
            errors.append(abs(min(following) - expected) / run.interval)
    return errors


def loss_errors(watch):
    """Return by how much of an interval what the limit was foretold to take was wrong, where the limit came."""
    errors = []
    for run, made, job_id, expected in watch.loss_forecasts:
        for execution in run.executions:
            is_it = execution.job_id == job_id and execution.start <= made < execution.end
            if is_it and execution.state is JobState.TIMEOUT and not execution.suspended and run.hung_from is None:
                saves = [w.end for w in run.writes if w.is_whole and execution.start < w.end <= execution.end]
                errors.append(abs(execution.end - max(saves, default=execution.start) - expected) / run.interval)
    return errors


def goal_errors(watch):
    """Return by how much of the time to it the instant of a goal was foretold wrong, where the attempt reached it."""
    errors = []
    for run, made, job_id, expected in watch.goal_forecasts:
        for execution in run.executions:
            is_it = execution.job_id == job_id and execution.start <= made < execution.end
            if is_it and execution.state is JobState.COMPLETED and not execution.suspended:
                errors.append(abs(execution.end - expected) / max(execution.end - made, run.interval))
    return errors


def job_days(watch):
    return sum(e.end - e.start for run in watch.runs for e in run.executions) / DAY


@dataclass
class Result:
    """How one watch did, or several together."""

    runs: int
    attempts: int
    days: float
    decisions: int
    rules: dict
    notice: Notice
    errors: dict  # of forecasts, by what was foretold

    def __add__(self, other):
        return Result(
            self.runs + other.runs,
            self.attempts + other.attempts,
            self.days + other.days,
            self.decisions + other.decisions,
            {rule: _add(counts, other.rules[rule]) for rule, counts in self.rules.items()},
            _add(self.notice, other.notice),
            {name: values + other.errors[name] for name, values in self.errors.items()},
        )


def _add(one, other):
    """Add up, field by field, what was counted."""
    both = {each.name: (getattr(one, each.name), getattr(other, each.name)) for each in fields(one)}
    summed = {name: _add(*pair) if isinstance(pair[0], Counts) else pair[0] + pair[1] for name, pair in both.items()}
    return type(one)(**summed)


def measure(watch):
    """Return how a watch did."""
    return Result(
        runs=len(watch.runs),
        attempts=sum(len(run.executions) for run in watch.runs),
        days=job_days(watch),
        decisions=watch.evaluation_count,
        rules=score_rules(watch),
        notice=score_at_risk(watch),
        errors={
            "next save, of the interval": forecast_errors(watch),
            "loss at the limit, of the interval": loss_errors(watch),
            "instant of the goal, of the time to it": goal_errors(watch),
        },
    )


def describe(result):
    """Return the figures as lines."""
    notice, days = result.notice, result.days
    yield f"{result.runs} runs, {result.attempts} attempts, {days:.0f} job-days, {result.decisions} decisions"
    yield f"{'rule':<32}{'episodes':>9}{'recall':>8}{'flags':>7}{'precision':>10}{'false/1000 job-days':>21}"
    for rule in (*CRITICAL_RULES, *OTHER_RULES):
        yield _line(rule, result.rules[rule], days)
    every = notice.infos
    yield _line("at-risk", Counts(notice.announced, notice.predictable, every.right, every.flags, every.wrong), days)
    yield _line("at-risk, warning or critical", notice.warnings, days)
    yield _line("at-risk, critical", notice.criticals, days)
    wrong = sum(len(counts.wrong) for counts in result.rules.values()) + len(notice.warnings.wrong)
    yield f"false flags per 1,000 job-days, all rules, at-risk from warning on: {wrong / days * 1000:.1f}"
    yield (
        f"limit took work in {notice.cases} attempts; predictable in {notice.predictable}: announced "
        f"{_share(notice.announced, notice.predictable)}, with one interval's notice "
        f"{_share(notice.in_time, notice.predictable)}, by a warning rather than an info "
        f"{_share(notice.warned_in_time, notice.predictable)}; of the {notice.cases - notice.predictable} others "
        f"announced {_share(notice.unpredictable_announced, notice.cases - notice.predictable)}"
    )
    own_end, silent = _explain(notice.warnings.wrong)
    yield (
        f"of at-risk's {len(notice.warnings.wrong)} false warnings {own_end} were of jobs that ended by themselves, "
        f"{silent} of jobs that saved when their limit was near; left out are {notice.on_edge} attempts whose loss was "
        f"within {EDGE:.0%} of what is worth telling, or whose last save ended within the margin before the limit"
    )
    for name, values in result.errors.items():
        if values:
            errors = sorted(values)
            yield (
                f"forecast of the {name}, {len(errors)} times: wrong by {median(errors):.1%} in the middle, "
                f"{errors[int(len(errors) * 0.9)]:.1%} at worst in nine of ten"
            )


def _explain(wrong):
    """Return how many false flags were of jobs that ended by themselves, and of those that saved at their limit."""
    own_end = silent = 0
    for run, flag in wrong:
        for execution in run.executions:
            if execution.job_id == flag.finding.job_id and execution.start <= seconds(flag.opened_at) <= execution.end:
                own_end += execution.state is JobState.COMPLETED
                silent += execution.state is JobState.TIMEOUT and run.saves_at_limit
    return own_end, silent


def _line(rule, counts, days):
    return (
        f"{rule:<32}{counts.episodes:>9}{counts.recall:>8.3f}{counts.flags:>7}{counts.precision:>10.3f}"
        f"{len(counts.wrong) / days * 1000:>21.1f}"
    )


def _share(part, whole):
    return f"{part / whole:.1%}" if whole else "none"
