"""That the chaos run's cluster shows a requeue as Slurm does.

Job 18 in `tests/data/slurm/22.05.8/*.squeue` is requeued. Slurm sets its submission to the instant of the requeue and
keeps that when the job runs again. While the job waits, its start and end are predictions.
"""

import os
import random
from datetime import UTC, datetime

import pytest

from ckptd.core.model import JobState
from fuzz.chaos_world import REQUEUE_DELAY, Slurm, World
from support.prune_facts import MINUTE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user need root")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, datetime(2026, 11, 26, tzinfo=UTC), random.Random(1), count=1)


def fail_node(world):
    """Play until a node failure has ended the job's first execution; return that."""
    training = world.trainings[0]
    world.advance()
    training.fate, training.ends = JobState.NODE_FAIL, 10
    while training.running:
        world.advance()
    return training.executions[0]


def show_job(world):
    (job,) = Slurm(world).read_queue(world.at(world.minute)).jobs
    return job


def test_a_job_that_waits_after_a_node_failure_is_shown_as_submitted_when_it_failed(world):
    failed = fail_node(world)
    job = show_job(world)
    assert job.job_id == failed.job_id
    assert (job.state, job.restart_count) == (JobState.PENDING, 1)
    assert job.submitted_at == world.at(failed.ended_at)


def test_a_job_that_waits_shows_when_slurm_expects_it_to_start_and_to_end(world):
    failed = fail_node(world)
    job = show_job(world)
    assert job.started_at == world.at(failed.ended_at + REQUEUE_DELAY)
    assert job.ends_at == job.started_at + job.time_limit
    assert job.time_left == job.time_limit


def test_a_job_that_runs_again_keeps_the_submission_of_its_requeue_in_the_queue_and_in_accounting(world):
    failed = fail_node(world)
    while not world.trainings[0].running:
        world.advance()
    job = show_job(world)
    assert (job.state, job.restart_count) == (JobState.RUNNING, 1)
    assert job.submitted_at == world.at(failed.ended_at)
    assert job.started_at == job.submitted_at + REQUEUE_DELAY * MINUTE
    again = world.trainings[0].running
    world.trainings[0].ends = world.minute + 1
    world.advance()
    rows = Slurm(world).read_ended({job.job_id}, world.begin)
    assert [row.submitted_at for row in rows] == [world.at(failed.submitted_at), world.at(failed.ended_at)]
    assert rows[-1].started_at == world.at(again.started_at)


def test_a_past_execution_keeps_its_own_submission(world):
    failed = fail_node(world)
    (past,) = Slurm(world).read_past(world.begin, world.at(world.minute)).jobs
    assert (past.job.state, past.restart_count) == (JobState.NODE_FAIL, 0)
    assert past.job.submitted_at == world.at(failed.submitted_at)
