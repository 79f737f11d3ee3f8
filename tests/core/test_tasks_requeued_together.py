"""Many tasks of an array that save in one directory and are requeued together: the rules compare no task with each."""

from collections import Counter
from datetime import timedelta

import pytest

from ckptd.core import health
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.runs import attempt_progress, earlier_run_times
from ckptd.core.runs.earlier_run_times import EarlierRunTimes
from core.histories import at, attempt, history, job

RULES = [RestartedWithoutCheckpoint(), NoCheckpointYet()]


def make_history(count):
    """Return the history of tasks that ran for an hour without a checkpoint, and began again in one second."""
    tasks = range(1, count + 1)
    return history(
        now=80,
        jobs=tuple(job(task, restart_count=1, array_job_id=1, array_task_id=task) for task in tasks),
        attempts=(
            *(attempt(0, 60, job_id=task) for task in tasks),
            *(attempt(61, job_id=task, restart_count=1) for task in tasks),
        ),
    )


@pytest.fixture
def counted(monkeypatch):
    """Count the comparisons of two attempts, and the measurements of what all attempts saved."""
    counts = Counter()
    for module, name in ((earlier_run_times, "_ran_together"), (attempt_progress, "measure_reaches")):
        call = getattr(module, name)

        def count(*args, call=call, name=name):
            counts[name] += 1
            return call(*args)

        monkeypatch.setattr(module, name, count)
    return counts


def test_the_tasks_are_compared_once_however_many_they_are(counted):
    found = {}
    for count in (5, 40):
        counted.clear()
        evaluation = health.evaluate(
            make_history(count), RULES, at(80), max_age=None, min_job_duration=timedelta(minutes=10)
        )
        assert not evaluation.failed
        lost = {each.job_id: each.evidence["earlier_run_time_seconds"] for each in evaluation.findings}
        assert lost == dict.fromkeys(range(1, count + 1), 3600)
        found[count] = dict(counted)
    assert found[40] == found[5]


def test_a_task_that_had_ended_before_the_others_counts_for_each_of_them():
    known = make_history(3)
    earlier = history(jobs=known.jobs, attempts=(attempt(-30, -10, job_id=9), *known.attempts))
    times = EarlierRunTimes(earlier)
    assert [times.before(each) for each in earlier.attempts] == [
        timedelta(0),
        *[timedelta(minutes=20)] * 3,
        *[timedelta(minutes=80)] * 3,
    ]
