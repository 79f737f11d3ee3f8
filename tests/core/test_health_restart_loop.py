"""The rules about jobs that start again and again and get nowhere: restart-loop and job-held."""

from dataclasses import replace

import pytest

from ckptd.core.health.job_held import JobHeld
from ckptd.core.health.restart_loop import RestartLoop
from ckptd.core.model import (
    EndCause,
    Hold,
    JobState,
    Role,
    Severity,
    Unknown,
)
from ckptd.core.runs import attempt_progress
from core.histories import RUN, at, attempt, history, job, only, saved, scan_at, text_of


def ended(count, *, cause=EndCause.REQUEUE, minutes=20.0):
    return [
        attempt(number * minutes, number * minutes + minutes * 0.9, restart_count=number, cause=cause)
        for number in range(count)
    ]


def running(start, number):
    return attempt(start, restart_count=number)


LOOPS = {
    "two attempts": ([*ended(1), running(20, 1)], [], 60, None),
    "three that saved nothing": ([*ended(3), running(60, 3)], [], 61, 3),
    "the running one has had as long as those before": ([*ended(2), running(40, 2)], [], 59, 3),
    "the running one has only begun": ([*ended(2), running(40, 2)], [], 41, None),
    "one of them moved on": ([*ended(3), running(60, 3)], [saved(30, step=3)], 61, None),
    "the step of all is the same": (
        [*ended(4), running(80, 4)],
        [saved(10, step=7), saved(30, step=7), saved(50, step=7), saved(70, step=7)],
        81,
        3,
    ),
    "preemptions before the first save are told by another rule": (
        [*ended(3, cause=EndCause.PREEMPTION), running(60, 3)],
        [],
        61,
        None,
    ),
    "a storm counts whatever its cause": (
        [*ended(5, cause=EndCause.PREEMPTION, minutes=4), running(20, 5)],
        [],
        24,
        6,
    ),
    "a fresh start in an old directory goes on from attempt to attempt": (
        [*ended(4), running(80, 4)],
        [saved(18, step=900), *(saved(m, step=m) for m in (30, 35, 50, 55, 70, 75, 90))],
        91,
        None,
    ),
    "each begins anew and one gets a little further than the one before": (
        [*ended(4), running(80, 4)],
        [saved(18, step=900), *(saved(20 * n + m, step=m) for n in (1, 2, 3) for m in range(3, 10 + n, 3))],
        99,
        4,
    ),
    "every other one begins anew": (
        [*ended(6), running(120, 6)],
        [saved(18, step=900)] + [saved(20 * n + m, step=m + 20 * (n % 2 == 0)) for n in range(1, 7) for m in (5, 10)],
        139,
        6,
    ),
    "jobs that run at once do not follow one another": (
        [attempt(0, 3, cause=EndCause.FAILURE), attempt(1, job_id=2), attempt(10, job_id=3)],
        [],
        30,
        None,
    ),
    "a loop beside another job of its run": (
        [attempt(0, job_id=9), *(replace(each, started_at=at(1 + n * 20)) for n, each in enumerate(ended(3)))],
        [],
        61,
        3,
    ),
    "one that completed ends the row": (
        [*ended(3, cause=EndCause.COMPLETED), running(60, 3)],
        [],
        61,
        None,
    ),
}


@pytest.mark.parametrize(("attempts", "checkpoints", "minute", "count"), LOOPS.values(), ids=LOOPS)
def test_attempts_that_get_nowhere_are_a_loop(attempts, checkpoints, minute, count):
    finding = only(RestartLoop(), history(now=minute, attempts=attempts, checkpoints=checkpoints), minute)
    assert (finding.evidence["attempts"] if finding else None) == count
    assert finding is None or (finding.severity, finding.audience) == (Severity.CRITICAL, ("user", "admin"))


SAVED_ONCE = [attempt(0, 60, cause=EndCause.PREEMPTION)]  # up to step 7


def cut_short(*minutes, cause=EndCause.PREEMPTION, start=61):
    """Attempts after SAVED_ONCE that ran so many minutes each, and one that has just started."""
    begun = [start + sum(minutes[:number]) + number for number in range(len(minutes) + 1)]
    ended_ones = [
        attempt(since, since + ran, restart_count=number, cause=cause)
        for number, (since, ran) in enumerate(zip(begun, minutes, strict=False), 1)
    ]
    return [*SAVED_ONCE, *ended_ones, attempt(begun[-1], restart_count=len(minutes) + 1)]


CUT_SHORT = {
    "two": (cut_short(12, 12), {}, None),
    "three": (cut_short(12, 12, 12), {}, 3),
    "node failures": (cut_short(12, 12, 12, 12, cause=EndCause.NODE_FAILURE), {}, 4),
    "they ran for less than ten minutes altogether": (cut_short(3, 3, 3), {}, None),
    "the files may be results": (cut_short(12, 12, 12), {"located_by": "discovery", "role": Role.DATA}, None),
    "nobody knows where it saves": (cut_short(12, 12, 12), {"key": RUN._replace(directory="job:1@x")}, None),
    "maintenance, as announced": (cut_short(12, 12, 12, cause=EndCause.MAINTENANCE), {}, None),
    "one of them failed by itself": (
        [replace(each, cause=EndCause.FAILURE) if each.restart_count == 2 else each for each in cut_short(12, 12, 12)],
        {},
        3,
    ),
}


