"""The directories of many owners are scanned again in one task; one that hangs or changed delays no other."""

import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent import scan_json
from ckptd.checkpoints.agent.client import SILENCE
from ckptd.checkpoints.scanning.tree_fingerprint import CHANGED, UNCHANGED
from ckptd.core.model import Unknown
from ckptd.service.step_table import make_runner
from ckptd.steps import poll, scan, small_owners
from ckptd.steps.state import begin
from ckptd.store.database_errors import DatabaseAwayError
from steps.daemon_lives import Cluster
from support.migrated import open_record
from support.parts import make_parts, make_rules
from support.queue_facts import CLUSTER, at, make_checkpoint, make_job, make_scan
from support.whole_answers import WholeAnswers

OWNERS = range(2000, 2007)
PATIENCE_SECONDS = 30


class Disks(WholeAnswers):
    """One directory of each owner; some have changed, some do not answer before they may."""

    def __init__(self):
        self.may_answer = threading.Event()
        self.hanging = set()
        self.versions = dict.fromkeys(OWNERS, 1)
        self.asked = []  # the owners of each request

    def run(self, batches):
        self.asked.append([batch.uid for batch in batches])
        return [[self._answer(batch, item) for item in batch.items] for batch in batches]

    def run_as_answered(self, batches):
        self.asked.append([batch.uid for batch in batches])
        answers = {place: [self._answer(batch, item) for item in batch.items] for place, batch in enumerate(batches)}
        hanging = [place for place, batch in enumerate(batches) if batch.uid in self.hanging]
        yield [(place, found) for place, found in answers.items() if place not in hanging]
        if hanging:
            assert self.may_answer.wait(PATIENCE_SECONDS)
            yield [(place, [SILENCE]) for place in hanging]

    def _answer(self, batch, item):
        fingerprint = f"version {self.versions[batch.uid]}"
        if batch.operation == "locate":
            return {
                "directory": f"/scratch/{batch.uid}",
                "located_by": "comment",
                "user_settings": {},
                "problems": [],
                "entry_count": 0,
                "unread_count": 0,
                "found": None,
            }
        directory = item["directory"]
        minutes = (item["now"] - at(0).timestamp()) / 60
        if item["fingerprint"] == fingerprint:
            seen = make_scan(minutes, directory=PurePosixPath(directory), fingerprint=fingerprint)
            return scan_json.encode_scan(seen) | {"answer": UNCHANGED}
        if item["fingerprint"] is not None:
            return {"answer": CHANGED}
        saved = [
            make_checkpoint(f"{directory}/{number}.pt", -number - 10) for number in range(self.versions[batch.uid])
        ]
        return scan_json.encode_scan(
            make_scan(minutes, *saved, directory=PurePosixPath(directory), fingerprint=fingerprint)
        )


class Daemon:
    """Scans with tasks that run one after another, unless `submit` says otherwise."""

    def __init__(self, url, disks):
        self.disks, self.tasks = disks, []
        jobs = [make_job(uid, uid=uid, user=f"u{uid}", comment="ckpt=saves") for uid in OWNERS]
        source = Cluster()
        source.jobs = tuple(jobs)
        parts = make_parts(CLUSTER, source, open_record(url), disks, rules=make_rules())
        self.parts = replace(parts, scan_interval=timedelta(minutes=5), runner=make_runner(submit=self.tasks.append))
        self.state = begin(self.parts, at(0))
        poll.run(self.parts, self.state, at(0))
        for minutes in (0, 0, 5, 10):  # found, scanned, and found the same
            self.scan(minutes)

    def scan(self, minutes):
        """Scan what is due; return how many tasks that took."""
        scan.scan_due(self.parts, self.state, at(minutes))
        count = 0
        while self.tasks:
            self.tasks.pop(0)()
            count += 1
        return count

    @property
    def scanned_at(self):
        """When each owner's directory was last scanned with a result, as far as the schedule knows."""
        return {each.key.uid: (each.observed_at - at(0)) / timedelta(minutes=1) for each in self.state.watchlist.all}

    def recorded_at(self):
        keys = [each.key for each in self.state.watchlist.all]
        found = self.parts.store.checkpoints.read_last_scans(CLUSTER, keys)
        return {key.uid: (each.scanned_at - at(0)) / timedelta(minutes=1) for key, each in found.items()}


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(f"sqlite:///{tmp_path}/record.db", Disks())
    made.disks.asked.clear()
    yield made
    made.parts.store.close()


def test_unchanged_directories_of_many_owners_are_one_task_and_one_transaction(daemon, monkeypatch):
    store, recorded = type(daemon.parts.store.checkpoints), []
    record = store.record_scans
    monkeypatch.setattr(store, "record_scans", lambda self, looks: recorded.append(len(looks)) or record(self, looks))
    assert daemon.scan(15) == 1
    assert [sorted(each) for each in daemon.disks.asked] == [list(OWNERS)]
    assert recorded == [len(OWNERS)]
    assert daemon.scanned_at == daemon.recorded_at() == dict.fromkeys(OWNERS, 15)


