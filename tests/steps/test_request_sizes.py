"""How many directories of one owner are compared in one request, and what becomes of those that it does not reach."""

import os
from dataclasses import replace

import pytest

from ckptd.checkpoints.agent.client import NOT_REACHED
from ckptd.core.discovery.file_system_budgets import FileSystemBudget
from ckptd.core.model import Unknown
from ckptd.steps import record_scans, scan
from steps.replayed_fleet import Fleet, minute
from support.checkpoint_bytes import npz
from support.shared_agent import get_agent

COUNT = 5  # directories


class TurnsOf:
    """The agent, whose requests that only compare end after so many items, if that is said; or that refuses all."""

    def __init__(self):
        self.sizes = []  # of requests that compare
        self.request_count = 0
        self.turn = None
        self.refuses = False

    def run(self, batches):
        self.request_count += len(batches)
        if self.refuses:
            batches = [replace(each, uid=0) for each in batches]  # it does nothing as root
        answers = get_agent().run(batches)
        for place, batch in enumerate(batches):
            if batch.operation == "scan" and batch.items[0]["fingerprint"]:
                self.sizes.append(len(batch.items))
                if self.turn is not None:
                    answers[place][self.turn :] = [NOT_REACHED] * len(answers[place][self.turn :])
        return answers


@pytest.fixture
def agent():
    return TurnsOf()


@pytest.fixture
def fleet(tmp_path, work_dir, agent, monkeypatch):
    made = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    monkeypatch.setattr(scan, "RESCANNED_AT_ONCE", 2)
    monkeypatch.setattr(scan, "COMPARED_AT_ONCE", 4)
    for number in range(COUNT):
        save(made, number, 10)
        os.utime(work_dir / f"ck{number}", (minute(60).timestamp(),) * 2)
    jobs = [made.job(number + 1, comment=f"ckpt=ck{number}") for number in range(COUNT)]
    for minutes in (100, 102):  # found, and then found the same
        made.run(minutes, *jobs)
    agent.sizes.clear()
    made.state.decision_due.clear()
    yield made
    made.parts.store.close()


def save(fleet, number, minutes):
    fleet.save(f"ck{number}/epoch_{minutes}.npz", minutes, npz(weights=[1.0], epoch=[minutes]))


def scan_at(fleet, minutes):
    """Scan what is due; return which directories were scanned with a result."""
    scan.scan_due(fleet.parts, fleet.state, minute(minutes))
    found = [each for each in fleet.state.watchlist.all if each.observed_at == minute(minutes)]
    return sorted(each.key.directory[-1] for each in found)


def test_directories_that_were_unchanged_are_compared_many_at_once(fleet, agent):
    assert scan_at(fleet, 104) == ["0", "1", "2", "3", "4"]
    assert agent.sizes == [4, 1]


def test_searches_of_one_task_are_few_at_once(fleet, monkeypatch):
    asked = []
    monkeypatch.setattr(scan, "MAX_DUE", 2)
    monkeypatch.setattr(scan.search_again, "search_again", lambda _parts, _state, due, _now: asked.append(len(due)))
    assert len(scan_at(fleet, 104)) == COUNT
    assert asked == [2, 2, 1]


def test_where_a_budget_protects_the_disk_a_request_is_small(fleet, agent):
    fleet.parts = replace(fleet.parts, budgets=(FileSystemBudget(path=str(fleet.work_dir), parallel=1),))
    assert len(scan_at(fleet, 104)) == COUNT
    assert agent.sizes == [2, 2, 1]


def test_where_a_budget_protects_the_disk_a_task_is_small_too(fleet, agent, monkeypatch):
    monkeypatch.setattr(scan, "MAX_DUE", 3)
    fleet.parts = replace(fleet.parts, budgets=(FileSystemBudget(path=str(fleet.work_dir), parallel=1),))
    assert len(scan_at(fleet, 104)) == 3
    assert agent.sizes == [2, 1]


def test_those_whose_last_scan_failed_are_in_other_requests(fleet, agent):
    for number in (0, 1, 2):
        (fleet.work_dir / f"ck{number}").chmod(0)
    assert scan_at(fleet, 104) == ["3", "4"]
    agent.sizes.clear()
    assert scan_at(fleet, 106) == ["3", "4"]
    assert agent.sizes == [2]


def test_a_refused_request_is_sent_once_and_not_again_for_each_of_its_directories(fleet, agent):
    agent.refuses = True
    agent.request_count = 0
    assert scan_at(fleet, 104) == []
    lasts = {each.last for each in fleet.state.watchlist.all}
    assert lasts == {Unknown(what="agent", reason="refused: nothing is done as root on behalf of a job")}
    assert agent.request_count == 2  # of four directories, and of one
    assert scan_at(fleet, 104.5) == []
    assert agent.request_count == 2
    agent.refuses = False
    assert scan_at(fleet, 105.1) == ["0", "1", "2", "3", "4"]


def test_those_that_a_turn_did_not_reach_stay_due_and_are_first(fleet, agent):
    agent.turn = 2
    first = scan_at(fleet, 104)
    assert len(first) == 3  # two of four, and one
    assert not fleet.state.decision_due.is_set()
    agent.turn = None
    assert sorted([*first, *scan_at(fleet, 104.1)]) == ["0", "1", "2", "3", "4"]


def test_of_many_that_changed_some_are_read_and_the_others_stay_due(fleet, monkeypatch):
    monkeypatch.setattr(record_scans, "MAX_READ", 2)
    monkeypatch.setattr(scan, "COMPARED_AT_ONCE", COUNT)
    for number in range(COUNT):
        save(fleet, number, 103)
    first = scan_at(fleet, 105)
    assert len(first) == 2
    second = scan_at(fleet, 105.1)
    assert len({*first, *second}) == 4
    assert len({*first, *second, *scan_at(fleet, 105.2)}) == COUNT
