"""The directories of one owner are scanned in groups, each while the one before it is recorded."""

import threading
from dataclasses import replace

import pytest

from ckptd.core.discovery.file_system_budgets import FileSystemBudget
from ckptd.core.model.records import RevisionRise, ScanRecord
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.service.scan_watch import ScanWatch
from ckptd.service.step_table import make_runner
from ckptd.steps import compared_scans, scan, scan_groups
from ckptd.steps.scan_groups import MAX_DIRECTORIES
from ckptd.store.recorded_rows import NO_ROWS
from steps.replayed_fleet import Fleet
from support.checkpoint_bytes import torch_state
from support.queue_facts import RUN, make_checkpoint, make_scan, merge
from support.shared_agent import get_agent

PATIENCE_SECONDS = 60


class AnnouncingAgent:
    """The agent, which says which scans have begun."""

    def __init__(self, agent):
        self._agent = agent
        self.has_begun_second = threading.Event()
        self._scan_count = 0

    def run(self, batches):
        self._scan_count += any(batch.operation == "scan" for batch in batches)
        if self._scan_count > 1:
            self.has_begun_second.set()
        return self._agent.run(batches)


def test_a_group_is_scanned_while_the_one_before_it_is_recorded(tmp_path, work_dir, monkeypatch):
    agent = AnnouncingAgent(get_agent())
    fleet = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    count = 2 * MAX_DIRECTORIES + 1
    for number in range(1, count + 1):
        fleet.save(f"ck{number}/epoch_1.pt", 10, torch_state(1))
    store = type(fleet.parts.store.checkpoints)
    record, waited = store.record_scans, []

    def record_late(self, looks):
        waited.append(agent.has_begun_second.wait(PATIENCE_SECONDS))
        return record(self, looks)

    monkeypatch.setattr(store, "record_scans", record_late)
    fleet.run(20, *(fleet.job(number, comment=f"ckpt=ck{number}") for number in range(1, count + 1)))
    assert waited
    assert all(waited)
    with fleet.parts.store.checkpoints.database.reading() as connection:
        found = connection.exec_driver_sql("SELECT count(DISTINCT run_id) FROM checkpoints").scalar_one()
    assert found == count
    fleet.parts.store.close()


def test_large_directories_of_one_request_are_recorded_one_by_one(fleet, monkeypatch):
    monkeypatch.setattr(scan_groups, "MAX_ENTRIES", 3)
    jobs = [fleet.job(number, comment=f"ckpt=ck{number}") for number in (1, 2, 3)]
    for number in (1, 2, 3):
        fleet.save(f"ck{number}/epoch_1.pt", 10, torch_state(1))
    fleet.run(20, *jobs)  # each of them was small
    for number in (1, 2, 3):
        for epoch in (2, 3, 4):
            fleet.save(f"ck{number}/epoch_{epoch}.pt", 10 + epoch, torch_state(epoch))
    store = type(fleet.parts.store.checkpoints)
    record, sizes = store.record_scans, []

    def note(self, records):
        sizes.append([len(each.changes.appeared) for each in records])
        return record(self, records)

    monkeypatch.setattr(store, "record_scans", note)
    fleet.run(40, *jobs)
    assert sizes == [[3], [3], [3]]


class WaitingAgent:
    """The agent; each of the first scans waits until as many as expected are at it."""

    def __init__(self, agent, expected):
        self._agent = agent
        self._expected = expected
        self._lock = threading.Lock()
        self._together = threading.Barrier(expected)
        self._count = self._at_work = 0
        self.most_at_work = 0

    def run(self, batches):
        if all(batch.operation != "scan" for batch in batches):
            return self._agent.run(batches)
        with self._lock:
            self._count += 1
            self._at_work += 1
            self.most_at_work = max(self.most_at_work, self._at_work)
            must_wait = self._count <= self._expected
        if must_wait:
            self._together.wait(PATIENCE_SECONDS)
        try:
            return self._agent.run(batches)
        finally:
            with self._lock:
                self._at_work -= 1


