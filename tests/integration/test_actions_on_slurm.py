"""The acts that a site can opt in to, on a real cluster: the whole daemon acts, Slurm and the job answer."""

import json
import os
import sqlite3

import pytest

from demo import ports
from demo.cluster import PrivateCluster
from demo.watcher import Watcher

SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "5s"
[scan]
interval = "1s"
settle_time = "2s"
allowed_roots = ["{homes}"]
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
SAVE = "save() {{ n=$(ls ckpt | wc -l); cp {source} .new; mv .new ckpt/step_$((n + 1)).safetensors; }}\nmkdir -p ckpt\n"
SIGNALLED = "#!/bin/bash\n{save}trap 'save; echo signalled >>said; exit 0' USR1\nsave\nwhile true; do sleep 0.2; done\n"
LOOPING = "#!/bin/bash\nsleep 2\nscontrol requeue $SLURM_JOB_ID\nsleep 30\n"
GOES_ON = "#!/bin/bash\n{save}ls ckpt | wc -l >>began\nsave\nsleep 1000\n"


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
def jobs(slurm, save):
    """All three at once, so that they share the minute that a time limit takes."""
    user = slurm.create_user("u")
    watcher = Watcher(slurm, SETTINGS, port=ports.find_free_ports(1)[0])
    watcher.start()
    made = {}
    for name, script, options in (
        ("signalled", SIGNALLED.format(save=save), ("--time=1", "--comment=ckpt=ckpt ckpt-signal=B:USR1")),
        ("looping", LOOPING, ("--time=10", "--requeue", "--comment=ckpt=ckpt")),
        ("goes-on", GOES_ON.format(save=save), ("--time=1",)),
    ):
        work_dir = user.home / name
        work_dir.mkdir()
        (work_dir / "ckpt").mkdir()
        if name == "goes-on":
            (work_dir / ".ckptd.toml").write_text('directory = "ckpt"\nresubmit = true\nmax_resubmits = 1\n')
        for path in (work_dir, *work_dir.iterdir()):
            os.chown(path, user.uid, user.gid)
        made[name] = slurm.submit(user, script, *options, work_dir=work_dir)
    yield {"user": user, **made}
    slurm.cancel_all()
    watcher.stop()


def read_acts(slurm, action):
    [path] = slurm.directory.glob("ckptd-*/ckptd.sqlite3")
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        statement = "SELECT target, outcome, details FROM audit WHERE action = ? AND outcome IS NOT NULL ORDER BY id"
        return database.execute(statement, (action,)).fetchall()
    finally:
        database.close()


def test_a_loop_is_held_and_told_in_the_admin_comment(slurm, jobs):
    job = str(jobs["looping"])

    def shown():
        return slurm.command("scontrol", "show", "job", job)

    slurm.wait_for("the hold", lambda: read_acts(slurm, "hold-job"), seconds=120)
    slurm.wait_for("the job to be held", lambda: "Reason=JobHeld" in shown() or "held_state" in shown())
    assert "JobState=PENDING" in shown()
    assert "AdminComment=ckptd: restart-loop" in shown()
    assert {target for target, _, _ in read_acts(slurm, "hold-job")} == {f"job {job}"}
    assert read_acts(slurm, "hold-job")[-1][1] == "done"


def test_the_signal_comes_before_the_limit_and_the_job_saves(slurm, jobs):
    job = jobs["signalled"]
    slurm.wait_for("its end", lambda: slurm.read_job(job, "%T") in {"COMPLETED", "TIMEOUT"}, seconds=150)
    assert slurm.read_job(job, "%T") == "COMPLETED"
    work_dir = jobs["user"].home / "signalled"
    assert (work_dir / "said").read_text() == "signalled\n"
    assert len(list((work_dir / "ckpt").iterdir())) == 2
    ((target, outcome, details),) = read_acts(slurm, "signal-job")
    assert (target, outcome, json.loads(details)["word"]) == (f"job {job}", "done", "B:USR1")


def test_a_run_that_its_limit_ended_goes_on_as_its_user(slurm, jobs):
    user, work_dir = jobs["user"], jobs["user"].home / "goes-on"
    slurm.wait_for("the resubmission", lambda: read_acts(slurm, "resubmit-job"), seconds=180)
    ((target, outcome, _),) = read_acts(slurm, "resubmit-job")
    assert target == f"job {jobs['goes-on']}"
    assert outcome.startswith("submitted job ")
    second = outcome.rpartition(" ")[2]
    began = work_dir / "began"
    slurm.wait_for("the new job to begin", lambda: began.read_text().split() == ["0", "1"])
    shown = slurm.command("scontrol", "show", "job", second)
    assert f"UserId={user.name}({user.uid})" in shown
    assert f"WorkDir={work_dir}" in shown
    assert "TimeLimit=00:01:00" in shown
    assert (work_dir / f"slurm-{second}.out").stat().st_mode & 0o777 == 0o644
