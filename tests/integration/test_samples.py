"""The sample jobs do what each of them is there to show. All run side by side; each test waits for its own."""

import pickle

import numpy as np
import pytest

from demo.samples import Samples

FAST = {"EPOCH_SECONDS": "0.3", "TASK_EPOCHS": "2", "SCRATCH_EPOCHS": "2", "SAVE_EVERY": "2"}
SUBMITTED = {
    "requeue": (),
    "array": ("--array=1-3%1",),
    "manager": (),
    "never-saves": (),
    "starts-over": (),
    "saves-rarely": (),
    "shared-directory": (),
    "scratch": (),
}


class Running:
    """One job of every sample, and what each has printed."""

    def __init__(self, cluster, user):
        self.cluster = cluster
        self.user = user
        self.samples = Samples(cluster)
        self.jobs = {name: self.submit(name, *options) for name, options in SUBMITTED.items()}

    def submit(self, name, *options):
        return self.samples.submit(self.user, name, *options, environment=FAST)

    def path(self, name, *parts):
        return self.samples.work_dir(self.user, name).joinpath(*parts)

    def output(self, name, job=None):
        output = self.path(name, f"slurm-{job or self.jobs[name]}.out")
        return output.read_text() if output.exists() else ""

    def wait_output(self, name, text, count=1):
        self.cluster.wait_for(f"{name} to print {text!r}", lambda: self.output(name).count(text) >= count)

    def read_restarts(self, name):
        shown = self.cluster.command("scontrol", "show", "job", str(self.jobs[name]))
        return int(shown.partition("Restarts=")[2].split()[0])


@pytest.fixture(scope="module")
def running(cluster):
    user = cluster.create_user("samples")
    running = Running(cluster, user)
    for name in ("requeue", "starts-over"):
        running.wait_output(name, "at epoch 2,")
    for name in ("requeue", "starts-over", "never-saves"):
        cluster.command("scontrol", "requeue", str(running.jobs[name]))
    yield running
    cluster.cancel_jobs(user)


def test_array_tasks_continue_one_another(cluster, running):
    cluster.wait_for("the last task", running.path("array", "checkpoints/epoch_6.npz").exists)
    assert "resumed from checkpoints/epoch_4.npz" in running.output("array", f"{running.jobs['array']}_3")
    assert int(np.load(running.path("array", "checkpoints/epoch_6.npz"))["step"]) == 120


def test_the_job_that_saves_rarely_saves_every_few_epochs_only(running):
    running.wait_output("saves-rarely", "at epoch 4,")
    assert "at epoch 3," not in running.output("saves-rarely")


def test_two_jobs_write_into_one_directory(cluster, running):
    second = running.submit("shared-directory")
    cluster.wait_for("the second job to save", lambda: "saved" in running.output("shared-directory", second))
    before = running.output("shared-directory").count("saved checkpoints/")
    running.wait_output("shared-directory", "saved checkpoints/", before + 1)


def test_the_scratch_job_copies_at_its_end_and_cleans_up(cluster, running):
    cluster.wait_for("its end", lambda: cluster.read_job(running.jobs["scratch"], "%T") == "COMPLETED")
    assert "saved checkpoints" not in running.output("scratch")
    assert sorted(path.name for path in running.path("scratch", "results").iterdir()) == ["epoch_1.npz", "epoch_2.npz"]
    assert list(running.samples.scratch.iterdir()) == []


def test_the_manager_keeps_three_and_names_the_newest(cluster, running):
    running.wait_output("manager", "at epoch 5,")
    cluster.command("scancel", str(running.jobs["manager"]))
    cluster.wait_for("its end", lambda: cluster.read_job(running.jobs["manager"], "%T") == "CANCELLED")
    directory = running.path("manager", "output/model")
    saved = sorted(int(path.stem.rpartition("-")[2]) for path in directory.glob("checkpoint-*.safetensors"))
    assert len(saved) in {3, 4}  # it may end between a save and the clearing that follows
    named = {f"checkpoint-{step}.safetensors" for step in saved[-2:]}
    assert (directory / "latest").read_text().strip() in {*named, ""}  # or between its opening and its writing


def test_the_job_that_starts_over_saves_epoch_one_again(running):
    running.wait_output("starts-over", "at epoch 1,", 2)


def test_the_job_that_never_saves_has_nothing_after_a_requeue(cluster, running):
    job = running.jobs["never-saves"]
    cluster.wait_for(
        "its second attempt",
        lambda: running.read_restarts("never-saves") == 1 and cluster.read_job(job, "%T") == "RUNNING",
    )
    assert list(running.path("never-saves", "checkpoints").iterdir()) == []


def test_the_signalled_job_saves_requeues_itself_and_resumes(cluster, running):
    running.wait_output("requeue", "resumed from checkpoints/checkpoint at")
    cluster.wait_for("it to run", lambda: cluster.read_job(running.jobs["requeue"], "%T") == "RUNNING")
    cluster.command("scancel", "--batch", "--signal=TERM", str(running.jobs["requeue"]))
    cluster.wait_for("it to requeue itself", lambda: running.read_restarts("requeue") == 2)
    directory = running.path("requeue", "checkpoints")
    assert sorted(path.name for path in directory.iterdir()) == ["best_model.pkl", "checkpoint"]
    saved = pickle.loads((directory / "checkpoint").read_bytes())
    assert saved["epoch"] >= 2
    assert saved["step"] // 20 == saved["epoch"]
