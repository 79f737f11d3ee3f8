"""What the queue of the last poll knows of jobs that reached their time limits."""

from dataclasses import replace

from ckptd.core.model import EndCause, JobKey, JobState, RunKey
from ckptd.core.queue import TrackedJob
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


def track(job_id, run):
    key, latest = JobKey("c1", job_id, at(0)), attempt(0, None, job_id=job_id)
    return TrackedJob(key=key, job=job(job_id), attempt=replace(latest, job=key), run=run, last_seen_at=at(1))


def test_what_changed_is_only_the_run_of_a_job():
    before = PolledQueue(tracked={1: track(1, UNLOCATED), 2: track(2, ELSEWHERE)}, polled_at=at(1))
    after = before.with_runs({before.tracked[1].key: RUN})
    assert after.find_moved(before) == {UNLOCATED, RUN}
    assert after.find_moved(after) == frozenset()
    assert after.with_attempts([replace(after.tracked[2].attempt, ended_at=at(2))]).find_moved(after) is None
    assert replace(after, slurm_trouble="silent").find_moved(after) is None
    assert replace(after, tracked={1: after.tracked[1]}).find_moved(after) is None
