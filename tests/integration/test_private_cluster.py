"""The private cluster behaves as a real one does, and leaves nothing behind however it ends."""

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from demo import keeper, processes
from demo.cluster import PrivateCluster
from demo.errors import DemoError
from demo.patience import Deadline

ROOT = Path(__file__).parents[2]
WAIT_FOREVER = "#!/bin/bash\nexec sleep 1000\n"


@pytest.fixture(scope="module", autouse=True)
def job_over_its_limit(cluster):
    """A job of one minute, submitted first, so that the minute passes while the other tests of this file run."""
    user = cluster.create_user("late")
    return cluster.submit(user, "#!/bin/bash\nexec sleep 1000\n", "--time=1", "--requeue")


def wait_for_state(cluster, job, state, *, seconds=60):
    cluster.wait_for(f"job {job} to be {state}", lambda: cluster.read_job(job, "%T") == state, seconds=seconds)


def test_jobs_run_as_the_user_who_submitted_them(cluster, user):
    job = cluster.submit(user, "#!/bin/bash\nid --user --name\necho $HOME\n")
    wait_for_state(cluster, job, "COMPLETED")
    assert (user.home / f"slurm-{job}.out").read_text().split() == [user.name, str(user.home)]


def test_a_requeued_job_runs_again_with_a_higher_restart_count(cluster, user):
    job = cluster.submit(user, '#!/bin/bash\necho "attempt ${SLURM_RESTART_COUNT:-0}"\nsleep 1000\n', "--requeue")
    output = user.home / f"slurm-{job}.out"
    cluster.wait_for("the first attempt", lambda: output.exists() and "attempt 0" in output.read_text())
    cluster.command("scontrol", "requeue", str(job))
    cluster.wait_for("the second attempt", lambda: "attempt 1" in output.read_text())
    assert "Restarts=1 " in cluster.command("scontrol", "show", "job", str(job))


def test_tasks_of_an_array_with_one_slot_follow_one_another(cluster, user):
    script = "#!/bin/bash\necho begin $SLURM_ARRAY_TASK_ID >>order\nsleep 0.3\necho end $SLURM_ARRAY_TASK_ID >>order\n"
    cluster.submit(user, script, "--array=1-3%1")
    order = user.home / "order"
    cluster.wait_for("the last task", lambda: order.exists() and "end 3" in order.read_text())
    assert order.read_text().split("\n")[:-1] == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]


def test_jobs_run_on_while_the_controller_is_stopped(cluster, user):
    job = cluster.submit(user, "#!/bin/bash\nwhile sleep 0.1; do date +%s.%N >>ticks; done\n")
    ticks = user.home / "ticks"
    cluster.wait_for("the job to run", ticks.exists)
    cluster.stop_controller()
    try:
        assert not cluster.is_controller_up()
        written = ticks.stat().st_size
        cluster.wait_for("the job to go on", lambda: ticks.stat().st_size > written)
    finally:
        cluster.start_controller()
    assert cluster.read_job(job, "%T") == "RUNNING"


def test_a_job_on_a_killed_node_is_requeued(cluster, user):
    node = cluster.node_names[-1]
    job = cluster.submit(user, WAIT_FOREVER, f"--nodelist={node}", "--requeue")
    wait_for_state(cluster, job, "RUNNING")
    cluster.kill_node(node)
    try:
        wait_for_state(cluster, job, "PENDING")
    finally:
        cluster.start_node(node)
    wait_for_state(cluster, job, "RUNNING")
    assert "NODE_FAIL" in cluster.command("sacct", "--noheader", "-D", f"--jobs={job}", "--format=State")


def test_a_user_name_that_is_taken_is_told_in_one_sentence(cluster, user):
    with pytest.raises(DemoError, match=f"the user {user.name} exists already"):
        cluster.create_user(user.name.partition("-")[2])


STARTER = f"""
import sys, time
from demo.cluster import PrivateCluster
with PrivateCluster(user_prefix="ck{os.getpid()}x-") as cluster:
    user = cluster.create_user("gone")
    cluster.submit(user, "#!/bin/bash\\nsetsid sleep 1000 &\\ntouch started\\nsleep 1000\\n")
    cluster.wait_for("the job", (user.home / "started").exists)
    print(cluster.directory, user.uid, user.name, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_starter_ends_by_a_signal(number):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "deploy")}
    argv = [sys.executable, "-c", STARTER]
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as starter:
        directory, uid, name = starter.stdout.readline().split()
        assert processes.list_processes(Path(directory), [int(uid)])
        starter.send_signal(number)
    deadline = Deadline(20)
    while Path(directory).exists() and not deadline.has_passed():
        time.sleep(0.05)
    assert not Path(directory).exists()
    assert processes.list_processes(Path(directory), [int(uid)]) == []
    with pytest.raises(KeyError):
        pwd.getpwnam(name)


@pytest.fixture
def _own_top(monkeypatch):
    """Sweep at once, but only a place of this test: clusters of others may just be starting."""
    with tempfile.TemporaryDirectory(prefix="ck-top-") as top:
        Path(top).chmod(0o755)
        monkeypatch.setattr(keeper, "TOP", Path(top))
        monkeypatch.setattr(keeper, "_YOUNG_SECONDS", 0)
        yield


@pytest.mark.usefixtures("_own_top")
def test_what_a_killed_keeper_left_is_swept_away_by_the_next():
    left = PrivateCluster(user_prefix=f"ck{os.getpid()}y-", nodes=1)
    left.start()
    user = left.create_user("left")
    left._keeper.kill()
    left._keeper.wait()
    keeper.sweep()
    left.stop()
    assert not left.directory.exists()
    assert processes.list_processes(left.directory, [user.uid]) == []


@pytest.mark.usefixtures("_own_top")
def test_a_directory_of_another_user_is_never_swept(user):
    trap = keeper.TOP / f"{keeper.NAME_PREFIX}trap"
    trap.mkdir()
    keeper.record_users(trap, {user.name: user.uid})
    os.chown(trap, user.uid, user.gid)
    keeper.sweep()
    assert pwd.getpwnam(user.name).pw_uid == user.uid
    assert trap.exists()


def test_a_job_past_its_time_limit_ends_and_is_not_requeued(cluster, job_over_its_limit):
    # accounting remembers it longer than slurmctld does
    argv = ("sacct", "--noheader", "-X", "-D", "--parsable2", f"--jobs={job_over_its_limit}", "--format=State")
    waiting = ([], ["PENDING"], ["RUNNING"])  # slurmdbd hears of it some seconds late
    cluster.wait_for("its end", lambda: cluster.command(*argv).split() not in waiting, seconds=150)
    assert cluster.command(*argv).split() == ["TIMEOUT"]
