"""Thousands of tasks of one array may run in one directory: rules ask about each without going through all others."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.health.evaluation import evaluate_until
from ckptd.core.model import EndCause, RestartKind
from ckptd.core.runs import cadence
from ckptd.core.runs.attempt_index import AttemptIndex, index_attempts
from ckptd.core.runs.attempt_progress import BLOCK, SavedProgress, list_saved, measure_reaches
from ckptd.core.runs.cadence import with_rhythm
from core.histories import at, attempt, history, job, saved

HOUR = timedelta(hours=1)
LATE = 600  # minutes


class CountedTuple(tuple):
    """Counts the members that anybody goes through."""

    __slots__ = ()
    seen_count = 0

    def __iter__(self):
        for each in super().__iter__():
            CountedTuple.seen_count += 1
            yield each


class CountedStep(int):
    """Counts how often steps are compared."""

    compared_count = 0

    def __lt__(self, other):
        CountedStep.compared_count += 1
        return int(self) < other

    def __gt__(self, other):
        CountedStep.compared_count += 1
        return int(self) > other


def make_array(count):
    """Return a run of which so many tasks have ended and as many run, with a checkpoint that is being written."""
    starts = [number * 60 / count for number in range(2 * count)]
    kinds = (None, *[RestartKind.ARRAY] * (2 * count - 1))
    attempts = [
        replace(
            attempt(
                start, start + 60 if place < count else None, job_id=place + 1, kind=kind, cause=EndCause.COMPLETED
            ),
            array_job_id=1,
            array_task_id=place,
        )
        for place, (start, kind) in enumerate(zip(starts, kinds, strict=True))
    ]
    jobs = [
        job(place + 1, array_job_id=1, array_task_id=place, started_at=at(start), ends_at=at(start + 14400))
        for place, start in enumerate(starts)
        if place >= count
    ]
    checkpoints = [saved(LATE - 20 * number, name=f"task_{number}_epoch_1.pt", epoch=1) for number in (3, 2, 1)]
    made = history(now=LATE, jobs=jobs, checkpoints=checkpoints)
    return replace(made, attempts=CountedTuple(attempts))


def count_seen(count):
    given = with_rhythm(make_array(count))
    rules = tuple(rule() for rule in health.RULES.values())
    CountedTuple.seen_count = 0
    found = evaluate_until(given, rules, at(LATE), max_age=HOUR, min_job_duration=timedelta(0), max_scan_age=HOUR)
    assert not found.evaluation.failed
    assert {each.rule for each in found.evaluation.findings} >= {"concurrent-writers"}
    return CountedTuple.seen_count


def test_twice_as_many_tasks_have_twice_as_many_attempts_looked_at():
    few, many = count_seen(20), count_seen(40)
    assert 0 < many <= 2 * few


def count_compared(attempt_count, save_count):
    span = 2 * attempt_count
    attempts = [attempt(number, number + span, job_id=number + 1) for number in range(attempt_count)]
    instants = [span * number / save_count for number in range(save_count)]
    saves = [SavedProgress(at(instant), CountedStep(step), None) for step, instant in enumerate(instants, 1)]
    CountedStep.compared_count = 0
    found = measure_reaches(attempts, saves)
    assert [each.steps for each in found[:2]] == [(2, save_count), (save_count // span + 2, save_count)]
    return CountedStep.compared_count


def test_saves_that_belong_to_many_attempts_are_not_compared_again_for_each():
    assert count_compared(100, 4000) <= 2 * 4000 + 100 * (4 * BLOCK + 2 * 4000 / BLOCK)


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 7])
def test_the_progress_of_an_attempt_is_that_of_the_saves_in_its_time(count):
    steps = [None if number % 5 == 0 else (number * 37) % 101 for number in range(count)]
    saves = [saved(number + 0.5, name=f"{number}.pt", step=step) for number, step in enumerate(steps)]
    spans = [(start, start + length) for start in range(0, count + 1, 61) for length in (0, 1, 60, BLOCK, 2 * BLOCK)]
    attempts = [attempt(*span, job_id=number) for number, span in enumerate(spans)]
    for each, (start, end) in zip(measure_reaches(attempts, list_saved(saves)), spans, strict=True):
        own = steps[start:end]
        known = [step for step in own if step is not None]
        assert each.steps == ((min(known), max(known)) if known else None)
        assert each.save_count == len(own)


@pytest.mark.parametrize("task_count", [1, 40])
def test_saves_are_told_apart_once_for_all_tasks_that_run_side_by_side(task_count, monkeypatch):
    tell_apart, groups = cadence._group, []
    monkeypatch.setattr(cadence, "_group", lambda completed: groups.append(completed) or tell_apart(completed))
    tasks = [attempt(number / 100, job_id=number + 1) for number in range(task_count)]
    saves = [saved(10 * number, name=f"epoch_{number}.pt", epoch=number) for number in range(1, 21)]
    rhythm = cadence.measure_rhythm(history(now=210, attempts=tasks, checkpoints=saves))
    assert (rhythm.interval, rhythm.save_count) == (timedelta(minutes=10), 20 * task_count)
    assert [len(each) for each in groups] == [20]


def test_the_attempts_of_a_job_are_found_by_its_name():
    runs = (attempt(0, 10), attempt(12, restart_count=1), attempt(11, 20, job_id=2))
    found = AttemptIndex(sorted(runs, key=lambda each: each.started_at))
    assert list(found.list_of(job(1))) == [runs[0], runs[1]]
    assert (found.find_open(job(1)), found.find_open(job(2)), found.find_open(job(3))) == (runs[1], None, None)
    assert found.list_of(job(1, cluster="other")) == ()
    assert [found.find_before(at(minute)) for minute in (0, 1, 11, 12, 13)] == [
        None,
        runs[0],
        runs[0],
        runs[2],
        runs[1],
    ]
    assert found.first_open_at == at(12)


def test_attempts_are_sorted_again_once_they_were_replaced():
    before = history(attempts=[attempt(0)])
    assert index_attempts(before) is index_attempts(replace(before, jobs=()))
    after = replace(before, attempts=(attempt(0, 5),))
    assert index_attempts(after).find_open(job(1)) is None
    assert index_attempts(before).find_open(job(1)) == attempt(0)
