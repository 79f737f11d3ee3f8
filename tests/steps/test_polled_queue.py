"""What the queue of the last poll knows of jobs that reached their time limits."""

from dataclasses import replace

from ckptd.core.model import EndCause, JobState, RunKey
from ckptd.core.runs.observations import TimedOutAttempt
from ckptd.steps.polled_queue import PolledQueue
from core.histories import RUN, at, attempt, job

UNLOCATED = RunKey("c1", 1000, "")
ELSEWHERE = RUN._replace(directory="/scratch/alice/elsewhere")
FIRST = replace(attempt(0, 60, cause=EndCause.TIME_LIMIT), state=JobState.TIMEOUT)
SECOND = replace(attempt(61, 120, job_id=2, cause=EndCause.TIME_LIMIT), state=JobState.TIMEOUT)


def timed_out(ended):
    return TimedOutAttempt(job(job_id=ended.job.job_id, state=JobState.TIMEOUT), ended)


def test_a_run_that_is_located_after_its_job_timed_out_is_still_known_to_have_timed_out():
    queued = PolledQueue(polled_at=at(61), timed_out={UNLOCATED: timed_out(FIRST)})
    assert queued.with_runs({FIRST.job: RUN}).timed_out == {RUN: timed_out(FIRST)}
    assert queued.with_runs({FIRST.job: UNLOCATED}) is queued
    assert queued.with_runs({SECOND.job: RUN}) is queued


def test_the_latest_attempt_of_a_run_counts_though_an_earlier_ones_run_is_located_later():
    queued = PolledQueue(timed_out={UNLOCATED: timed_out(FIRST), RUN: timed_out(SECOND)})
    assert queued.with_runs({FIRST.job: RUN}).timed_out == {RUN: timed_out(SECOND)}
    queued = PolledQueue(timed_out={UNLOCATED: timed_out(SECOND), RUN: timed_out(FIRST)})
    assert queued.with_runs({SECOND.job: RUN}).timed_out == {RUN: timed_out(SECOND)}


def test_the_other_runs_that_timed_out_stay():
    queued = PolledQueue(timed_out={UNLOCATED: timed_out(FIRST), ELSEWHERE: timed_out(SECOND)})
    assert queued.with_runs({FIRST.job: RUN}).timed_out == {RUN: timed_out(FIRST), ELSEWHERE: timed_out(SECOND)}
