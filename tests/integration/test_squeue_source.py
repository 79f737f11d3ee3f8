"""The squeue source against the real thing: what the stand-ins of tests/slurm claim must hold here too."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.core.model import JobState, QueueSnapshot, Unknown
from ckptd.core.queue import maintenance
from ckptd.slurm import owner_actions, times
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.programs import Programs
from ckptd.slurm.squeue import SqueueSource

SLEEP = "#!/bin/bash\nsleep 600\n"
HOSTILE = "x|y\x1f\x1eRestarts=99\nJobId=1 JobState=FAILED"


def now():
    return datetime.now(UTC)


@pytest.fixture
def source(cluster):
    return SqueueSource(programs=Programs(environment={**os.environ, **cluster.environment}))


def read_job(source, job_id):
    snapshot = source.read_queue(now())
    assert isinstance(snapshot, QueueSnapshot), snapshot
    return next((job for job in snapshot.jobs if job.job_id == job_id), None)


def wait_for_running(cluster, source, job_id, restart_count=0):
    def runs():
        job = read_job(source, job_id)
        return job is not None and job.is_running and job.restart_count == restart_count

    cluster.wait_for(f"job {job_id} to run with restart count {restart_count}", runs)
    return read_job(source, job_id)


def test_a_hostile_name_and_comment_arrive_whole(cluster, source, user):
    job_id = cluster.submit(user, SLEEP, "--hold", f"--job-name={HOSTILE}", f"--comment=ckpt=/a\n{HOSTILE}")
    job = read_job(source, job_id)
    assert (job.name, job.comment) == (HOSTILE, f"ckpt=/a\n{HOSTILE}")
    assert (job.state, job.restart_count, job.user, job.uid) == (JobState.PENDING, 0, user.name, user.uid)


def test_time_left_is_what_squeue_says(cluster, source, user):
    limited = cluster.submit(user, SLEEP, "--time=20")
    unlimited = cluster.submit(user, SLEEP, "--time=UNLIMITED")
    job = wait_for_running(cluster, source, limited)
    said = times.parse_duration(cluster.read_job(limited, "%L"))
    assert abs(job.time_left - said) <= timedelta(seconds=2)
    assert job.time_limit == timedelta(minutes=20)
    assert wait_for_running(cluster, source, unlimited).time_left is None


def test_a_requeue_raises_the_count_and_accounting_tells_both_attempts(cluster, source, user):
    before = now() - timedelta(minutes=1)
    job_id = cluster.submit(user, SLEEP, "--requeue", "--time=20")
    wait_for_running(cluster, source, job_id)
    cluster.command("scontrol", "requeue", str(job_id))
    wait_for_running(cluster, source, job_id, restart_count=1)
    cluster.cancel_jobs(user)
    cluster.wait_for("accounting to hear of the end", lambda: len(source.read_ended([job_id], before)) == 2)
    first, second = source.read_ended([job_id], before)
    assert (first.state, second.state) == (JobState.REQUEUED, JobState.CANCELLED)
    assert first.ended_at <= second.started_at <= second.ended_at


def test_waiting_tasks_of_an_array_are_one_job_and_running_ones_their_own(cluster, source, user):
    array = cluster.submit(user, SLEEP, "--array=0-5%1", "--time=20")

    def tasks():
        return [job for job in source.read_queue(now()).jobs if job.array_job_id == array]

    cluster.wait_for("the first task to run", lambda: any(job.is_running for job in tasks()))
    described = sorted((job.is_running, job.array_task_id, job.task_count) for job in tasks())
    assert described == [(False, None, 5), (True, 0, 1)]


def test_the_first_poll_counts_every_waiting_task_of_an_array_with_steps(cluster, user):
    array = cluster.submit(user, SLEEP, "--hold", "--array=1-100:7%3", "--time=20")
    programs = Programs(environment={**os.environ, **cluster.environment})
    described = []
    for source in (SqueueSource(programs=programs), SqueueSource(programs=programs)):
        for _ in range(2):
            jobs = [job for job in source.read_queue(now()).jobs if job.array_job_id == array]
            described.append([(job.task_count, job.array_task_limit) for job in jobs])
    assert described == [[(15, 3)]] * 4


def test_a_requeued_task_keeps_its_count_beside_the_tasks_that_never_ran(cluster, source, user):
    array = cluster.submit(user, SLEEP, "--array=0-9%1", "--requeue", "--time=20")

    def describe():
        tasks = [job for job in source.read_queue(now()).jobs if job.array_job_id == array and not job.is_running]
        return sorted((job.restart_count, job.array_task_id, job.task_count) for job in tasks)

    cluster.wait_for("the first task to run", lambda: describe() == [(0, None, 9)])
    cluster.command("scontrol", "requeuehold", f"{array}_0")
    cluster.wait_for("the second task to run", lambda: (0, None, 8) in describe())
    assert describe() == [(0, None, 8), (1, 0, 1)]


def test_a_heterogeneous_job_is_one_job_also_for_an_action(cluster, source, user):
    job_id = cluster.submit(user, SLEEP, "--nodes=1", ":", "--nodes=1", "--ntasks=2", "--partition=urgent")
    job = wait_for_running(cluster, source, job_id)
    request = {**dict.fromkeys(("array_job_id", "array_task_id")), "job_id": job_id, "restart_count": 0}
    wanted = owner_actions.describe_job({**request, "is_running": True}, user.uid)
    shown = owner_actions.read_job(wanted, lambda item: {"output": cluster.command(*item["argv"], user=user)})
    assert (shown.job_id, shown.is_running, shown.partition) == (job.job_id, True, "main,urgent")


def test_a_maintenance_of_a_jobs_node_is_told_and_leaves_the_job_alone(cluster, source, user):
    assert source.read_maintenance() == ()
    job = wait_for_running(cluster, source, cluster.submit(user, SLEEP, "--time=20", "--nodes=1"))
    words = ("Flags=MAINT,IGNORE_JOBS", f"Nodes={job.node_list}", "Users=root", "StartTime=now", "Duration=1")
    cluster.command("scontrol", "create", "reservation", "ReservationName=repair", *words)
    try:
        [found] = source.read_maintenance()
        assert (found.name, found.ends_at - found.begins_at) == ("repair", timedelta(minutes=1))
        assert maintenance.concerning(job, [found]) == (found,)
        assert read_job(source, job.job_id).is_running
    finally:
        cluster.command("scontrol", "delete", "ReservationName=repair")


def test_a_script_is_read_back(cluster, source, user):
    job = read_job(source, cluster.submit(user, SLEEP, "--hold"))
    assert source.read_batch_script(job) == SLEEP


def test_a_stopped_controller_is_unknown_and_not_an_empty_queue(cluster, source, user):
    job_id = cluster.submit(user, SLEEP, "--hold")
    assert read_job(source, job_id)
    cluster.stop_controller()
    try:
        answer = source.read_queue(now())
        assert not source.is_answering()
    finally:
        cluster.start_controller()
    assert isinstance(answer, Unknown)
    assert answer.reason.startswith(FailureReason.DOWN)
    assert read_job(source, job_id)


def test_the_controller_tells_its_own_time(source):
    assert abs(source.read_clock() - now()) < timedelta(seconds=30)
