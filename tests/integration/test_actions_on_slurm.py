"""The acts that a site can opt in to, on a real cluster: the whole daemon acts, Slurm and the jobs answer.

All jobs run at the same time, and their limits are moved to now once they have done what they are there for: most of
what is left is waiting for slurmctld, which looks at limits twice a minute.
"""

import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from ckptd.service.step_table import STEPS
from demo import ports
from demo.cluster import PrivateCluster
from support.quick_watcher import QuickWatcher

ACT_INTERVAL = STEPS["act"].interval(None)  # the same whatever the parts

SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "5s"
[scan]
interval = "1s"
write_grace = "2s"
allowed_roots = ["{homes}"]
[[watch]]
job_name = "tasks"
directory = "{{work_dir}}/task-{{array_task_id}}"
[health]
min_job_duration = "1s"
[actions]
signal = ["main"]
hold = ["main"]
summary = ["main"]
resubmit = ["main"]
signal_margin = "25s"
min_loss = "1s"
[web]
listen = "{listen}"
[service]
state_directory = "{state}"
"""
SAVE = "save() {{ n=$(ls $1 | wc -l); cp {source} .new-$1; mv .new-$1 $1/step_$((n + 1)).safetensors; }}\n"
SIGNALLED = "#!/bin/bash\n{own}{save}trap 'save ckpt; echo signalled >>said' USR1\nsave ckpt\n"
SIGNALLED += "while true; do sleep 0.2; done\n"
LOOPING = "#!/bin/bash\n[ -e mended ] && exec sleep 1000\nsleep 2\nscontrol requeue $SLURM_JOB_ID\nsleep 30\n"
GOES_ON = "#!/bin/bash\n#SBATCH --nice=9 --job-name=from-script\n{save}"
GOES_ON += "echo $SLURM_JOB_ID $(ls ckpt | wc -l) $* >>began\nsave ckpt\nsleep 1000\n"
STUCK = "#!/bin/bash\n{save}echo $SLURM_JOB_ID >>began\n[ -e ckpt/step_1.safetensors ] || save ckpt\nsleep 1000\n"
TASKS = "#!/bin/bash\n{save}d=task-$SLURM_ARRAY_TASK_ID\nmkdir -p $d\n"
TASKS += "echo $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID $(ls $d | wc -l) >>began\nsave $d\nsleep 1000\n"
WISHES = {
    "goes-on": 'directory = "ckpt"\nresubmit = true\nmax_resubmits = 1\n',
    "stuck": 'directory = "ckpt"\nresubmit = true\nmax_resubmits = 5\n',
    "tasks": "resubmit = true\nmax_resubmits = 1\n",
}
# what a job is, by `scontrol show job`
SAME = (
    "UserId",
    "Partition",
    "NumNodes",
    "NumCPUs",
    "NumTasks",
    "CPUs/Task",
    "Nice",
    "Requeue",
    "WorkDir",
)
SAME += ("JobName", "OverSubscribe", "MailUser", "MailType", "ExcNodeList", "MinCPUsNode")
# Stands before sbatch on the daemon's PATH: tells of each call, and hangs where it is told to, once Slurm has the job.
SBATCH = """#!/bin/sh
answer=$(/usr/bin/sbatch "$@") || exit
echo "$answer" >>{directory}/submitted
[ -e {directory}/hang ] && sleep 60
echo "$answer"
"""


@pytest.fixture(scope="module")
def slurm():
    with PrivateCluster(name="acts", nodes=1, user_prefix=f"cka{os.getpid()}-", with_accounting=True) as private:
        yield private


@pytest.fixture(scope="module")
def save(slurm, request):
    source = request.path.parents[1] / "data/formats/huggingface_shards/run_best/sharded_model"
    copy = slurm.directory / "step.safetensors"
    copy.write_bytes((source / "model-00001-of-00002.safetensors").read_bytes())
    copy.chmod(0o644)
    return SAVE.format(source=copy)


@pytest.fixture(scope="module")
def calls(slurm):
    """Where the daemon's sbatch tells of its calls."""
    directory = slurm.directory / "calls"
    directory.mkdir()
    directory.chmod(0o777)
    program = directory / "sbatch"
    program.write_text(SBATCH.format(directory=directory))
    program.chmod(0o755)
    return directory


