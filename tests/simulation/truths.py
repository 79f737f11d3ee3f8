"""What was really so in a made-up world: episodes in which what a rule is about held, each a time of a run's life."""

from datetime import timedelta
from itertools import pairwise
from statistics import median

from ckptd.core.forecast.optimum import daly_optimum
from ckptd.core.model import JobState
from simulation.polls import TICK
from simulation.queue import MIN_JOB_AGE
from simulation.run_truth import HOUR, MINUTE, QUEUED_SECONDS
from simulation.world import is_interrupted

VISIBLE = 21 * MINUTE  # in one piece, for which a truth has to be there to be found
MARGIN = MINUTE  # a save that was complete less than this before the limit is the rule's own margin
LATE_TORN = MINUTE  # a broken file that changed a moment ago still counts as being written


def good_at(run, now):
    return [
        write
        for write in (*loadable(run), *run.copies)
        if write.is_whole and write.end <= now < write.gone and not (write.corrupt_from and write.corrupt_from <= now)
    ]


def good_as_seen(run, now):
    """Return what was good at an instant, with what was deleted since the last look before it: nobody saw that."""
    looked_at = now // TICK * TICK
    unseen = [emptied_at for emptied_at in run.emptied_at if looked_at < emptied_at <= now]
    return [write for instant in [now, *(each - 1 for each in unseen)] for write in good_at(run, instant)]


def ran_before(run, execution):
    earlier = [each for each in executions(run) if each.start < execution.start]
    suspended = [each.suspended[1] - each.suspended[0] for each in earlier if each.suspended]
    return sum(each.end - each.start for each in earlier) - sum(suspended)


def loadable(run):
    """Return what a restart may load, or in a run without states what it would have to load."""
    return run.saves or run.writes


def restarted_without_checkpoint(run):
    if run.kind == "array-outputs":
        return  # its tasks are no restarts of each other
    for execution in executions(run)[1:]:
        if not (run.saves and good_as_seen(run, execution.start)) and ran_before(run, execution) >= 10 * MINUTE:
            saved = [w.end for w in run.saves if w.is_whole and execution.start < w.end <= execution.end]
            yield execution.start, min([execution.end, *saved])


def no_checkpoint_yet(run):
    """An attempt that saves nothing for long, the first one or one before which next to nothing was lost.

    Until a search has found where a job saves, and neither it nor its user's settings say that it does, nobody expects
    it to save.
    """
    is_named = run.located_by != "discovery" or bool(run.user_settings)
    found = run.start if is_named else run.writes[0].begin
    for execution in executions(run):
        if ran_before(run, execution) >= 10 * MINUTE or good_at(run, execution.start):
            break
        begun = [w.begin for w in run.saves if w.begin >= execution.start]
        bound = execution.start + min(HOUR, execution.limit * 0.25)
        if execution.suspended and execution.suspended[0] < bound:
            bound += execution.suspended[1] - execution.suspended[0]
        yield max(bound, found), min([execution.end, *begun])


def not_resuming(run):
    """From the first save of an attempt that loaded less than there was, to the one that is beyond that.

    So it is where everything was deleted right before it started: nobody knows that it was not there to be loaded.
    """
    if run.kind == "array-outputs":
        return
    for execution in executions(run)[1:]:
        before = max((w.step for w in good_as_seen(run, execution.start)), default=None)
        own = sorted((w.end, w.step) for w in loadable(run) if w.is_whole and execution.start < w.end <= execution.end)
        has_loaded_less = before is not None and (execution.loaded is None or execution.loaded.step < before)
        behind = [end for end, step in own if has_loaded_less and step <= before]
        if behind:
            caught_up = [end for end, step in own if step > before]
            yield behind[0], min([execution.end, *caught_up])


def restart_loop(run):
    yield from _own_loops(run)
    yield from _interrupted_loops(run)


def _interrupted_loops(run):
    """Three attempts in a row that ended before they saved anything, fewer than three of them by themselves.

    From the next start on, where a checkpoint is there that it could load.
    """
    ended, begin = [], None
    for execution in executions(run):
        own = [w.end for w in loadable(run) if w.is_whole and execution.start < w.end <= execution.end]
        is_long = sum(each.end - each.start for each in ended) >= 10 * MINUTE
        own_count = sum(not is_interrupted(each) for each in ended)
        if len(ended) >= 3 and own_count < 3 and is_long and begin is None and good_at(run, ended[-1].start):
            begin = ended[-1].end
        if own or execution.state in {JobState.COMPLETED, JobState.CANCELLED}:
            if begin is not None:
                yield begin, min([execution.end, *own])
            ended, begin = [], None
        elif not execution.is_for_maintenance:
            ended.append(execution)
    if begin is not None:
        yield begin, run.end


