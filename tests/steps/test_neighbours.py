"""Jobs of one user in one working directory, each with its own checkpoint directory: whose saves are whose."""

from ckptd.core.model import JobState
from steps.replayed_fleet import minute


def places(fleet, minutes):
    """The name of each job's directory, so far as it is known."""
    rows = fleet.parts.store.jobs.list_open(minute(minutes))
    return {row.key.job_id: row.directory and row.directory.rpartition("/")[2] for row in rows}


def test_a_job_does_not_take_over_what_another_saved_while_both_ran(fleet):
    first, second = fleet.job(1, name="train"), fleet.job(2, name="evaluate", start=10)
    fleet.run(1, first)
    fleet.save("a/step_5.safetensors", 2)
    fleet.run(3, first)
    fleet.run(11, first, second)
    fleet.save("a/step_9.safetensors", 15)
    fleet.run(16, first, second)
    ended = fleet.job(1, name="train", state=JobState.COMPLETED, ends_at=minute(20))
    fleet.run(21, ended, second)
    fleet.run(30, second)
    assert places(fleet, 30) == {2: None}
    fleet.save("b/step_1.safetensors", 31)
    assert fleet.run(32, second) == []
    assert places(fleet, 32) == {2: "b"}


def test_one_script_submitted_twice_may_save_in_two_places(fleet):
    first, second = fleet.job(1), fleet.job(2, start=10)
    fleet.run(1, first)
    fleet.save("a/step_5.safetensors", 9)
    fleet.run(9.5, first)
    fleet.save("a/step_9.safetensors", 12)
    assert fleet.run(13, first, second) == []
    fleet.save("b/step_1.safetensors", 19)
    assert fleet.run(20, first, second) == []
    assert places(fleet, 20) == {1: "a", 2: "b"}


def test_tasks_of_an_array_that_run_at_once_save_in_places_of_their_own(fleet):
    tasks = [fleet.job(n, start=n, array_job_id=1, array_task_id=n) for n in (1, 2, 3)]
    fleet.run(4, *tasks[:2])
    fleet.save("a/step_5.safetensors", 5)
    assert fleet.run(6, *tasks[:2]) == []
    third = fleet.job(3, start=7, array_job_id=1, array_task_id=3)
    assert fleet.run(8, *tasks[:2], third) == []


def test_jobs_that_work_in_directories_of_their_own_are_told_apart_at_once(fleet):
    jobs = [fleet.job(n, work_dir=fleet.work_dir / str(n)) for n in (1, 2)]
    fleet.run(1, *jobs)
    fleet.save("1/a/step_5.safetensors", 2)
    fleet.save("2/b/step_5.safetensors", 2)
    assert fleet.run(3, *jobs) == []
    assert places(fleet, 3) == {1: "a", 2: "b"}


def test_a_job_that_works_below_another_is_told_apart_once_the_other_has_a_directory(fleet):
    outer, inner = fleet.job(1, name="sweep"), fleet.job(2, work_dir=fleet.work_dir / "inner")
    fleet.run(1, outer, inner)
    fleet.save("inner/b/step_5.safetensors", 2)
    fleet.run(3, outer, inner)
    assert places(fleet, 3) == {1: None, 2: None}
    fleet.save("a/step_5.safetensors", 4)
    fleet.run(5, outer, inner)
    fleet.run(9, outer, inner)  # a search in doubt is repeated after a pause
    assert places(fleet, 9) == {1: "a", 2: "b"}
