"""Several jobs that save into one directory: with names of their own, or overwriting each other's files."""

import pytest

from ckptd.core.model import Severity
from steps.replayed_fleet import minute
from support.checkpoint_bytes import torch_state, torch_weights

NAMED = {"comment": "ckpt=ck"}
ARRAY = {"array_job_id": 10, "comment": "ckpt=ck"}


def findings(fleet):
    found = [flag.finding for flag in fleet.parts.store.flags.list_open("c1")]
    return [each for each in found if each.rule == "concurrent-writers"]


def start_sweep(fleet, **changes):
    jobs = [fleet.job(10 + number, start=number, **{**NAMED, **changes}) for number in range(3)]
    fleet.run(3, *jobs)
    return jobs


@pytest.mark.parametrize(
    "name", ["model_lr0.{}.pt", "lr0.{}/last.pt", "run{}_epoch_{{}}.pt", "model_{}.pt", "fold_{}.pt"]
)
def test_a_sweep_with_names_of_its_own_is_no_trouble_once_that_shows(fleet, name):
    jobs = start_sweep(fleet)
    for epoch in (1, 2, 3):
        for number in range(3):
            at = epoch * 10 + number
            fleet.save("ck/" + name.format(number + 1).format(epoch), at, torch_state(epoch))
        fleet.run(epoch * 10 + 5, *jobs)
    assert findings(fleet) == []


def test_until_then_it_is_a_warning_that_says_when_nothing_needs_to_be_done(fleet):
    jobs = start_sweep(fleet)
    for epoch in (1, 2, 3):
        for number in range(3):
            fleet.save(f"ck/model_lr0.{number + 1}.pt", epoch * 10 + number, torch_weights())
        fleet.run(epoch * 10 + 5, *jobs)
    assert [each.severity for each in findings(fleet)] == [Severity.WARNING] * 3


def test_an_array_is_told_once(fleet):
    tasks = [fleet.job(10 + number, start=number, array_task_id=number, **ARRAY) for number in range(3)]
    fleet.save("ck/model_0.pt", 2, torch_state(1))
    fleet.run(3, *tasks)
    [found] = findings(fleet)
    assert (found.job_id, found.evidence["other_job_count"]) == (10, 2)
    for minutes in (4, 5, 6, 7):  # until its end is sure
        fleet.run(minutes, *tasks[1:])
    assert [each.job_id for each in findings(fleet)] == [11]


COLLISIONS = {
    "one file, in turns": [("last.pt", 5), ("last.pt", 2), ("last.pt", 6), ("last.pt", 3)],
    "a series that goes back": [("epoch_5.pt", 5), ("epoch_2.pt", 2)],
    "a series that is numbered alike": [("epoch_5.pt", 5), ("epoch_5.pt", 5)],
}


@pytest.mark.parametrize("saves", COLLISIONS.values(), ids=COLLISIONS)
def test_jobs_that_overwrite_each_others_checkpoints_are_critical_at_the_next_scan(fleet, saves):
    one, other = fleet.job(1, **NAMED), fleet.job(2, start=1, **NAMED)
    fleet.save("ck/epoch_1.pt", 0.5, torch_state(1))
    fleet.run(2, one, other)
    assert [each.severity for each in findings(fleet)] == [Severity.WARNING] * 2
    for place, (name, epoch) in enumerate(saves, start=1):
        fleet.save(f"ck/{name}", 2 + place, torch_state(epoch))
        fleet.run(2.5 + place, one, other)
    assert [each.severity for each in findings(fleet)] == [Severity.CRITICAL] * 2


def save_in_step(fleet, jobs, *, first=1, last=6, every=10):
    """Let each of the jobs save each epoch under one name, two minutes after the other."""
    for epoch in range(first, last + 1):
        for number in range(len(jobs)):
            fleet.save("ck/last.pt", epoch * every + 2 * number, torch_state(epoch))
            fleet.run(epoch * every + 2 * number + 0.5, *jobs)


def test_jobs_that_began_together_and_overwrite_one_file_in_step_are_critical(fleet):
    jobs = [fleet.job(1, **NAMED), fleet.job(2, **NAMED)]
    save_in_step(fleet, jobs)
    assert [each.severity for each in findings(fleet)] == [Severity.CRITICAL] * 2


