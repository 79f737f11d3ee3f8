"""Scans wait where a file system has a budget, and nowhere else."""

from dataclasses import replace

import pytest

from ckptd.core.discovery.file_system_budgets import FileSystemBudget
from ckptd.steps import scan
from ckptd.steps.file_system_turns import FileSystemTurns
from steps.replayed_fleet import minute
from support.checkpoint_bytes import torch_state

RATE = 100


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


def test_what_was_read_beyond_the_budget_is_waited_for():
    clock = Clock()
    turns = FileSystemTurns(clock)
    budgets = (FileSystemBudget(path="/scratch", entries_per_second=RATE),)
    assert not turns.must_wait(budgets, "/scratch/a")
    turns.charge(budgets, "/scratch/a", 5 * RATE)
    turns.charge(budgets, "/home/a", 5 * RATE)
    clock.seconds += 4.9
    assert turns.must_wait(budgets, "/scratch/b")
    assert not turns.must_wait(budgets, "/home/a")
    clock.seconds += 0.2
    assert not turns.must_wait(budgets, "/scratch/b")


def test_one_scan_owes_no_more_than_a_scan_can_read():
    clock = Clock()
    turns = FileSystemTurns(clock)
    budgets = (FileSystemBudget(path="/scratch", entries_per_second=RATE, most_entries=RATE),)
    turns.charge(budgets, "/scratch/a", 10**18)
    clock.seconds += 1.1
    assert not turns.must_wait(budgets, "/scratch/a")


def test_so_many_owners_are_scanned_at_once():
    turns = FileSystemTurns(Clock())
    budgets = (FileSystemBudget(path="/scratch", parallel=2),)
    first, second = (turns.begin(budgets, [f"/scratch/{name}", "/home/x"]) for name in "ab")
    assert first == second == {"/scratch"}
    assert turns.must_wait(budgets, "/scratch/c")
    assert turns.begin(budgets, ["/scratch/c"]) == frozenset()
    turns.end(first)
    assert not turns.must_wait(budgets, "/scratch/c")


def begin_jobs(fleet, *names):
    for name in names:
        fleet.save(f"{name}/epoch_1.pt", 10, torch_state(1))
    jobs = [fleet.job(number, comment=f"ckpt={name}") for number, name in enumerate(names, 1)]
    fleet.run(20, *jobs)


def count_scans(fleet, minutes):
    return scan.scan_due(fleet.parts, fleet.state, minute(minutes))


def test_directories_of_a_file_system_that_owes_stay_due_and_others_are_scanned(fleet):
    begin_jobs(fleet, "slow/a", "slow/b", "fast/c")
    clock = Clock()
    fleet.state.slices[FileSystemTurns] = FileSystemTurns(clock)
    budget = FileSystemBudget(path=f"{fleet.work_dir}/slow", entries_per_second=1)
    fleet.parts = replace(fleet.parts, budgets=(budget,))
    assert count_scans(fleet, 40) == 3  # of the slow ones, one entry each
    assert count_scans(fleet, 60) == 1
    clock.seconds += 2.1
    assert count_scans(fleet, 60.5) == 2
    assert count_scans(fleet, 80) == 1


def test_a_search_waits_too_and_is_charged(fleet):
    clock = Clock()
    fleet.state.slices[FileSystemTurns] = turns = FileSystemTurns(clock)
    budgets = (FileSystemBudget(path=str(fleet.work_dir), entries_per_second=1),)
    fleet.parts = replace(fleet.parts, budgets=budgets)
    turns.charge(budgets, str(fleet.work_dir), 5)
    for name in ("x.log", "y.log", "z.log"):
        fleet.save(name, 10, b"text")
    fleet.run(20, fleet.job(1))
    [waiting] = fleet.state.watchlist.all
    assert waiting.last is None  # nobody searched
    clock.seconds += 5.1
    fleet.run(30, fleet.job(1))
    assert fleet.state.watchlist.all[0].last is not None
    clock.seconds += 2.9
    assert turns.must_wait(budgets, str(fleet.work_dir))
    clock.seconds += 0.2
    assert not turns.must_wait(budgets, str(fleet.work_dir))


def test_places_are_given_back_though_a_scan_fails(fleet, monkeypatch):
    begin_jobs(fleet, "slow/a")
    fleet.parts = replace(fleet.parts, budgets=(FileSystemBudget(path=str(fleet.work_dir), parallel=1),))

    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(scan, "rescan_directories", fail)
    with pytest.raises(RuntimeError):
        count_scans(fleet, 40)
    monkeypatch.undo()
    assert count_scans(fleet, 41) == 1
