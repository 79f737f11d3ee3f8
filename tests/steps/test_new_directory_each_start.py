"""Jobs that save into a new directory each time they start: `version_1` of Lightning's loggers, dated directories."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.model import Severity
from ckptd.steps.search_again import SearchSlice
from ckptd.steps.snapshots import RunHistories
from steps.replayed_fleet import minute
from support.checkpoint_bytes import lightning_state, npz, torch_state, torch_weights


def row_of(fleet, job_id=1):
    return next(row for row in fleet.parts.store.jobs.list_open(minute(170)) if row.key.job_id == job_id)


def read(fleet, job_id=1):
    [run] = fleet.parts.store.runs.find_of_job(job_id)
    [history] = fleet.parts.store.histories.read("c1", [run])
    return history


def save_epoch(fleet, version, epoch, minutes):
    name = f"version_{version}/checkpoints/epoch={epoch}-step={epoch * 100}.ckpt"
    fleet.save(name, minutes, lightning_state(epoch, epoch * 100))


def run_first(fleet, *, every=10, epochs=3):
    """Run the first attempt: an epoch each ten minutes in version_0."""
    job = fleet.job()
    fleet.run(1, job)
    for epoch in range(1, epochs + 1):
        save_epoch(fleet, 0, epoch, epoch * every)
        fleet.run(epoch * every + 1, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/version_0/checkpoints"
    return fleet.job(start=41, restart_count=1, submitted_at=minute(40))


def test_a_job_that_goes_on_in_a_new_directory_is_watched_there(fleet):
    again = run_first(fleet)
    assert fleet.run(42, again) == []
    for epoch, at in ((4, 51), (5, 61), (6, 71)):
        save_epoch(fleet, 1, epoch, at)
        assert fleet.run(at + 1, again) == []
    row = row_of(fleet)
    assert (row.directory, row.epoch) == (f"{fleet.work_dir}/version_1/checkpoints", 6)
    history = read(fleet)
    assert [each.restart_count for each in history.attempts] == [0, 1]
    resume = history.attempts[1].resumed_from
    assert resume.path == f"{fleet.work_dir}/version_0/checkpoints/epoch=3-step=300.ckpt"
    assert fleet.run(150, again) == [("checkpoint-overdue", 1)]


def test_a_job_that_starts_over_in_a_new_directory_is_critical(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    for epoch, at in ((1, 51), (2, 61)):
        save_epoch(fleet, 1, epoch, at)
        found = fleet.run(at + 1, again)
    assert found == [("not-resuming", 1)]
    [flag] = fleet.parts.store.flags.list_open("c1")
    assert flag.finding.severity is Severity.CRITICAL
    assert flag.finding.evidence["should_resume_from"].endswith("version_0/checkpoints/epoch=3-step=300.ckpt")
    history = read(fleet)
    assert history.attempts[1].resumed_from.is_fresh
    assert [each.directory for each in history.earlier] == [f"{fleet.work_dir}/version_0/checkpoints"]
    [line] = fleet.parts.store.lost_work.list_lines(history.key)
    assert line.redone.low >= minute(29) - minute(0)


def test_a_clock_that_was_ahead_at_the_last_search_keeps_nobody_from_searching(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    searched_at = fleet.state.own(SearchSlice, SearchSlice).searched_at
    searched_at.update({each.key: minute(42 + 600) for each in fleet.state.watchlist.all})
    for epoch, at in ((4, 51), (5, 61), (6, 71)):
        save_epoch(fleet, 1, epoch, at)
        fleet.run(at + 1, again)
    assert row_of(fleet).directory == f"{fleet.work_dir}/version_1/checkpoints"


def test_a_checkpoint_of_an_earlier_directory_below_the_present_one_counts_once(fleet):
    job = fleet.job()
    fleet.run(1, job)
    for epoch in (1, 2, 3):
        fleet.save(f"old/epoch={epoch}-step={epoch * 100}.ckpt", epoch * 10, lightning_state(epoch, epoch * 100))
        fleet.run(epoch * 10 + 1, job)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40))
    fleet.run(42, again)
    for epoch, at in ((4, 51), (5, 61), (6, 71)):
        fleet.save(f"epoch={epoch}-step={epoch * 100}.ckpt", at, lightning_state(epoch, epoch * 100))
        fleet.run(at + 1, again)
    fleet.run(80, again)
    assert row_of(fleet).directory == str(fleet.work_dir)
    [history] = fleet.state.latest(RunHistories).by_run.values()
    assert [each.directory for each in history.earlier] == [f"{fleet.work_dir}/old"]
    assert sorted(each.checkpoint.epoch for each in history.checkpoints) == [1, 2, 3, 4, 5, 6]
    writers = {each.checkpoint.epoch: each.attempt and each.attempt[1] for each in history.checkpoints}
    assert writers == {1: None, 2: 0, 3: 0, 4: None, 5: 1, 6: 1}


def test_each_save_of_the_earlier_directories_counts_once_however_often_the_run_is_evaluated(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    for epoch, at in ((1, 51), (2, 61)):
        save_epoch(fleet, 1, epoch, at)
        fleet.run(at + 1, again)
    for at in (100, 110, 120, 150):  # nothing is saved any more
        fleet.run(at, again)
        [known] = fleet.state.latest(RunHistories).by_run.values()
        steps = [each.checkpoint.step for each in known.checkpoints]
        assert (sorted(steps), len(known.earlier)) == ([100, 100, 200, 200, 300], 1)


def test_every_further_start_moves_on_and_the_earlier_directories_stay_known(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    save_epoch(fleet, 1, 1, 51)
    fleet.run(58, again)
    third = fleet.job(start=61, restart_count=2, submitted_at=minute(60))
    fleet.run(62, third)
    save_epoch(fleet, 2, 1, 71)
    fleet.run(78, third)
    history = read(fleet)
    assert history.key.directory.endswith("version_2/checkpoints")
    assert [each.directory.split("/")[-2] for each in history.earlier] == ["version_1", "version_0"]
    assert fleet.flags() == [("not-resuming", 1)]
    assert [each.restart_count for each in history.attempts] == [0, 1, 2]


def test_a_job_that_returns_to_its_first_directory_is_watched_there_again(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    save_epoch(fleet, 1, 4, 51)
    fleet.run(58, again)
    third = fleet.job(start=61, restart_count=2, submitted_at=minute(60))
    fleet.run(62, third)
    for epoch, at in ((5, 71), (6, 81)):
        save_epoch(fleet, 0, epoch, at)
        fleet.run(at + 2, third)
    history = read(fleet)
    assert history.key.directory.endswith("version_0/checkpoints")
    assert [each.directory.split("/")[-2] for each in history.earlier] == ["version_1"]
    assert fleet.flags() == []


def test_dated_directories_are_followed(fleet):
    job = fleet.job()
    fleet.run(1, job)
    for epoch in (1, 2, 3):
        fleet.save(f"runs/2026-11-23_10-00-00/ckpt_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40))
    fleet.run(42, again)
    for epoch, at in ((1, 51), (2, 61)):
        fleet.save(f"runs/2026-11-23_10-41-00/ckpt_{epoch}.pt", at, torch_state(epoch))
        found = fleet.run(at + 1, again)
    assert found == [("not-resuming", 1)]


def test_what_is_written_beside_the_states_moves_nothing(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    fleet.save("samples/sample_000400.npz", 45, npz(samples=[1.0]))
    fleet.save("export/model_4.pt", 46, torch_weights())
    for at in (53, 59, 65):
        fleet.run(at, again)
    assert row_of(fleet).directory == f"{fleet.work_dir}/version_0/checkpoints"


@pytest.mark.parametrize("name", ["train", "other"])
def test_another_jobs_new_directory_is_not_taken(fleet, name):
    again = run_first(fleet)
    other = fleet.job(2, start=43, name=name)
    fleet.run(44, again, other)
    save_epoch(fleet, 1, 1, 51)
    for at in (53, 59, 65):
        fleet.run(at, again, other)
    assert row_of(fleet).directory == f"{fleet.work_dir}/version_0/checkpoints"
    assert ("not-resuming", 1) not in fleet.flags()


def test_a_declared_directory_is_never_left(fleet):
    job = fleet.job(comment="ckpt=ck")
    for epoch in (1, 2, 3):
        fleet.save(f"ck/ckpt_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.run(epoch * 10 + 1, job)
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40), comment="ckpt=ck")
    fleet.run(42, again)
    fleet.save("elsewhere/ckpt_1.pt", 51, torch_state(1))
    for at in (53, 59, 65):
        fleet.run(at, again)
    assert row_of(fleet).directory == f"{fleet.work_dir}/ck"


def test_nothing_is_said_of_the_earlier_directory_as_of_a_copy(fleet):
    again = run_first(fleet)
    fleet.run(42, again)
    for epoch, at in ((4, 51), (5, 61), (6, 71), (7, 81)):
        save_epoch(fleet, 1, epoch, at)
        fleet.run(at + 1, again)
    assert read(fleet).copies == ()
    fleet.parts = replace(fleet.parts, scan_interval=minute(5) - minute(0))
    assert fleet.run(83, again) == []


def test_what_the_first_start_saved_in_the_second_directory_is_not_lost(fleet):
    """A training of two phases moves on to the second by itself, and goes on there after a restart."""
    job = fleet.job()
    fleet.run(1, job)
    for phase, epoch, at in (("pre", 1, 8), ("pre", 2, 16), ("ft", 3, 24), ("ft", 4, 32)):
        fleet.save(f"{phase}/epoch_{epoch}.pt", at, torch_state(epoch))
        fleet.run(at + 1, job)
    assert row_of(fleet).directory == f"{fleet.work_dir}/ft"
    again = fleet.job(start=41, restart_count=1, submitted_at=minute(40))
    fleet.run(42, again)
    for epoch, at in ((5, 50), (6, 58), (7, 66)):
        fleet.save(f"ft/epoch_{epoch}.pt", at, torch_state(epoch))
        fleet.run(at + 1, again)
    history = read(fleet)
    assert history.key.directory == f"{fleet.work_dir}/ft"
    [line] = fleet.parts.store.lost_work.list_lines(history.key)
    assert line.loss.most <= timedelta(minutes=10)
    assert fleet.flags() == []


def test_a_job_whose_next_fold_saves_elsewhere_is_followed_without_a_restart(fleet):
    job = fleet.job()
    fleet.run(1, job)
    saves = [(fold, epoch, 10 * (3 * fold + epoch)) for fold in (0, 1, 2) for epoch in (1, 2, 3)]
    for fold, epoch, at in saves:
        fleet.save(f"cv/fold_{fold}/epoch_{epoch}.pt", at, torch_state(epoch))
        assert fleet.run(at + 1, job) == []
        assert fleet.run(at + 6, job) == []
    row = row_of(fleet)
    assert (row.directory, row.epoch) == (f"{fleet.work_dir}/cv/fold_2", 3)
    assert [each.directory.split("/")[-1] for each in read(fleet).earlier] == ["fold_1", "fold_0"]


def test_a_job_that_only_saves_nothing_more_stays_where_it_saved(fleet):
    job = fleet.job()
    fleet.run(1, job)
    for epoch, at in ((1, 10), (2, 20), (3, 30), (4, 40), (5, 50)):
        fleet.save(f"ck/epoch_{epoch}.pt", at, torch_state(epoch))
        fleet.run(at + 1, job)
    fleet.save("samples/sample_000400.npz", 60, npz(samples=[1.0]))
    fleet.save("export/model_3.pt", 62, torch_weights())
    for at in (66, 72, 78, 84, 90, 96):
        found = fleet.run(at, job)
    assert found == [("checkpoint-overdue", 1)]
    assert row_of(fleet).directory == f"{fleet.work_dir}/ck"


def test_best_states_beside_the_last_are_one_history(fleet):
    """What is saved for each improvement stops coming; the other directory is saved to all the time."""
    job = fleet.job()
    fleet.run(1, job)
    for epoch in range(1, 16):
        if epoch in {1, 2, 3, 9, 14}:
            fleet.save(f"best/best_{epoch}.pt", epoch * 10, torch_state(epoch))
        fleet.save(f"last/epoch_{epoch}.pt", epoch * 10 + 1, torch_state(epoch))
        assert fleet.run(epoch * 10 + 2, job) == []
    assert row_of(fleet).epoch == 15