@pytest.mark.parametrize(("attempts", "changes", "count"), CUT_SHORT.values(), ids=CUT_SHORT)
def test_attempts_that_are_interrupted_before_they_save_again_are_told_as_a_warning(attempts, changes, count):
    changes = dict(changes)
    name = "results/part-7.npz" if "role" in changes else None
    only_save = saved(55, step=7, name=name, role=changes.pop("role", Role.STATE))
    minute = 125
    given = history(now=minute, attempts=attempts, checkpoints=[only_save], **changes)
    finding = only(RestartLoop(), given, minute)
    assert (finding.evidence["attempts"] if finding else None) == count
    assert finding is None or (finding.severity, finding.audience) == (Severity.WARNING, ("user",))
    assert RestartLoop().list_requeued(given, given.jobs[0], at(minute)) == []  # no reason to hold the job


def test_interruptions_before_a_further_save_cost_the_time_that_the_attempts_ran():
    given = history(now=125, attempts=cut_short(12, 6, 12, 12), checkpoints=[saved(55, step=7)])
    finding = only(RestartLoop(), given, 125)
    assert (finding.evidence["ran_seconds"], finding.evidence["longest_seconds"]) == (42 * 60, 12 * 60)
    assert finding.evidence["causes"] == ["preemption"]
    assert only(RestartLoop(), replace(given, checkpoints=(*given.checkpoints, saved(124, step=8))), 125) is None


def test_attempts_that_save_but_do_less_than_was_done_are_not_interrupted_too_often():
    again = [saved(minute, step=step) for step, minute in enumerate((66, 80, 92, 104), 1)]
    given = history(now=125, attempts=cut_short(12, 12, 12, 12), checkpoints=[saved(55, step=7), *again])
    assert only(RestartLoop(), given, 125) is None


def test_a_job_that_fails_by_itself_thrice_is_in_a_loop_whatever_else_interrupted_it():
    attempts = cut_short(12, 12, 12, 12)
    failed = [replace(each, cause=EndCause.FAILURE) if each.restart_count > 1 and each.cause else each
              for each in attempts]  # fmt: skip
    finding = only(RestartLoop(), history(now=120, attempts=failed, checkpoints=[saved(55, step=7)]), 120)
    assert (finding.severity, finding.evidence["attempts"]) == (Severity.CRITICAL, 3)


def preempted(start, end, *, seen, first=0):
    """One that a preemption ended, and the one that runs after it."""
    cause = EndCause.PREEMPTION
    both = [attempt(start, end, restart_count=first, cause=cause), attempt(end + 1, restart_count=first + 1)]
    return [replace(each, job=each.job._replace(first_seen_at=at(seen))) for each in both]


FAILED = [*ended(3), running(60, 3)]  # and let go on
KEY = FAILED[0].job
LET_GO = {KEY: Hold(3, frozenset(), is_own=True)}
BY_HAND = [attempt(20 * n, 20 * n + 18, job_id=7 + n, cause=EndCause.FAILURE) for n in range(3)]
LONG = [attempt(40 * n, 40 * n + 36, job_id=7 + n, cause=EndCause.FAILURE) for n in range(3)]
SUBMITTED = {"restart_count": 0, "submitted_at": at(59)}
REQUEUED = {"restart_count": 1, "submitted_at": at(200)}
ANEW = {
    "let go on": (FAILED, {}, LET_GO, (), 61, None),
    "let go on and longer than those before": (FAILED, {}, LET_GO, (), 95, None),
    "let go on, waiting": (ended(3), {"state": JobState.PENDING, "restart_count": 3}, LET_GO, (), 61, None),
    "held": (ended(3), {"state": JobState.PENDING, "reason": "JobHeldUser", "restart_count": 3}, LET_GO, (), 61, 3),
    "let go on and failed once more": ([*ended(4), running(80, 4)], {}, LET_GO, (), 81, 4),
    "let go on, of a flag that is open": (FAILED, {}, LET_GO, {("restart-loop", 1)}, 61, 3),
    "what a hold broke off has not failed": (
        [*ended(3), running(60, 3)],
        {},
        {KEY: Hold(1, frozenset({0}), is_own=True)},
        (),
        61,
        None,
    ),
    "submitted when the others had failed": ([*BY_HAND, attempt(60)], SUBMITTED, {}, (), 61, None),
    "the same, and longer than those": ([*BY_HAND, attempt(60)], SUBMITTED, {}, (), 95, None),
    "the same, and those had time": ([*LONG, attempt(120)], {**SUBMITTED, "submitted_at": at(119)}, {}, (), 157, 4),
    "submitted before they failed": ([*BY_HAND, attempt(60)], {**SUBMITTED, "submitted_at": at(57)}, {}, (), 61, 3),
    "submitted anew and requeued": (
        [*BY_HAND, attempt(60, 70), attempt(71, restart_count=1)],
        {"restart_count": 1, "submitted_at": at(70)},
        {},
        (),
        72,
        4,
    ),
    "submitted anew and preempted": ([*BY_HAND, *preempted(60, 70, seen=59)], REQUEUED, {}, (), 90, None),
    "submitted before they failed and preempted": ([*BY_HAND, *preempted(60, 70, seen=57)], REQUEUED, {}, (), 90, 4),
    "submitted anew, preempted and long enough": ([*LONG, *preempted(120, 130, seen=119)], REQUEUED, {}, (), 168, 4),
    "submitted anew, preempted after long enough": ([*LONG, *preempted(120, 157, seen=119)], REQUEUED, {}, (), 195, 4),
    "let go on and preempted": ([*ended(3), *preempted(60, 70, seen=0, first=3)], {}, LET_GO, (), 90, None),
}