@pytest.fixture(scope="module")
def watcher(slurm, calls):
    watcher = QuickWatcher(slurm, SETTINGS, port=ports.find_free_ports(1)[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{calls}:{os.environ['PATH']}")
        watcher.start()
        yield watcher
    watcher.stop()


class Jobs(dict):
    """The jobs of one user by name, each in a directory of that name."""

    def __init__(self, slurm):
        super().__init__()
        self.slurm = slurm
        self.user = slurm.create_user("u")

    def submit(self, name, script, *options):
        work_dir = self.path(name)
        (work_dir / "ckpt").mkdir(parents=True)
        file = work_dir / "job.sh"
        file.write_text(script)
        (work_dir / ".ckptd.toml").write_text(WISHES.get(name, ""))
        for path in (work_dir, *work_dir.iterdir()):
            os.chown(path, self.user.uid, self.user.gid)
        argv = ["sbatch", "--parsable", f"--chdir={work_dir}", *options]
        self[name] = int(self.slurm.command(*argv, user=self.user).strip())

    def path(self, name, *parts):
        return self.user.home.joinpath(name, *parts)

    def began(self, name):
        """Return what the job has written at each of its starts."""
        path = self.path(name, "began")
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def wait_began(self, name, count):
        self.slurm.wait_for(f"start {count} of {name}", lambda: len(self.began(name)) == count, seconds=120)
        return self.began(name)[-1]

    def end(self, name, job_id, count, directory="ckpt"):
        """Let a job's limit be now, once it has saved and ckptd knows so."""
        read = self.slurm.watcher.read
        self.slurm.wait_for(
            f"{count} saves of {name} to be seen",
            lambda: [each["checkpoints"] for each in read("jobs")["jobs"] if str(each["job_id"]) == job_id] == [count],
        )
        assert len(list(self.path(name, directory).iterdir())) == count
        self.slurm.command("scontrol", "update", f"JobId={job_id}", "EndTime=now+2")

    def show(self, job_id):
        text = self.slurm.command("scontrol", "show", "job", str(job_id))
        return dict(re.findall(r"(?:^|\s)([\w/:]+)=(.*?)(?=\s+[\w/:]+=|\s*$)", text))


@pytest.fixture(scope="module")
def jobs(slurm, save, watcher, calls):
    slurm.watcher = watcher
    jobs = Jobs(slurm)
    declared = "--comment=ckpt=ckpt ckpt-signal=B:USR1"
    for name, own in (("signalled", ""), ("warned", "#SBATCH --signal=B:USR1@60\n")):
        script = SIGNALLED.format(save=save, own=own)
        jobs.submit(name, script, "--time=1", declared, str(jobs.path(name, "job.sh")))
    jobs.submit(
        "looping", LOOPING, "--time=10", "--requeue", "--comment=ckpt=ckpt", str(jobs.path("looping", "job.sh"))
    )
    goes_on = ("-pmain", "--time", "7", "-c2", "-n2", "--no-requeue", "--mail-type=END", "--mail-user=me@localhost")
    goes_on += ("--comment=some words -t 3", "-o", "out-%j", "--begin=now", "--hold")
    jobs.submit("goes-on", GOES_ON.format(save=save), *goes_on, str(jobs.path("goes-on", "job.sh")), "--two")
    slurm.command("scontrol", "release", str(jobs["goes-on"]))
    # blanks in a value make its command line ambiguous
    stuck = ("--time=6", "-J", "two words", "--output=out dir-%j", "-c3", "--nice=4")
    jobs.submit("stuck", STUCK.format(save=save), *stuck, str(jobs.path("stuck", "job.sh")))
    tasks = ("--array=5-7%2", "--time=5", "-J", "tasks")
    jobs.submit("tasks", TASKS.format(save=save), *tasks, str(jobs.path("tasks", "job.sh")))
    first, _ = jobs.wait_began("goes-on", 1), jobs.wait_began("stuck", 1)
    jobs.wait_began("tasks", 2)
    (task,) = [job for job, number, _ in jobs.began("tasks") if number == "5"]
    (calls / "hang").touch()
    jobs.path("goes-on", f"out-{first[0]}").chmod(0o640)  # as if it had been submitted with a umask of 027
    jobs.end("goes-on", first[0], 1)
    jobs.end("stuck", jobs.began("stuck")[0][0], 1)
    jobs.end("tasks", task, 1, "task-5")
    # the daemon dies after Slurm took one of the next jobs and before that is on record
    slurm.wait_for("Slurm to take one", (calls / "submitted").exists, seconds=90)
    watcher.stop(signal.SIGKILL)
    assert read_acts(slurm, "resubmit-job") == []
    (calls / "hang").unlink()
    watcher.start()
    yield jobs
    slurm.cancel_all()


def read_acts(slurm, action):
    [path] = slurm.directory.glob("ckptd-*/ckptd.sqlite3")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        statement = "SELECT target, outcome, details FROM audit WHERE action = ? AND outcome IS NOT NULL ORDER BY id"
        return database.execute(statement, (action,)).fetchall()


def find_acts(slurm, action, *job_ids):
    wanted = {f"job {job_id}" for job_id in job_ids}
    return [(outcome, json.loads(details)) for target, outcome, details in read_acts(slurm, action) if target in wanted]


def wait_resubmitted(slurm, job_id):
    """Return the job that was submitted for one, once that is on record."""
    slurm.wait_for(f"job {job_id} to go on", lambda: find_acts(slurm, "resubmit-job", job_id), seconds=120)
    ((outcome, _),) = find_acts(slurm, "resubmit-job", job_id)
    assert outcome.startswith("submitted job "), outcome
    return outcome.rpartition(" ")[2]


def assert_same(jobs, first, second):
    before, after = jobs.show(first), jobs.show(second)
    assert {name: after.get(name) for name in SAME} == {name: before.get(name) for name in SAME}


def test_a_loop_is_held_and_told_in_the_admin_comment(slurm, jobs):
    job = str(jobs["looping"])

    def shown():
        return slurm.command("scontrol", "show", "job", job)

    slurm.wait_for("the hold", lambda: read_acts(slurm, "hold-job"), seconds=120)
    slurm.wait_for("the job to be held", lambda: "Reason=JobHeld" in shown() or "held_state" in shown())
    slurm.wait_for("its last attempt to end", lambda: "JobState=PENDING" in shown())
    slurm.wait_for("the summary", lambda: re.search(r"AdminComment=ckptd: .*(restart-loop|job-held)", shown()))
    assert {target for target, _, _ in read_acts(slurm, "hold-job")} == {f"job {job}"}
    assert read_acts(slurm, "hold-job")[-1][1] == "done"
    jobs.path("looping", "mended").touch()
    slurm.command("scontrol", "release", job, user=jobs.user)


def test_the_signal_comes_before_the_limit_and_the_job_saves(slurm, jobs):
    job = jobs["signalled"]
    said = jobs.path("signalled", "said")
    slurm.wait_for("the signal", said.exists, seconds=90)
    assert slurm.read_job(job, "%T") == "RUNNING"
    slurm.wait_for("its save", lambda: len(list(jobs.path("signalled", "ckpt").iterdir())) == 2)
    slurm.wait_for("the record", lambda: find_acts(slurm, "signal-job", job))
    ((outcome, details),) = find_acts(slurm, "signal-job", job)
    assert (outcome, details["word"]) == ("done", "B:USR1")


def test_a_job_that_slurm_warns_in_time_gets_no_second_signal(slurm, jobs):
    job = jobs["warned"]
    slurm.wait_for("the decision", lambda: find_acts(slurm, "signal-job", job), seconds=90)
    ((outcome, _),) = find_acts(slurm, "signal-job", job)
    assert outcome == "not needed: its own --signal=B:USR1@60 is early enough"
    assert jobs.path("warned", "said").read_text() == "signalled\n"


def test_a_task_of_an_array_goes_on_alone(slurm, jobs):
    array = jobs["tasks"]
    second = wait_resubmitted(slurm, f"{array}_5")
    slurm.wait_for("the new job", lambda: [second, "5", "1"] in jobs.began("tasks"))
    assert slurm.read_job(second, "%F %K %l") == f"{second} 5 5:00"
    assert {number for _, number, _ in jobs.began("tasks")} <= {"5", "6", "7"}


def test_in_doubt_of_the_command_line_the_attributes_count_and_without_progress_it_ends(slurm, jobs):
    first = jobs.began("stuck")[0][0]
    second = wait_resubmitted(slurm, first)
    slurm.wait_for("the new job to begin", lambda: len(jobs.began("stuck")) == 2)
    assert_same(jobs, first, second)
    ((_, details),) = find_acts(slurm, "resubmit-job", first)
    command = details.get("command")  # None where this is the one that the kill cut off
    assert command is None or f"--output={jobs.path('stuck')}/out dir-%j" in command
    slurm.command("scontrol", "update", f"JobId={second}", "EndTime=now+2")


def test_a_run_goes_on_with_the_same_options_no_more_often_than_wished_and_never_twice(slurm, jobs, watcher, calls):
    first = jobs.began("goes-on")[0][0]
    second = wait_resubmitted(slurm, first)
    assert jobs.wait_began("goes-on", 2) == [second, "1", "--two"]
    assert_same(jobs, first, second)
    assert jobs.show(second)["TimeLimit"] == "00:07:00"
    assert jobs.show(second)["StdOut"] == str(jobs.path("goes-on", f"out-{second}"))
    assert jobs.path("goes-on", f"out-{second}").stat().st_mode & 0o777 == 0o640
    assert slurm.read_job(second, "%k").startswith("some words -t 3 ckptd-resubmit=1.")
    jobs.end("goes-on", second, 2)
    for last in (second, jobs.began("stuck")[-1][0]):
        slurm.wait_for("the limit", lambda job=last: slurm.read_job(job, "%T") == "TIMEOUT", seconds=90)
        slurm.wait_for("the end to be on record", lambda job=last: has_ended(watcher, job))
    until = datetime.now(UTC) + 2 * ACT_INTERVAL
    slurm.wait_for("time to act", lambda: datetime.fromisoformat(watcher.read("jobs")["polled_at"]) > until)
    acts = read_acts(slurm, "resubmit-job")
    submitted = (calls / "submitted").read_text().split()
    assert sorted(submitted) == sorted(outcome.rpartition(" ")[2] for _, outcome, _ in acts)
    assert len(acts) == len({target for target, _, _ in acts}) == 3
    assert {"goes-on": len(jobs.began("goes-on")), "stuck": len(jobs.began("stuck"))} == {"goes-on": 2, "stuck": 2}
    check_told(watcher, first, second, jobs.began("stuck")[-1][0])


def test_a_job_that_was_held_and_mended_and_let_go_on_is_not_held_again(slurm, jobs, watcher):
    job, held = str(jobs["looping"]), len(read_acts(slurm, "hold-job"))
    slurm.wait_for("the job to run", lambda: slurm.read_job(job, "%T") == "RUNNING", seconds=180)
    until = datetime.now(UTC) + 3 * ACT_INTERVAL
    slurm.wait_for("time to act", lambda: datetime.fromisoformat(watcher.read("jobs")["polled_at"]) > until)
    assert slurm.read_job(job, "%T") == "RUNNING"
    assert len(read_acts(slurm, "hold-job")) == held


def check_told(watcher, first, second, stuck):
    """Compare what users hear of jobs that went on or do not."""
    flags = watcher.read("flags", "--all")["flags"]
    told = {(each["rule"], str(each["job_id"])): each["evidence"] for each in flags if "resubmitted" in each["rule"]}
    on = told["resubmitted", second]
    assert (str(on["ended_job"]), on["newest_good"][-18:], on["has_submit_line"]) == (first, "step_1.safetensors", True)
    assert "the maximum that max_resubmits allows" in told["not-resubmitted", second]["reason"]
    assert "saved no checkpoint with more progress" in told["not-resubmitted", stuck]["reason"]
    assert not {first for rule, job in told if rule == "not-resubmitted" and job == first}


def has_ended(watcher, job_id):
    attempts = watcher.read("show", job_id)["runs"][0]["attempts"]
    return any(str(each["job_id"]) == job_id and each["is_loss_final"] for each in attempts)
