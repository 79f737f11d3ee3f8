"""Jobs that never meant to checkpoint are left in peace, and an array is flagged once."""

from datetime import timedelta

import pytest

from ckptd.core.model import JobState
from steps.replayed_fleet import minute
from support.checkpoint_bytes import npz, torch_tensors, torch_weights


def test_jobs_that_never_meant_to_checkpoint_are_not_warned_of(fleet):
    notebooks = [fleet.job(number, name=f"notebook-{number}", work_dir=place(fleet, f"n{number}")) for number in (1, 2)]
    tasks = [
        fleet.job(number, name="sweep", array_job_id=10, array_task_id=number, work_dir=place(fleet, "sweep"))
        for number in range(10, 24)
    ]
    fleet.run(1, *notebooks, *tasks)
    for number in range(10, 24):
        fleet.save(f"sweep/result_{number}.csv", 5, b"1,2\n")
        fleet.save(f"sweep/slurm-10_{number}.out", 50, b"done\n")
    fleet.save("n1/figure.png", 5, b"\x89PNG")
    for minutes in (70, 130, 500):
        assert fleet.run(minutes, *notebooks, *tasks) == []


def place(fleet, name):
    directory = fleet.work_dir / name
    directory.mkdir(exist_ok=True)
    return directory


def make_tasks(fleet, numbers):
    return [fleet.job(number, array_job_id=10, array_task_id=number, comment=f"ckpt=ck/{number}") for number in numbers]


def test_an_array_whose_tasks_save_nothing_is_flagged_once(fleet):
    tasks = make_tasks(fleet, range(10, 26))
    fleet.run(1, *tasks)
    assert fleet.run(70, *tasks) == [("no-checkpoint-yet", 10)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.evidence["other_tasks"] == 15
    assert fleet.run(75, *tasks[::-1]) == [("no-checkpoint-yet", 10)]
    assert [each.flag_id for each in fleet.parts.store.flags.list_open("c1")] == [flag.flag_id]


def test_the_flag_of_an_array_passes_to_another_task_when_its_own_has_ended(fleet):
    tasks = make_tasks(fleet, range(10, 13))
    fleet.run(1, *tasks)
    fleet.run(70, *tasks)
    ended = fleet.job(
        10, array_job_id=10, array_task_id=10, comment="ckpt=ck/10", state=JobState.COMPLETED, ends_at=minute(71)
    )
    assert fleet.run(72, ended, *tasks[1:]) == [("no-checkpoint-yet", 11)]
    assert fleet.run(74, *tasks[1:]) == [("no-checkpoint-yet", 11)]


@pytest.mark.parametrize("has_saved", [True, False])
def test_a_job_whose_like_saved_checkpoints_is_expected_to(fleet, has_saved):
    fleet.run(1, fleet.job())
    if has_saved:
        fleet.save("ck/epoch_1.npz", 5, npz(weights=[1.0]))
    fleet.run(10)
    fleet.run(20, fleet.job(state=JobState.COMPLETED, ends_at=minute(19)))
    later = fleet.job(2, start=30)
    fleet.run(31, later)
    assert fleet.run(100, later) == ([("no-checkpoint-yet", 2)] if has_saved else [])


@pytest.mark.parametrize("name", ["bash", "wrap", "interactive"])
def test_a_job_with_a_name_that_any_job_has_is_not_expected_to_save_because_another_did(fleet, name):
    fleet.run(1, fleet.job(name=name))
    fleet.save("ck/epoch_1.npz", 5, npz(weights=[1.0]))
    fleet.run(10)
    fleet.run(20, fleet.job(name=name, state=JobState.COMPLETED, ends_at=minute(19)))
    later = fleet.job(2, name=name, start=30)
    fleet.run(31, later)
    assert fleet.run(100, later) == []


def test_a_job_of_another_directory_is_not_expected_to_save_because_one_of_its_name_did(fleet):
    fleet.run(1, fleet.job())
    fleet.save("ck/epoch_1.npz", 5, npz(weights=[1.0]))
    fleet.run(10)
    fleet.run(20, fleet.job(state=JobState.COMPLETED, ends_at=minute(19)))
    later = fleet.job(2, start=30, work_dir=place(fleet, "elsewhere"))
    fleet.run(31, later)
    assert fleet.run(100, later) == []


RESULTS = {
    "a notebook writes its model": lambda number: ("model.pt", torch_weights(number / 10)),
    "a notebook writes each model": lambda number: (f"models/model_{number}.pt", torch_weights(number / 10)),
    "a preprocessing writes shards": lambda number: (f"shards/shard_{number}.pt", torch_tensors(number / 10)),
}


@pytest.mark.parametrize("written", RESULTS.values(), ids=RESULTS)
def test_of_results_no_work_is_claimed_to_be_lost_and_no_loss_is_foretold(fleet, written):
    changes = {"time_limit": timedelta(hours=2), "ends_at": minute(120)}
    job = fleet.job(**changes)
    for number in range(1, 12):
        name, content = written(number)
        fleet.save(name, number * 10, content)
        assert fleet.run(number * 10 + 1, job) == []
    ended = fleet.job(state=JobState.TIMEOUT, time_limit=timedelta(hours=2), ends_at=minute(120))
    for minutes in (121, 122, 123):
        fleet.run(minutes, ended)
    [run] = fleet.parts.store.runs.find_of_job(1)
    [history] = fleet.parts.store.histories.read("c1", [run])
    assert history.key.is_located
    [line] = fleet.parts.store.lost_work.list_lines(run)
    assert (line.loss.lost, line.loss.most) == (timedelta(0), timedelta(minutes=10))
