"""Tasks of one array whose directories are searched for: which of them may save where another one does."""

import pytest

from ckptd.present import models
from steps.replayed_fleet import minute

FIRST_SAVE = 20  # minutes after the start of the first task


def task(fleet, number, **changes):
    values = {"start": 15.0 * number, "array_job_id": 10, "array_task_id": number}
    return fleet.job(10 + number, **values | changes)


def read_problems(fleet, job_id):
    """Return the directory of a job's run and what `ckptd show` says about it."""
    [run] = fleet.parts.store.runs.find_of_job(job_id)
    [history] = fleet.parts.store.histories.read("c1", [run])
    directory = run.directory if run.is_located else None
    return directory, models.run_view(history, (), minute(0))["scan_problems"]


@pytest.fixture
def begun(fleet):
    """The first task, which saves in `ck`, and a second one that started later in the same working directory."""
    fleet.save("ck/a_step_1.safetensors", FIRST_SAVE)
    jobs = task(fleet, 0), task(fleet, 1)
    fleet.run(21, jobs[0])
    fleet.run(23, *jobs)
    return jobs


def test_a_directory_that_a_task_may_share_is_named_until_it_had_time_to_save_elsewhere(fleet, begun):
    fleet.save("ck/b_step_1.safetensors", 36)
    fleet.run(37, *begun)
    said = f"job 10_0 could have written {fleet.work_dir}/ck, too: name it by --comment=ckpt=PATH"
    assert read_problems(fleet, 11) == (None, [said])
    fleet.run(15 + 2 * FIRST_SAVE + 1, *begun)
    fleet.run(15 + 2 * FIRST_SAVE + 20, *begun)
    assert read_problems(fleet, 11) == (f"{fleet.work_dir}/ck", [])


def test_a_restart_is_not_said_to_have_no_checkpoint_while_its_own_may_be_there(fleet, begun):
    fleet.save("ck/b_step_1.safetensors", 36)
    fleet.run(37, *begun)
    again = task(fleet, 1, start=41, restart_count=1, submitted_at=minute(40))
    assert fleet.run(45, begun[0], again) == [("checkpoints-not-located", 11)]


def test_a_restart_has_no_checkpoint_where_nothing_was_written_since_its_first_start(fleet, begun):
    fleet.run(37, begun[0])
    late = task(fleet, 2)
    fleet.run(38, begun[0], late)
    again = task(fleet, 2, start=43, restart_count=1, submitted_at=minute(42))
    assert fleet.run(45, begun[0], again) == [("restarted-without-checkpoint", 12)]


def test_a_task_is_given_none_of_several_directories_that_others_save_in(fleet):
    jobs = [task(fleet, number) for number in range(3)]
    fleet.save("a/step_1.safetensors", 5)
    fleet.run(6, jobs[0])
    fleet.save("b/step_1.safetensors", 20)
    fleet.run(21, *jobs[:2])
    for minutes in range(30, 130, 9):
        fleet.save(f"a/step_{minutes}.safetensors", minutes)
        fleet.save(f"b/step_{minutes}.safetensors", minutes + 1)
        fleet.run(minutes + 2, *jobs)
    assert [read_problems(fleet, job_id)[0] for job_id in (10, 11)] == [f"{fleet.work_dir}/{name}" for name in "ab"]
    directory, [said] = read_problems(fleet, 12)
    assert (directory, said[:33]) == (None, "no existing directory is named, a")
    assert ("no-checkpoint-yet", 12) in fleet.flags()
