"""The sample jobs do what each of them is there to show."""

import pickle

import numpy as np
import pytest

from demo.samples import Samples

FAST = {"EPOCH_SECONDS": "0.3", "TASK_EPOCHS": "2", "SCRATCH_EPOCHS": "2", "SAVE_EVERY": "2"}


@pytest.fixture(scope="module")
def samples(cluster):
    return Samples(cluster)


@pytest.fixture
def submit(samples, user):
    def submit(name, *options):
        return samples.submit(user, name, *options, environment=FAST), samples.work_dir(user, name)

    return submit


def read_output(work_dir, job):
    output = work_dir / f"slurm-{job}.out"
    return output.read_text() if output.exists() else ""


def requeue_when(cluster, job, what, holds):
    cluster.wait_for(what, holds)
    cluster.command("scontrol", "requeue", str(job))


def test_requeued_and_signalled_jobs_continue_from_their_one_checkpoint(cluster, submit):
    job, work_dir = submit("requeue")
    requeue_when(cluster, job, "two saves", lambda: "at epoch 2," in read_output(work_dir, job))
    cluster.wait_for("it to resume", lambda: "resumed from checkpoints/checkpoint at" in read_output(work_dir, job))
    assert cluster.read_job(job, "%T") == "RUNNING"
    cluster.command("scancel", "--batch", "--signal=TERM", str(job))
    cluster.wait_for(
        "it to requeue itself", lambda: "Restarts=2 " in cluster.command("scontrol", "show", "job", str(job))
    )
    files = sorted(path.name for path in (work_dir / "checkpoints").iterdir())
    assert files == ["best_model.pkl", "checkpoint"]
    saved = pickle.loads((work_dir / "checkpoints/checkpoint").read_bytes())
    assert saved["epoch"] >= 2
    assert saved["step"] // 20 == saved["epoch"]


def test_array_tasks_continue_one_another(cluster, submit):
    job, work_dir = submit("array", "--array=1-3%1")
    cluster.wait_for("the last task", (work_dir / "checkpoints/epoch_6.npz").exists)
    assert "resumed from checkpoints/epoch_4.npz" in read_output(work_dir, f"{job}_3")
    assert int(np.load(work_dir / "checkpoints/epoch_6.npz")["step"]) == 120


def test_the_manager_keeps_three_and_names_the_newest(cluster, submit, user):
    job, work_dir = submit("manager")
    directory = work_dir / "output/model"
    cluster.wait_for("five saves", lambda: "at epoch 5," in read_output(work_dir, job))
    cluster.cancel_jobs(user)
    saved = sorted(int(path.stem.rpartition("-")[2]) for path in directory.glob("checkpoint-*.safetensors"))
    assert len(saved) in {3, 4}  # it may end between a save and the clearing that follows
    assert (directory / "latest").read_text().strip() in {f"checkpoint-{step}.safetensors" for step in saved[-2:]}


def test_the_job_that_never_saves_has_nothing_after_a_requeue(cluster, submit):
    job, work_dir = submit("never-saves")
    requeue_when(cluster, job, "its directory", (work_dir / "checkpoints").exists)
    cluster.wait_for("its second attempt", lambda: cluster.read_job(job, "%T") == "RUNNING")
    assert list((work_dir / "checkpoints").iterdir()) == []


def test_the_job_that_starts_over_saves_epoch_one_again(cluster, submit):
    job, work_dir = submit("starts-over")
    requeue_when(cluster, job, "two saves", lambda: "at epoch 2," in read_output(work_dir, job))
    cluster.wait_for("epoch one again", lambda: read_output(work_dir, job).count("at epoch 1,") == 2)


def test_the_job_that_saves_rarely_saves_every_few_epochs_only(cluster, submit):
    job, work_dir = submit("saves-rarely")
    cluster.wait_for("two saves", lambda: "at epoch 4," in read_output(work_dir, job))
    assert "at epoch 3," not in read_output(work_dir, job)


def test_two_jobs_write_into_one_directory(cluster, submit):
    first, work_dir = submit("shared-directory")
    second, _ = submit("shared-directory")
    for job in (first, second):
        cluster.wait_for(f"job {job} to save", lambda job=job: "saved checkpoints" in read_output(work_dir, job))


def test_the_scratch_job_copies_at_its_end_only_and_cleans_up(cluster, submit, samples):
    job, work_dir = submit("scratch")
    cluster.wait_for("its first save", lambda: "saved" in read_output(work_dir, job))
    assert list((work_dir / "results").iterdir()) == []
    cluster.wait_for("its end", lambda: cluster.read_job(job, "%T") == "COMPLETED")
    assert sorted(path.name for path in (work_dir / "results").iterdir()) == ["epoch_1.npz", "epoch_2.npz"]
    assert list(samples.scratch.iterdir()) == []