@pytest.mark.parametrize(("attempts", "own", "holds", "flags", "minute", "count"), ANEW.values(), ids=ANEW)
def test_a_job_that_may_be_mended_is_no_loop_until_it_fails_itself(attempts, own, holds, flags, minute, count):
    given = history(now=minute, jobs=[job(**own)], attempts=attempts, holds=holds, flagged=frozenset(flags))
    finding = only(RestartLoop(), given, minute)
    assert (finding.evidence["attempts"] if finding else None) == count


def held(hold, **changes):
    values = {"state": JobState.PENDING, "reason": "job requeued in held state", "restart_count": 3}
    return history(now=61, jobs=[job(**values | changes)], attempts=ended(3), holds={KEY: hold})


def test_the_user_is_told_that_ckptd_has_held_the_job_and_how_to_let_it_go_on():
    own = Hold(3, frozenset({2}), is_own=True)
    finding = only(JobHeld(), held(own), 61)
    assert (finding.severity, finding.job_id, finding.audience) == (Severity.WARNING, 1, ("user",))
    assert "scontrol release 1" in text_of(finding)
    loop = only(RestartLoop(attempts=2), held(own), 61)
    assert "ckptd held the job" in text_of(loop)
    assert "scontrol release 1" in text_of(loop)
    assert "requeuehold" not in text_of(loop)
    for other in (held(Hold(3)), held(own, reason="Priority"), held(own, restart_count=4), held(own, state="RUNNING")):
        assert only(JobHeld(), other, 61) is None
    task = held(own, array_job_id=1, array_task_id=7)  # the last of its array, whose number means all of them
    for rule in (JobHeld(), RestartLoop(attempts=2)):
        assert "scontrol release 1_7" in text_of(only(rule, task, 61))
    by_others = only(RestartLoop(), held(Hold(3)), 61)
    assert "The job is held" in text_of(by_others)


@pytest.mark.parametrize(
    ("own", "command"),
    [
        ({"restart_count": 3}, "scontrol requeuehold 1"),
        ({"restart_count": 3, "array_job_id": 1, "array_task_id": 7}, "scontrol requeuehold 1_7"),
        ({"array_job_id": 1, "array_task_id": 7}, "scontrol hold 1"),
        ({}, "scancel 1"),
    ],
)
def test_a_loop_is_stopped_in_the_way_in_which_it_goes_on(own, command):
    finding = only(RestartLoop(), history(now=61, jobs=[job(**own)], attempts=ended(3)), 61)
    assert text_of(finding).endswith(f": {command}")


def test_a_loop_is_told_however_many_saves_it_made():
    attempts = [attempt(0, 100), *(attempt(100 * n + 1, 100 * n + 100, restart_count=n) for n in (1, 2, 3))]
    attempts.append(running(401, 4))
    every = [saved(n + 0.5, step=50 + n % 100 if n < 100 else n % 100) for n in range(400)]
    reaches = attempt_progress.measure_reaches(attempts, attempt_progress.list_saved(every))
    given = history(now=402, attempts=attempts, checkpoints=every[-64:], is_truncated=True, reaches=reaches)
    assert only(RestartLoop(), given, 402).evidence["attempts"] == 3


def test_a_save_right_after_a_restart_is_not_that_of_the_attempt_before():
    attempts = [attempt(0, 18), attempt(18.2, 40, restart_count=1)]
    reaches = attempt_progress.measure_reaches(attempts, attempt_progress.list_saved([saved(18.5, step=5)]))
    assert [each.save_count for each in reaches] == [0, 1]


def test_a_loop_is_not_told_where_saves_may_not_have_been_seen():
    blind = scan_at(61, problems=(Unknown(what="a", reason="Permission denied"),))
    assert isinstance(RestartLoop().evaluate(history(attempts=ended(3), scan=blind), at(61)), Unknown)
