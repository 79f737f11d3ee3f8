"""Finding a job's directory by the strongest evidence, where its script and the site's variables lead."""

import os
from dataclasses import replace

import pytest

from ckptd.core.model import Severity
from ckptd.steps import search_again
from steps.replayed_fleet import UID, minute
from support.checkpoint_bytes import npz, torch_state, torch_weights

# job.sh of https://docs.mila.quebec (examples, good practices, checkpointing), as far as it says anything about files
MILA = """#!/bin/bash
#SBATCH --time=00:15:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@300
set -e
mkdir -p $SLURM_TMPDIR/data
cp /network/datasets/cifar10/cifar-10-python.tar.gz $SLURM_TMPDIR/data/
exec srun uv run python main.py
"""


@pytest.fixture
def scratch(fleet):
    """The user's own directory on another file system, outside the job's working directory."""
    directory = fleet.work_dir.parent / "scratch"
    directory.mkdir()
    os.chown(directory, UID, UID)
    fleet.source.read_batch_script = lambda _: MILA
    fleet.parts = replace(fleet.parts, reads_batch_scripts=True)
    return directory


def save_outside(fleet, path, minutes, content):
    made = [path.parent, path.parent.parent, path.parent.parent.parent]
    fleet.save(path, minutes, content)
    for directory in made:
        os.chown(directory, UID, UID)


def row_of(fleet, job_id=1):
    return next(row for row in fleet.parts.store.jobs.list_open(minute(90)) if row.key.job_id == job_id)


def test_the_example_of_milas_documentation_is_found_where_the_site_says_what_scratch_is(fleet, scratch):
    fleet.parts = replace(fleet.parts, site_variables={"SCRATCH": str(scratch)})
    job = fleet.job(4711)
    fleet.run(1, job)
    directory = scratch / "checkpointing_example/4711/checkpoints"
    for epoch in range(1, 4):
        save_outside(fleet, directory / "checkpoint.pth", epoch * 8, torch_state(epoch))
        fleet.run(epoch * 8 + 2, job)
    again = fleet.job(4711, start=31, restart_count=1, submitted_at=minute(30))
    assert fleet.run(33, again) == []
    assert (row_of(fleet, 4711).directory, row_of(fleet, 4711).located_by) == (str(directory), "discovery")
    save_outside(fleet, directory / "checkpoint.pth", 40, torch_state(4))
    assert fleet.run(42, again) == []


