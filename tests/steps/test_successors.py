"""Which jobs may go on with a run: what is submitted again beside them would write into their directory."""

from dataclasses import replace

import pytest

from ckptd.core import queue as tracking
from ckptd.core.job_actions import sbatch_command
from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.observations import TimedOutAttempt
from ckptd.steps import finished_runs, poll
from ckptd.steps.polled_queue import PolledQueue
from support.queue_facts import CLUSTER, STATES, at, look, make_job
from support.run_builder import make_record

SHARED = RunKey(CLUSTER, 1000, "/data/alice/run")
MARK = "ckptd-resubmit=1.0123456789abcdef"


def task(number, **changes):
    return make_job(10 + number, array_job_id=10, array_task_id=number, **changes)


def waiting(**changes):
    return make_job(1000, STATES.PENDING, started_at=None, **changes)


def running(**changes):
    return make_job(2000, **changes)


def began(job_id):
    key = JobKey(CLUSTER, job_id, at(0))
    return tracking.begin(key, 0, make_job(job_id), at(-1), at(0))


def make_run(*attempts):
    return make_record(SHARED, attempts=attempts, polled_at=at(1))


def make_queue(*tracked, timed_out=None):
    """A queue with these tracked jobs, in which a job's time was up."""
    known = {
        job.job_id: TrackedJob(
            key=JobKey(CLUSTER, job.job_id, at(0)), job=job, attempt=None, run=run, last_seen_at=at(0)
        )
        for job, run in tracked
    }
    ended = {} if timed_out is None else {SHARED: TimedOutAttempt(timed_out, began(timed_out.job_id))}
    return PolledQueue(tracked=known, timed_out=ended)


OWN = (task(1), SHARED)
ELSEWHERE = (task(2), RunKey(CLUSTER, 1000, "/data/alice/other"))
RUNS_ELSEWHERE = (running(), ELSEWHERE[1])
RUNS_HERE = (running(), SHARED)
UNLOCATED = (task(2), RunKey(CLUSTER, 1000, "job:12@20261120T120000Z"))


@pytest.mark.parametrize(
    ("state", "job", "queue_shows", "has_successor"),
    [
        pytest.param((), make_job(1), [], False, id="nothing waits"),
        pytest.param((), make_job(1), [waiting()], True, id="a job in the same directory"),
        pytest.param((), make_job(1), [waiting(work_dir=None)], False, id="a job elsewhere"),
        pytest.param((), make_job(1), [waiting(uid=1001)], False, id="another user's"),
        pytest.param((), make_job(1), [waiting(comment=MARK)], False, id="one that ckptd submitted for another run"),
        pytest.param((), make_job(1), [running()], True, id="one that has begun in the same directory"),
        pytest.param((), make_job(1), [running(comment="ckpt=none")], False, id="one that does not checkpoint"),
        pytest.param((), make_job(1), [waiting(comment="ckpt=none")], False, id="one that will not checkpoint"),
        pytest.param((), make_job(1), [running(state=STATES.CONFIGURING)], True, id="one whose nodes boot"),
        pytest.param((), make_job(1), [running(state=STATES.FAILED)], False, id="one that has ended"),
        pytest.param((RUNS_HERE,), make_job(1), [running()], True, id="one that saves in the same directory"),
        pytest.param((RUNS_ELSEWHERE,), make_job(1), [running()], False, id="one that saves in another"),
        pytest.param((), make_job(2000), [running(state=STATES.COMPLETING)], False, id="itself"),
        pytest.param((OWN,), task(1), [running(array_job_id=10)], True, id="a task that has begun"),
        pytest.param((OWN,), task(1), [waiting(array_job_id=10)], True, id="tasks that may share its directory"),
        pytest.param((OWN, UNLOCATED), task(1), [waiting(array_job_id=10)], True, id="nobody knows where another is"),
        pytest.param((OWN, ELSEWHERE), task(1), [waiting(array_job_id=10)], False, id="tasks with their own"),
        pytest.param((OWN, ELSEWHERE), task(1), [waiting(array_job_id=10), waiting()], True, id="another job, too"),
        pytest.param((OWN, ELSEWHERE), task(1), [waiting(array_job_id=11)], True, id="another array"),
    ],
)
def test_what_has_not_ended_may_go_on_with_the_run(state, job, queue_shows, has_successor):
    shown = look(1, *(replace(each, job_id=2000 + n) for n, each in enumerate(queue_shows)))
    begun = poll.sort_unended(make_queue(*state, timed_out=job), shown)
    assert finished_runs._has_successor(begun, make_run(), job) is has_successor


@pytest.mark.parametrize(
    ("end", "state", "has_successor"),
    [("its own", STATES.PENDING, True), ("its own", STATES.TIMEOUT, False), ("another", STATES.PENDING, False)],
)
def test_what_ckptd_submitted_for_an_earlier_end_of_the_run_goes_on_with_it(end, state, has_successor):
    first = began(1)
    mark = sbatch_command.name_end(first) if end == "its own" else "0123456789abcdef"
    submitted = make_job(7, state, comment=f"ckptd-resubmit=1.{mark}")
    begun = poll.sort_unended(make_queue(timed_out=make_job(2)), look(1, submitted))
    assert finished_runs._has_successor(begun, make_run(first, began(2)), make_job(2)) is has_successor
    assert not finished_runs._has_successor(begun, make_run(first), submitted)


def test_whether_a_run_continues_that_timed_out_after_the_last_poll_is_for_the_next_poll_to_tell():
    job, begun = make_job(1), poll.sort_unended(make_queue(), look(1))
    assert finished_runs._has_successor(begun, make_run(), job)
    begun = poll.sort_unended(make_queue(timed_out=job), look(2))
    assert not finished_runs._has_successor(begun, make_run(), job)


def test_jobs_that_ckptd_submitted_are_known_by_their_owner_and_mark():
    state = make_queue()
    state = poll.sort_unended(
        state, look(1, make_job(7, comment=f"ckpt=x {MARK}"), make_job(8, comment="ckptd-resubmit=x"))
    )
    assert state.marked == {(1000, "0123456789abcdef"): 7}