def test_a_job_that_joins_another_in_step_is_critical_wherever_they_were_found(fleet):
    one = fleet.job(1)
    save_in_step(fleet, [one], last=3)
    save_in_step(fleet, [one, fleet.job(2, start=31, comment="ckpt=ck", name="other")], first=4, last=9)
    assert [each.severity for each in findings(fleet)] == [Severity.CRITICAL] * 2


def test_a_job_that_saves_each_epoch_twice_beside_one_that_reads_is_no_more_than_a_warning(fleet):
    jobs = [fleet.job(1, **NAMED), fleet.job(2, name="evaluate", **NAMED)]
    save_in_step(fleet, jobs)
    assert [each.severity for each in findings(fleet)] == [Severity.WARNING] * 2


def test_a_job_that_always_saves_twice_does_not_collide_when_another_starts(fleet):
    one = fleet.job(1, **NAMED)
    for epoch in range(1, 10):
        jobs = [one] if epoch < 4 else [one, fleet.job(2, start=31, **NAMED)]
        for part in (0, 2):
            fleet.save("ck/last.pt", epoch * 10 + part, torch_state(epoch))
            fleet.run(epoch * 10 + part + 0.5, *jobs)
    assert [each.severity for each in findings(fleet)] == [Severity.WARNING] * 2


def test_a_task_of_a_sweep_that_starts_over_is_no_collision(fleet):
    jobs = start_sweep(fleet)
    for epoch in (1, 2, 3):
        for number in range(3):
            fleet.save(f"ck/model_{'abc'[number]}.pt", epoch * 10 + number, torch_state(epoch))
        fleet.run(epoch * 10 + 5, *jobs)
    again = fleet.job(10, start=41, restart_count=1, submitted_at=minute(40), **NAMED)
    fleet.run(42, again, *jobs[1:])
    fleet.save("ck/model_a.pt", 50, torch_state(1))
    fleet.run(51, again, *jobs[1:])
    assert findings(fleet) == []


@pytest.mark.parametrize("name", ["model_{}.pt", "model-{}.pth", "checkpoint_{}.pt", "best_model_{}.pt", "task{}.pt"])
def test_the_number_of_a_task_is_no_progress(fleet, name):
    """Its weights alone tell nothing of progress, and tasks save in any order."""
    tasks = [fleet.job(10 + number, start=number, array_task_id=number, **ARRAY) for number in range(5)]
    fleet.save("ck/" + name.format(0), 4, torch_weights())
    fleet.run(5, *tasks)
    for turn, order in enumerate(([3, 1, 4, 0, 2], [2, 0, 1, 4, 3], [4, 3, 2, 1, 0]), start=1):
        for place, number in enumerate(order):
            fleet.save("ck/" + name.format(number), turn * 10 + place, torch_weights(turn / 10))
        fleet.run(turn * 10 + 6, *tasks)
        assert [each.severity for each in findings(fleet)] == [Severity.WARNING]


def test_numbers_that_outrun_the_jobs_are_progress(fleet):
    one, other = fleet.job(1, **NAMED), fleet.job(2, start=1, **NAMED)
    fleet.save("ck/model_1.pt", 0.5, torch_weights())
    fleet.run(2, one, other)
    for place, number in enumerate((7, 3, 8, 4), start=1):
        fleet.save(f"ck/model_{number}.pt", 2 + place, torch_weights())
        fleet.run(2.5 + place, one, other)
    assert [each.severity for each in findings(fleet)] == [Severity.CRITICAL] * 2


def test_an_evaluation_in_the_directory_of_a_training_is_not_overdue_when_that_has_ended(fleet):
    train = fleet.job(1, **NAMED)
    for epoch in range(1, 7):
        fleet.save(f"ck/epoch_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, train)
    evaluation = fleet.job(2, start=62, name="evaluate", **NAMED)
    for minutes in range(63, 150, 9):
        assert fleet.run(minutes, evaluation) == []
    again = fleet.job(3, start=150, **NAMED)
    for minutes in range(151, 220, 9):
        fleet.run(minutes, again)
    assert fleet.flags() == [("checkpoint-overdue", 3)]
