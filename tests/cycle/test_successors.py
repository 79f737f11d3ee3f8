"""Which waiting jobs may go on with a run: what is submitted again beside them would write into their directory."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import JobKey, RunKey
from ckptd.core.tracking import TrackedJob
from ckptd.core.watchlist import Watchlist
from ckptd.cycle import queue
from ckptd.cycle.state import State
from support.queue_facts import CLUSTER, STATES, at, look, make_job

SHARED = RunKey(CLUSTER, 1000, "/data/alice/run")
MARK = "ckptd-resubmit=1.0123456789abcdef"


def task(number, **changes):
    return make_job(10 + number, array_job_id=10, array_task_id=number, **changes)


def waiting(**changes):
    return make_job(1000, STATES.PENDING, started_at=None, **changes)


def make_state(*tracked):
    known = {
        job.job_id: TrackedJob(
            key=JobKey(CLUSTER, job.job_id, at(0)), job=job, attempt=None, run=run, last_seen_at=at(0)
        )
        for job, run in tracked
    }
    return State(tracked=known, watchlist=Watchlist(timedelta(minutes=1)))


OWN = (task(1), SHARED)
ELSEWHERE = (task(2), RunKey(CLUSTER, 1000, "/data/alice/other"))
UNLOCATED = (task(2), RunKey(CLUSTER, 1000, "job:12@20261120T120000Z"))


@pytest.mark.parametrize(
    ("state", "job", "queue_shows", "has_successor"),
    [
        pytest.param((), make_job(1), [], False, id="nothing waits"),
        pytest.param((), make_job(1), [waiting()], True, id="a job in the same directory"),
        pytest.param((), make_job(1), [waiting(work_dir=None)], False, id="a job elsewhere"),
        pytest.param((), make_job(1), [waiting(uid=1001)], False, id="another user's"),
        pytest.param((), make_job(1), [waiting(comment=MARK)], False, id="one that ckptd submitted for another run"),
        pytest.param((OWN,), task(1), [waiting(array_job_id=10)], True, id="tasks that may share its directory"),
        pytest.param((OWN, UNLOCATED), task(1), [waiting(array_job_id=10)], True, id="nobody knows where another is"),
        pytest.param((OWN, ELSEWHERE), task(1), [waiting(array_job_id=10)], False, id="tasks with their own"),
        pytest.param((OWN, ELSEWHERE), task(1), [waiting(array_job_id=10), waiting()], True, id="another job, too"),
        pytest.param((OWN, ELSEWHERE), task(1), [waiting(array_job_id=11)], True, id="another array"),
    ],
)
def test_what_waits_may_go_on_with_the_run(state, job, queue_shows, has_successor):
    begun = make_state(*state)
    queue._note_waiting(begun, look(1, *(replace(each, job_id=2000 + n) for n, each in enumerate(queue_shows))))
    assert queue._has_successor(begun, SHARED, job) is has_successor


def test_jobs_that_ckptd_submitted_are_known_by_their_owner_and_mark():
    state = make_state()
    queue._note_waiting(state, look(1, make_job(7, comment=f"ckpt=x {MARK}"), make_job(8, comment="ckptd-resubmit=x")))
    assert state.marked == {(1000, "0123456789abcdef"): 7}
