"""slurmrestd over its unix socket against the real thing: it tells of a job what squeue tells."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.core.model import JobState, QueueSnapshot, Unknown
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.programs import Programs
from ckptd.slurm.rest_client import RestClient
from ckptd.slurm.slurmrestd import SlurmrestdSource
from ckptd.slurm.squeue import SqueueSource

SLEEP = "#!/bin/bash\nsleep 600\n"
UNNAMED = FailureReason.FAILED  # slurmrestd 22.05 names no cause, only "Unspecified error"
HOSTILE = 'x|y\x1f"},{"job_id":1,\\\nRestarts=99'


@pytest.fixture(scope="module")
def account(cluster):
    return cluster.create_user("rest")


@pytest.fixture(scope="module")
def url(cluster, account):
    return cluster.start_rest(account)


@pytest.fixture
def sources(cluster, url):
    programs = Programs(environment={**os.environ, **cluster.environment})
    client = RestClient(url=url)
    return SlurmrestdSource(client, programs=programs), SqueueSource(programs=programs)


def read_jobs(source, user):
    snapshot = source.read_queue(datetime.now(UTC))
    assert isinstance(snapshot, QueueSnapshot), snapshot
    return {job.job_id: job for job in snapshot.jobs if job.user == user.name}


def test_a_job_means_the_same_through_slurmrestd_and_squeue(cluster, sources, user):
    rest, squeue = sources
    requeued = cluster.submit(user, SLEEP, "--requeue", "--time=20", f"--comment={HOSTILE}")
    array = cluster.submit(user, SLEEP, "--array=0-5%1", "--time=UNLIMITED")
    held = cluster.submit(user, SLEEP, "--hold", f"--job-name={HOSTILE}")
    cluster.wait_for("the job to run", lambda: read_jobs(squeue, user)[requeued].is_running)
    cluster.command("scontrol", "requeue", str(requeued))

    def all_run():
        jobs = read_jobs(squeue, user)
        again = jobs[requeued].is_running and jobs[requeued].restart_count == 1
        return again and any(job.is_running and job.array_job_id == array for job in jobs.values())

    cluster.wait_for("the job to run again and a task to run", all_run)
    by_rest, by_squeue = read_jobs(rest, user), read_jobs(squeue, user)
    assert by_rest.keys() == by_squeue.keys()
    assert (by_rest[requeued].restart_count, by_rest[requeued].comment) == (1, HOSTILE)
    assert (by_rest[held].name, by_rest[held].state) == (HOSTILE, JobState.PENDING)
    for job_id, job in by_squeue.items():
        other = by_rest[job_id]
        assert abs((job.time_left or timedelta()) - (other.time_left or timedelta())) <= timedelta(seconds=2)
        # squeue prints `%1` of an array only with all of its waiting tasks together.
        assert other.array_task_limit == (1 if job.array_job_id == array else None)
        assert job.array_task_limit in {None, other.array_task_limit}
        assert replace(other, time_left=job.time_left, array_task_limit=job.array_task_limit) == job


def test_tcp_needs_a_valid_token_and_then_answers_as_the_socket_does(cluster, account, sources, user, tmp_path):
    url = cluster.start_rest_with_tokens(account)
    rest, _ = sources
    held = cluster.submit(user, SLEEP, "--hold", f"--comment={HOSTILE}")
    token = tmp_path / "token"
    token.touch(0o600)
    programs = Programs(environment={**os.environ, **cluster.environment})
    by_token = SlurmrestdSource(RestClient(url=url, token_file=token), programs=programs)
    token.write_text(cluster.command("scontrol", "token", f"username={account.name}", "lifespan=600"))
    assert read_jobs(by_token, user)[held] == read_jobs(rest, user)[held]
    head, dot, signature = token.read_text().strip().rpartition(".")
    wrong = {f"{head}{dot}{signature[::-1]}": UNNAMED, "SLURM_JWT=a.b.c": FailureReason.NOT_PERMITTED}
    for text, reason in wrong.items():
        token.write_text(text)
        refused = by_token.read_queue(datetime.now(UTC))
        assert isinstance(refused, Unknown)
        assert refused.reason.startswith(reason), refused
    without = SlurmrestdSource(RestClient(url=url), programs=programs).read_queue(datetime.now(UTC))
    assert isinstance(without, Unknown)
    assert without.reason.startswith(FailureReason.NOT_PERMITTED), without


def test_a_stopped_controller_is_not_an_empty_queue(cluster, sources):
    rest, _ = sources
    assert isinstance(rest.read_queue(datetime.now(UTC)), QueueSnapshot)
    cluster.stop_controller()
    try:
        answer = rest.read_queue(datetime.now(UTC))
    finally:
        cluster.start_controller()
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(UNNAMED), answer