def test_the_same_example_is_no_fact_of_lost_work_where_nobody_says_what_scratch_is(fleet, scratch):
    fleet.run(1, fleet.job(4711))
    save_outside(fleet, scratch / "checkpointing_example/4711/checkpoints/checkpoint.pth", 8, torch_state(1))
    again = fleet.job(4711, start=31, restart_count=1, submitted_at=minute(30))
    assert fleet.run(33, again) == [("restarted-without-checkpoint", 4711)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.severity is Severity.WARNING
    assert flag.finding.evidence["searched"] == str(fleet.work_dir)


@pytest.mark.parametrize("is_given", [True, False])
def test_a_variable_in_the_batch_script_leads_to_the_directory_or_leaves_the_restart_unjudged(fleet, scratch, is_given):
    fleet.source.read_batch_script = lambda _: "#!/bin/bash\npython train.py --checkpoint-dir $SCRATCH/run7/ck\n"
    if is_given:
        fleet.parts = replace(fleet.parts, site_variables={"SCRATCH": str(scratch)})
    fleet.run(1, fleet.job())
    save_outside(fleet, scratch / "run7/ck/last.pt", 8, torch_state(1))
    fleet.run(10)
    again = fleet.job(start=31, restart_count=1, submitted_at=minute(30))
    found = fleet.run(33, again)
    if is_given:
        assert found == []
        assert (row_of(fleet).directory, row_of(fleet).located_by) == (f"{scratch}/run7/ck", "batch-script")
    else:
        assert found == [("checkpoints-not-located", 1)]
        [flag] = fleet.parts.store.flags.list_open("c1")
        assert "the batch script names $SCRATCH/run7/ck" in flag.finding.evidence["reason"]


def test_a_restart_that_really_has_nothing_is_never_silent(fleet, scratch):
    fleet.parts = replace(fleet.parts, site_variables={"SCRATCH": str(scratch)})
    fleet.run(1, fleet.job())
    again = fleet.job(start=31, restart_count=1, submitted_at=minute(30))
    assert fleet.run(33, again) == [("restarted-without-checkpoint", 1)]


def test_no_other_jobs_directory_is_taken_for_one_that_is_named_for_the_job(fleet, scratch):
    fleet.parts = replace(fleet.parts, site_variables={"SCRATCH": str(scratch)})
    save_outside(fleet, scratch / "runs/14711/checkpoint.pth", 8, torch_state(1))
    save_outside(fleet, scratch / "runs/47110/checkpoint.pth", 8, torch_state(1))
    fleet.run(10, fleet.job(4711))
    assert row_of(fleet, 4711).directory is None


def sample():
    return npz(samples=[1.0, 2.0])


def test_states_are_watched_and_not_the_samples_that_are_written_more_often(fleet):
    job = fleet.job()
    for number in range(1, 20):
        fleet.save(f"samples/sample_{number:06}.npz", number, sample())
        if number % 5 == 0:
            fleet.save(f"ckpt/epoch_{number // 5}.pt", number, torch_state(number // 5))
    fleet.run(21, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/ckpt"
    again = fleet.job(start=31, restart_count=1, submitted_at=minute(30))
    fleet.save("samples/sample_000001.npz", 33, sample())
    assert fleet.run(34, again) == []


def test_samples_that_came_first_give_way_when_a_state_is_saved(fleet):
    job = fleet.job()
    fleet.save("samples/sample_000001.npz", 2, sample())
    fleet.run(3, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/samples"
    fleet.save("ckpt/epoch_1.pt", 9, torch_state(1))
    fleet.save("samples/sample_000002.npz", 10, sample())
    for minutes in (11, 17, 23):
        assert fleet.run(minutes, job) == []
    assert (row_of(fleet).directory, row_of(fleet).located_by) == (f"{fleet.work_dir}/ckpt", "discovery")


@pytest.mark.parametrize("before", ["comment", "discovery"])
def test_the_location_that_a_job_declares_wins_when_it_changes(fleet, before):
    comment = "ckpt=old" if before == "comment" else ""
    fleet.save("old/epoch_1.pt", 2, torch_state(1))
    fleet.run(3, fleet.job(comment=comment))
    assert row_of(fleet).directory == f"{fleet.work_dir}/old"
    fleet.save("new/epoch_2.pt", 4, torch_state(2))
    moved = fleet.job(comment="ckpt=new")
    for minutes in (5, 7):
        fleet.run(minutes, moved)
    assert (row_of(fleet).directory, row_of(fleet).located_by) == (f"{fleet.work_dir}/new", "comment")


def test_a_declared_location_that_does_not_exist_yet_leaves_the_known_one(fleet):
    fleet.save("old/epoch_1.pt", 2, torch_state(1))
    fleet.run(3, fleet.job(comment="ckpt=old"))
    fleet.run(5, fleet.job(comment="ckpt=new"))
    assert row_of(fleet).directory == f"{fleet.work_dir}/old"
    fleet.save("new/epoch_2.pt", 8, torch_state(2))
    for minutes in (12, 18):
        fleet.run(minutes)
    assert row_of(fleet).directory == f"{fleet.work_dir}/new"


def test_a_restart_with_nothing_is_flagged_also_where_a_repository_and_an_environment_lie_beside_the_job(fleet):
    for name in (
        ".git/logs/refs/remotes/origin/topic",
        ".venv/lib/python3.11/site-packages/a/b.py",
        ".venv/pyvenv.cfg",
    ):
        fleet.save(name, -1000, b"x")
    fleet.run(1, fleet.job())
    again = fleet.job(start=31, restart_count=1, submitted_at=minute(30))
    assert fleet.run(33, again) == [("restarted-without-checkpoint", 1)]


@pytest.mark.parametrize(("name", "directory"), [("pretrained/model.pt", None), ("weights/model.pt", "weights")])
def test_a_download_is_no_checkpoint_that_a_restart_could_load(fleet, name, directory):
    fleet.run(1, fleet.job())
    fleet.save(name, 4, torch_weights())
    assert fleet.run(6) == []
    assert fleet.run(58) == []
    assert row_of(fleet).directory == (directory and f"{fleet.work_dir}/{directory}")
    again = fleet.job(start=61, restart_count=1, submitted_at=minute(60))
    assert fleet.run(63, again) == [("restarted-without-checkpoint", 1)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.severity is Severity.WARNING
    fleet.save("runs/last.pt", 70, torch_state(1))
    for minutes in (71, 77, 83):
        fleet.run(minutes, again)
    assert (row_of(fleet).directory, fleet.flags()) == (f"{fleet.work_dir}/runs", [])


def test_a_job_that_saves_no_states_is_searched_for_ever_less_often(fleet, monkeypatch):
    searched = []
    locate = search_again.locate_jobs
    monkeypatch.setattr(
        search_again, "locate_jobs", lambda agent, asked, *rest: searched.extend(asked) or locate(agent, asked, *rest)
    )
    fleet.run(1, fleet.job())
    fleet.save("out/model.pt", 3, torch_weights())
    counts = []
    for minutes in range(5, 121, 5):
        fleet.run(minutes)
        counts.append(len(searched))
    assert row_of(fleet).directory == str(fleet.work_dir / "out")
    assert counts[3] >= 3  # after 20 minutes
    assert counts[-1] <= 12  # after two hours, with 24 scans
    fleet.save("states/last.pt", 121, torch_state(1))
    for minutes in range(125, 156, 5):
        fleet.run(minutes)
    assert row_of(fleet).directory == str(fleet.work_dir / "states")


def test_the_first_state_of_a_job_that_has_run_for_long_is_found_within_half_an_hour(fleet):
    long_ago = -20 * 60
    fleet.save("out/model.pt", -60, torch_weights())
    for minutes in (1, 7):
        fleet.run(minutes, fleet.job(start=long_ago))
    assert row_of(fleet).directory == str(fleet.work_dir / "out")
    fleet.save("states/last.pt", 8, torch_state(1))
    for minutes in range(10, 41, 5):
        fleet.run(minutes)
    assert row_of(fleet).directory == str(fleet.work_dir / "states")


def test_the_next_directory_of_a_job_that_was_silent_for_long_is_found_within_half_an_hour(fleet):
    long_ago = -20 * 60
    fleet.save("fold-1/last.pt", 2 - 19 * 60, torch_state(1))
    for minutes in (1, 7):
        fleet.run(minutes, fleet.job(start=long_ago))
    assert row_of(fleet).directory == str(fleet.work_dir / "fold-1")
    fleet.save("fold-2/last.pt", 8, torch_state(2))
    for minutes in range(10, 41, 5):
        fleet.run(minutes)
    assert row_of(fleet).directory == str(fleet.work_dir / "fold-2")