@pytest.mark.parametrize(("what", "expected"), [("alone", 2), ("budget", 1), ("another owner", 1)])
def test_the_only_owner_at_work_uses_both_cores(tmp_path, work_dir, what, expected):
    agent = WaitingAgent(get_agent(), expected)
    fleet = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    if what == "budget":
        fleet.parts = replace(fleet.parts, budgets=(FileSystemBudget(path=str(work_dir), parallel=1),))
    if what == "another owner":
        other = fleet.state.own(scan.ScanSlice, scan.ScanSlice).owner_locks.setdefault(-1, threading.Lock())
        assert other.acquire(blocking=False)
    count = 3 * MAX_DIRECTORIES
    for number in range(1, count + 1):
        fleet.save(f"ck{number}/epoch_1.pt", 10, torch_state(1))
    fleet.run(20, *(fleet.job(number, comment=f"ckpt=ck{number}") for number in range(1, count + 1)))
    assert agent.most_at_work == expected
    fleet.parts.store.close()


@pytest.mark.parametrize(("count", "may_be_more"), [(4, False), (5, True), (7, True)])
def test_whoever_has_more_to_scan_than_one_task_takes_does_not_wait_for_the_next_second(
    tmp_path, work_dir, monkeypatch, count, may_be_more
):
    monkeypatch.setattr(scan, "MAX_DUE", 5)
    fleet = Fleet(get_agent(), f"sqlite:///{tmp_path}/record.db", work_dir)
    asked = []
    fleet.parts = replace(fleet.parts, runner=make_runner(scan_soon=lambda: asked.append(True)))
    fleet.run(20, *(fleet.job(number, comment=f"ckpt=ck{number}") for number in range(1, count + 1)))
    assert bool(asked) is may_be_more
    fleet.parts.store.close()


@pytest.mark.parametrize(("has_known", "read_at", "is_kept"), [(False, 1, True), (True, 4, True), (True, 3, False)])
def test_what_a_scan_changed_is_kept_unless_something_else_changed_since_the_record_was_read(
    has_known, read_at, is_kept
):
    [known] = merge([], make_scan(2, make_checkpoint())).appeared
    look = ScanRecord(run=RUN, scan=make_scan(3), changes=CheckpointChanges(gone=(known,)))
    compared = {RUN: compared_scans.ComparedScan(NO_ROWS, (known,) if has_known else (), look.scan)}
    updates = compared_scans.list_updates([look], compared, {RUN: read_at}, {RUN: RevisionRise(4, 5)})
    assert {run: each.after for run, each in updates.items()} == ({RUN: 5} if is_kept else {})


def test_only_what_is_read_before_a_removal_has_parsers_of_its_own(tmp_path, work_dir):
    class Asked:
        def __init__(self):
            self.shares = set()

        def run(self, batches):
            self.shares |= {
                item["shares_parser"] for each in batches for item in each.items if each.operation == "scan"
            }
            return get_agent().run(batches)

    agent = Asked()
    fleet = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    for number in (1, 2):
        fleet.save(f"ck{number}/epoch_1.pt", 10, torch_state(1))
    fleet.run(20, *(fleet.job(number, comment=f"ckpt=ck{number}") for number in (1, 2)))
    assert True in agent.shares
    agent.shares.clear()
    runs = [each.key for each in fleet.state.watchlist.all]
    found = scan.scan_again(fleet.parts, fleet.state, runs, [], fleet.parts.runner.read_time())
    assert len(found) == len(runs) == 2
    assert agent.shares == {False}
    fleet.parts.store.close()


def test_a_long_scan_that_records_one_request_after_another_is_no_silence(tmp_path, work_dir):
    watch = ScanWatch()
    fleet = Fleet(get_agent(), f"sqlite:///{tmp_path}/record.db", work_dir)
    fleet.parts = replace(fleet.parts, runner=make_runner(note_scanned=watch.note_answer))
    watch.begin()
    for minutes in (20, 40, 60):
        fleet.save("ck/epoch_1.pt", minutes - 1, torch_state(minutes))
        assert not any(watch.is_silent(3) for _ in range(3))
        fleet.run(minutes, fleet.job(comment="ckpt=ck"))
    assert [watch.is_silent(3) for _ in range(4)] == [False, False, False, True]
    fleet.parts.store.close()
