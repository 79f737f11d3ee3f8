"""Whose work an attempt continues, of jobs and tasks of arrays that share a directory."""

import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.model import EndCause, RestartKind
from ckptd.core.runs.cadence import with_rhythm
from ckptd.core.runs.earlier_attempts import EarlierAttempts
from core.histories import at, attempt, history, job, text_of


def task(number, start, end=None, *, array=1, restart_count=0, **changes):
    kind = None if restart_count else RestartKind.ARRAY
    found = attempt(start, end, job_id=100 * array + number, restart_count=restart_count, kind=kind, **changes)
    return replace(found, array_job_id=100 * array, array_task_id=number)


def run_two_at_once(count, *, array=1, began=0, gap=0.0):
    """Of an array with `%2`: each task takes an hour, and starts when the last but one has ended."""
    return [task(n, began + 30 * n + gap * (n % 2), began + 30 * n + 60, array=array) for n in range(count)]


def measure_minutes(attempts, of):
    found = EarlierAttempts(history(now=2000, attempts=sorted(attempts, key=lambda one: one.started_at)))
    return found.measure_before(of) / timedelta(minutes=1)


def test_a_task_of_an_array_with_a_limit_continues_only_itself():
    ended, again = run_two_at_once(6), task(0, 300, restart_count=1)
    assert measure_minutes([*ended, again], again) == 60
    assert measure_minutes(ended, ended[5]) == 0


def test_a_task_continues_the_same_task_of_the_array_before():
    before, now = run_two_at_once(6), run_two_at_once(6, array=2, began=500)
    assert measure_minutes([*before, *now], now[3]) == 60


@pytest.mark.parametrize("late", [0, 2])
def test_each_task_of_an_array_of_which_one_runs_at_a_time_continues_all_before_it(late):
    chain = [task(n, 60 * n, 60 * n + 58 + late) for n in range(4)]
    failed = task(4, 60 * 4 - 1, 60 * 4 - 0.5, cause=EndCause.FAILURE)  # beside the one before, as that ended late
    last = task(5, 60 * 4)
    assert measure_minutes([*chain, failed, last], last) == pytest.approx(4 * (58 + late), abs=3)


def test_two_tasks_that_ran_side_by_side_are_enough_if_their_ends_are_no_guesses():
    first = [task(n, 0, 60, cause=EndCause.FAILURE) for n in range(2)]
    later = [task(n, 60 * n, 60 * n + 58, cause=EndCause.FAILURE) for n in range(2, 8)]  # fewer nodes were free
    again = task(7, 500, restart_count=1)
    assert measure_minutes([*first, *later, again], again) == 58


def test_one_late_end_in_a_chain_of_tasks_is_no_sign_that_they_ran_side_by_side():
    chain = [task(0, 0, 98), task(1, 60, 118), task(2, 120, 178)]
    last = task(3, 180)
    assert measure_minutes([*chain, last], last) == 98 + 58 + 58


def test_a_job_continues_no_one_task_of_an_array_that_ran_before():
    alone = attempt(500, job_id=900, kind=RestartKind.RESUBMIT)
    assert measure_minutes([*run_two_at_once(4), alone], alone) == 0


def test_a_task_that_was_requeued_tells_only_its_own_loss_and_interruptions():
    ended = [replace(each, cause=EndCause.PREEMPTION) for each in run_two_at_once(6)]
    again = [task(n, 300 + n, restart_count=1) for n in range(6)]
    jobs = [job(one.job.job_id, restart_count=1) for one in again]
    given = history(now=400, jobs=jobs, attempts=(*ended, *again))
    found = list(RestartedWithoutCheckpoint().evaluate(given, at(400)))
    assert {one.evidence["earlier_run_time_seconds"] for one in found} == {3600}
    assert {one.evidence["interrupted_attempts"] for one in found} == {1}
    assert len(found) == 6
    assert not any("attempts were requeued" in text_of(one) for one in found)


def single(number, start, end=None, *, restart_count=0):
    return attempt(start, end, job_id=100 + number, restart_count=restart_count)


@pytest.mark.parametrize("make", [task, single])
def test_what_hundreds_of_jobs_of_one_directory_lost_takes_time_in_proportion_to_their_number(make):
    def count_calls(number):
        ended = [make(n, n / 100, 60) for n in range(number)]
        again = [make(n, 62, restart_count=1) for n in range(number)]
        jobs = [job(one.job.job_id, restart_count=1) for one in again]
        given = with_rhythm(history(now=70, jobs=jobs, attempts=(*ended, *again)))
        with _CountedCalls() as calls:
            assert len(list(RestartedWithoutCheckpoint().evaluate(given, at(70)))) == number
        return calls.count

    assert count_calls(200) < 3 * count_calls(100)


class _CountedCalls:
    """Counts the calls of functions of this project."""

    def __init__(self):
        self.count = 0

    def __enter__(self):
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _see(self, frame, event, _argument):
        self.count += event == "call" and "ckptd" in frame.f_code.co_filename