def _own_loops(run):
    """Three attempts that moved nothing on, the third as long as the longest of the others or to its end.

    One that a preemption or a failed node ended is none of them, however long it ran. A job that was submitted when the
    third had failed may be mended: it has to fail, too, or to run as long as the others where those had time.
    """
    idle, own_count, opened = [], 0, None
    for previous, execution in zip([None, *executions(run)], executions(run), strict=False):
        is_anew = is_submitted_after(execution, previous)
        opened = None if is_anew and opened == previous.end else opened
        reached = max((w.step for w in loadable(run) if w.is_whole and w.end <= execution.start), default=None)
        own = [w for w in loadable(run) if w.is_whole and execution.start < w.end <= execution.end]
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
    finished = sorted((w for w in run.saves if not w.is_leftover), key=lambda w: w.end)
    for write, following in pairwise([*finished, None]):
        until = min(following.end if following else seen_until(run), write.gone)
        if not write.is_whole:
            yield write.end + LATE_TORN, until
        elif write.corrupt_from is not None:
            yield write.corrupt_from, until


def interrupted_save(run):
    for write in run.saves:
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
        saved = [w.end for w in run.saves if w.is_whole]
        yield max(run.free_drops_at, min(saved, default=run.end)), run.end


def copy_behind(run):
    """From when a second location is older than the first by more than three times what is usual, and by half an hour.

    What lies before the first save that was not copied counts as one usual delay: the job may have waited. How far it
    usually is behind is known after the first copies have been brought up to date three times; before that, a day is
    too much.
    """
    names = {copy.name for copy in run.copies}
    copied_until = max((w.end for w in run.saves if w.name in names), default=run.end)
    missing = [w for w in run.saves if w.is_whole and w.end > copied_until]
    if missing and run.copies_stop_at < run.end:
        usual = max(run.interval, run.copy_period or 0.0)
        since = max(copied_until, missing[0].end - usual)
        is_usual_known = len({copy.end for copy in run.copies}) > 3
        yield since + max(3 * usual, HOUR / 2) if is_usual_known else missing[0].end + 24 * HOUR, run.end


def usual_intervals(run):
    """Return the shortest and the longest time between two saves that was usual at any time of a run.

    They differ where it saves on improvement, later and later.
    """
    if run.kind != "improving":
        return run.interval, run.interval
    saved = [sorted(w.end for w in run.saves if w.is_whole and w.execution == n) for n in range(len(run.executions))]
    gaps = [later - one for ends in saved for one, later in pairwise(ends)]
    usual = [median(gaps[:count]) for count in range(3, len(gaps) + 1)] or [run.interval]
    return min(usual), max(usual)


def too_frequent(run):
    if run.save_time > 0.085 * usual_intervals(run)[0]:
        yield run.start, run.end


def too_sparse(run):
    if usual_intervals(run)[1] > max(1.4 * _optimum(run), 15 * MINUTE):
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
        if saved and ("steps" in run.user_settings or run.states_goal) and is_late:
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
    "copy-behind": copy_behind,
    "too-frequent": too_frequent,
    "too-sparse": too_sparse,
    "will-not-finish": will_not_finish,
}


OF_ORDINARY_JOBS = {"restarted-without-checkpoint", "not-resuming", "restart-loop"}  # what may be true of these


def list_episodes(run, rule):
    """Return when what a rule is about was so, as pairs of a beginning and an end."""
    if run.is_ordinary and rule not in OF_ORDINARY_JOBS:
        return []
    if rule == "restart-loop" and run.kind in {"array-outputs", "elsewhere"}:
        return []  # its tasks are no restarts of each other, or what it saves cannot be seen
    return [(begin, end) for begin, end in TRUTHS[rule](run) if end > begin]


def executions(run):
    return sorted(run.executions, key=lambda execution: execution.start)


def is_clear(run, rule):
    """Whether a case is so far beyond the threshold, and so well seen, that it has to be found."""
    saves = sum(write.is_whole for write in run.saves)
    if run.is_ordinary and run.writes:
        return False  # what its files are nobody can tell
    if run.sample_interval and rule in {"restarted-without-checkpoint", "no-checkpoint-yet"}:
        return False  # nor, before the first checkpoint, what the samples are
    if rule == "copy-behind":
        late = [w for begin, _ in copy_behind(run) for w in run.saves if w.is_whole and w.end > begin]
        return len(run.copies) >= 6 and len(late) >= 3
    if rule == "too-frequent":
        return run.has_inotify and saves >= 12 and run.save_time > 0.115 * usual_intervals(run)[1]
    if rule == "too-sparse":
        return run.has_inotify and saves >= 8 and usual_intervals(run)[0] > 3 * _optimum(run)
    return rule != "will-not-finish" or (saves >= 8 and run.hung_from is None)


def is_visible(run, begin, end, outages):
    """Whether the run could be judged for long enough: its directory readable, the queue answering, a job running."""
    hidden = list(outages)
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