def test_a_changed_directory_is_scanned_by_a_task_of_its_own(daemon):
    daemon.disks.versions[2003] = 2
    assert daemon.scan(15) == 2
    [key] = [each.key for each in daemon.state.watchlist.all if each.key.uid == 2003]
    assert len(daemon.parts.store.checkpoints.read(key)) == 2
    assert daemon.scanned_at == dict.fromkeys(OWNERS, 15)
    assert daemon.state.decision_due.is_set()


def test_an_owner_that_hangs_delays_no_other_and_is_alone_from_then_on(daemon):
    daemon.disks.hanging = {2005}
    scan.scan_due(daemon.parts, daemon.state, at(15))
    [task] = daemon.tasks
    daemon.tasks.clear()
    running = threading.Thread(target=task)
    running.start()
    others = dict.fromkeys(set(OWNERS) - {2005}, 15)
    while daemon.scanned_at != {**others, 2005: 10}:
        assert running.is_alive()
        time.sleep(0.01)
    # the others can be scanned again, while this owner's scan still runs
    assert daemon.scan(20) == 1
    assert daemon.scanned_at == {**dict.fromkeys(others, 20), 2005: 10}
    daemon.disks.may_answer.set()
    running.join(PATIENCE_SECONDS)
    [watched] = [each for each in daemon.state.watchlist.all if each.key.uid == 2005]
    assert isinstance(watched.last, Unknown)
    daemon.disks.hanging = set()
    daemon.disks.asked.clear()
    assert daemon.scan(60) == 2
    assert [2005] in daemon.disks.asked


def test_of_owners_whose_turn_is_not_over_nothing_is_asked_again(daemon, monkeypatch):
    asked, is_small = [], small_owners.is_small
    monkeypatch.setattr(small_owners, "is_small", lambda *given: asked.append(given[2][0].key.uid) or is_small(*given))
    for seconds in range(5):  # the task has not begun
        scan.scan_due(daemon.parts, daemon.state, at(15 + seconds / 60))
    assert sorted(asked) == list(OWNERS)
    assert len(daemon.tasks) == 1


def test_owners_due_a_little_later_are_scanned_with_the_others_from_then_on(daemon):
    early = [each for each in daemon.state.watchlist.all if each.key.uid in {2001, 2002}]
    daemon.state.watchlist.hasten([each.key for each in early], at(14.8))
    assert daemon.scan(14.8) == 1
    assert daemon.scanned_at == dict.fromkeys(OWNERS, 14.8)
    assert daemon.scan(15) == 0


def test_nobody_is_scanned_much_earlier_because_of_others(daemon):
    daemon.state.watchlist.hasten([each.key for each in daemon.state.watchlist.all if each.key.uid == 2001], at(12))
    daemon.scan(12)
    assert daemon.scanned_at == {**dict.fromkeys(OWNERS, 10), 2001: 12}


FAILURES = {"database": DatabaseAwayError("the database does not answer"), "bug": AttributeError("no attribute")}


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
def test_after_a_failure_nobody_waits_for_ever_nor_fails_again_at_once(daemon, monkeypatch, error, is_alone):
    def fail(_self, _looks):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(type(daemon.parts.store.checkpoints), "record_scans", fail)
        patched.setattr(small_owners, "FEW", 0 if is_alone else small_owners.FEW)
        scan.scan_due(daemon.parts, daemon.state, at(15))
        assert len(daemon.tasks) == (len(OWNERS) if is_alone else 1)
        while daemon.tasks:
            with pytest.raises(type(error)):
                daemon.tasks.pop(0)()
    assert daemon.scan(15.1) == 0
    daemon.scan(16)
    assert daemon.scanned_at == dict.fromkeys(OWNERS, 16)


@pytest.mark.parametrize("refused", [1, 2])
def test_nobody_waits_for_ever_after_a_task_that_could_not_begin(daemon, refused):
    for uid in (2001, 2002):  # each has a task of its own, as after a failure
        [watched] = [each for each in daemon.state.watchlist.all if each.key.uid == uid]
        daemon.state.watchlist.record_scan(watched.key, SILENCE, at(10))

    def refuse(task):
        daemon.tasks.append(task)
        if len(daemon.tasks) == refused:
            daemon.tasks.pop()
            raise RuntimeError("no further tasks")

    parts = replace(daemon.parts, runner=make_runner(submit=refuse))
    with pytest.raises(RuntimeError):
        scan.scan_due(parts, daemon.state, at(60))
    locks = daemon.state.own(scan.ScanSlice, scan.ScanSlice).owner_locks
    begun = len(daemon.tasks)
    assert sum(lock.locked() for lock in locks.values()) == begun + 1  # the task that was refused has its own still


def test_an_owner_with_many_directories_is_scanned_alone(daemon):
    many = daemon.state.watchlist.all[: small_owners.FEW + 1]
    assert small_owners.is_small(daemon.parts, daemon.state, many[1:], at(15))
    assert not small_owners.is_small(daemon.parts, daemon.state, many, at(15))
