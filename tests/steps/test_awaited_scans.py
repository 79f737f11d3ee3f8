"""Where many runs wait for their first scan, they are evaluated after it, and not before it, too."""

from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent import scan_json
from ckptd.steps import awaited_scans, decide, poll, scan
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import begin
from steps.daemon_lives import Cluster
from support.migrated import open_record
from support.parts import make_parts, make_rules
from support.queue_facts import CLUSTER, at, make_checkpoint, make_job, make_scan
from support.whole_answers import WholeAnswers

COUNT = 5


class Disk(WholeAnswers):
    """Each job names a directory with one checkpoint."""

    def run(self, batches):
        return [[self.answer(batch.operation, item) for item in batch.items] for batch in batches]

    def answer(self, operation, item):
        if operation == "locate":
            found = {"directory": f"/data{item['work_dir']}", "located_by": "comment", "user_settings": {}}
            return found | {"problems": [], "entry_count": 0, "unread_count": 0}
        place = PurePosixPath(item["directory"])
        return scan_json.encode_scan(make_scan(1, make_checkpoint(f"{place}/epoch_1.pt", 0), directory=place))


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    """The parts and the state of a daemon that has polled and located, but not scanned."""
    monkeypatch.setattr(awaited_scans, "MANY", COUNT - 1)
    cluster = Cluster()
    cluster.jobs = tuple(make_job(number, work_dir=PurePosixPath(f"/home/{number}")) for number in range(1, COUNT + 1))
    store = open_record(f"sqlite:///{tmp_path}/record.db")
    parts = make_parts(CLUSTER, cluster, store, Disk(), rules=make_rules())
    yield parts, start(parts)
    store.close()


def start(parts):
    state = begin(parts, at(0))
    poll.record_queue(parts, state, *poll.observe_queue(parts, state, at(0)), at(0))
    return state


def list_evaluated(parts, state, minutes):
    decide.decide(parts, state, at(minutes))
    return {key.directory for key in state.latest(RunHistories).by_run}


def test_runs_are_evaluated_once_they_were_scanned(daemon):
    parts, state = daemon
    assert list_evaluated(parts, state, 0) == set()
    while scan.scan_due(parts, state, at(1)):
        pass
    assert list_evaluated(parts, state, 1) == {f"/data/home/{number}" for number in range(1, COUNT + 1)}


def test_a_scan_that_does_not_come_is_awaited_for_ten_minutes(daemon):
    parts, state = daemon
    for minutes in range(10):
        assert list_evaluated(parts, state, minutes) == set()
        state.watchlist.postpone([each.key for each in state.watchlist.all], at(minutes))
    assert len(list_evaluated(parts, state, 10)) == COUNT
    assert len(list_evaluated(parts, state, 11)) == COUNT, "what was evaluated once is not left again"


def test_few_runs_are_evaluated_at_once(daemon, monkeypatch):
    parts, state = daemon
    monkeypatch.setattr(awaited_scans, "MANY", COUNT)
    assert len(list_evaluated(parts, state, 0)) == COUNT


def test_a_command_that_decides_once_evaluates_all(daemon):
    parts, state = daemon
    decide.await_no_scan(state)
    assert len(list_evaluated(parts, state, 0)) == COUNT


def test_after_a_restart_the_scans_on_record_do(daemon):
    parts, state = daemon
    while scan.scan_due(parts, state, at(1)):
        pass
    assert len(list_evaluated(parts, start(parts), 2)) == COUNT
