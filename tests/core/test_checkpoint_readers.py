"""Jobs that only read the checkpoints of a run, such as an evaluation: what others saved is not their own."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.model import EndCause, Role, Severity
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.checkpoint_readers import NamedSpan, find_reader_names
from core.histories import at, attempt, history, job, limited, saved

RULES = tuple(kind() for kind in health.RULES.values())
TRAIN, EVALUATE = "train", "evaluate"


def span(name, start, end=None):
    return NamedSpan(name, at(start), None if end is None else at(end))


NAMES = {
    "one job alone": ([span(TRAIN, 0)], [20, 40], set()),
    "jobs of one name": ([span(TRAIN, 0, 60), span(TRAIN, 70)], [20, 40], set()),
    "nothing was saved": ([span(TRAIN, 0), span(EVALUATE, 30)], [], set()),
    "the second ran beside the writer": ([span(TRAIN, 0), span(EVALUATE, 30)], [20, 40, 60], {EVALUATE}),
    "the second began after the writer": ([span(TRAIN, 0, 60), span(EVALUATE, 70)], [20, 40, 60], {EVALUATE}),
    "the second has saved alone": ([span(TRAIN, 0, 60), span(EVALUATE, 70)], [20, 90], set()),
    "the second saved alone in an earlier attempt": (
        [span(EVALUATE, 0, 15), span(TRAIN, 20), span(EVALUATE, 30)],
        [10, 40],
        {TRAIN},
    ),
    "both began before the first save": ([span(TRAIN, 0), span(EVALUATE, 5)], [20, 40], set()),
    "a save at the end of the writer": ([span(TRAIN, 0, 60), span(EVALUATE, 60)], [60], {EVALUATE}),
}


@pytest.mark.parametrize(("spans", "saves", "readers"), NAMES.values(), ids=NAMES)
def test_a_job_writes_if_it_saved_when_no_job_of_another_name_ran(spans, saves, readers):
    assert find_reader_names(spans, [at(minute) for minute in saves]) == readers


def shared(*, now, second=EVALUATE, trained_until=None, **changes):
    """A training that saves every 20 minutes, and a job in its directory from minute 150 on."""
    attempts = [
        attempt(0, trained_until, cause=EndCause.COMPLETED),
        attempt(150, job_id=2, **changes),
    ]
    attempts[1] = replace(attempts[1], kind="resubmit")
    jobs = [job(2, name=second, started_at=at(150), ends_at=at(150 + 240), time_limit=timedelta(hours=4))]
    if trained_until is None:
        jobs.append(limited(600))
    saves = [saved(minute, step=minute, role=Role.STATE) for minute in range(20, min(now, trained_until or now), 20)]
    names = {} if second == TRAIN else {attempts[0].job: TRAIN, attempts[1].job: second}
    return history(now=now, jobs=jobs, attempts=attempts, checkpoints=saves, job_names=names)


def judge(given, minute):
    found = health.evaluate(
        given, RULES, at(minute), max_age=timedelta(minutes=15), min_job_duration=timedelta(minutes=10)
    )
    assert not found.failed
    return {(each.rule, each.job_id): each.severity for each in found.findings}


def test_an_evaluation_after_the_training_is_not_asked_for_checkpoints():
    assert judge(shared(now=300, trained_until=130), 300) == {}


def test_the_next_job_of_the_training_is_overdue_where_it_saves_nothing():
    given = shared(now=300, trained_until=130, second=TRAIN)
    assert judge(given, 300) == {("checkpoint-overdue", 2): Severity.WARNING}


def test_an_evaluation_beside_the_training_is_told_nothing_of_it():
    found = judge(shared(now=300), 300)
    assert found == {("concurrent-writers", 1): Severity.WARNING, ("concurrent-writers", 2): Severity.WARNING}


def test_saves_while_an_evaluation_runs_say_nothing_of_how_long_the_first_takes():
    assert measure_rhythm(shared(now=300)).time_to_first == timedelta(minutes=20)


def test_preempted_evaluations_have_lost_no_progress_of_the_training():
    given = shared(now=300, trained_until=130)
    cut = [attempt(150 + 20 * n, 165 + 20 * n, job_id=2, restart_count=n, cause=EndCause.PREEMPTION) for n in range(5)]
    running = attempt(250, job_id=2, restart_count=5)
    given = replace(given, attempts=(given.attempts[0], *cut, running))
    assert judge(given, 300) == {}
    as_training = replace(given, job_names={})
    assert ("restart-loop", 2) in judge(as_training, 300)
