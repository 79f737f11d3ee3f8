"""A scan of a directory in which nothing changed sends, reads and compares no checkpoint."""

import json
import os
from collections import Counter

import pytest

from ckptd.steps import scan
from ckptd.steps.packed_checkpoints import PackedCheckpoints
from ckptd.store import recorded_rows, settled_scans
from steps.replayed_fleet import Fleet, minute
from support.checkpoint_bytes import npz
from support.shared_agent import get_agent
from support.whole_answers import WholeAnswers

FILE_COUNT = 40


class CountingAgent(WholeAnswers):
    """The agent, and how many characters of known and found checkpoints went through its pipe."""

    def __init__(self, agent):
        self._agent = agent
        self.sent = Counter()

    def run(self, batches):
        answers = self._agent.run(batches)
        for batch, found in zip(batches, answers, strict=True):
            if batch.operation == "scan":
                self.sent["items"] += len(batch.items)
                self.sent["known"] += sum(len(item["known"]) for item in batch.items)
                self.sent["found"] += sum(
                    len(each[0]) if isinstance(each, list) else 1  # the rows of a table
                    for answer in found
                    if isinstance(answer, dict)
                    for each in answer.get("checkpoints", ())
                )
                self.sent["characters"] += len(json.dumps([batch.items, found], default=str))
        return answers


@pytest.fixture
def scanned(tmp_path, monkeypatch, work_dir):
    agent = CountingAgent(get_agent())
    fleet = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    for number in range(FILE_COUNT):
        fleet.save(f"ck/epoch_{number}.npz", number, npz(weights=[1.0], epoch=[number]))
    settle(fleet)
    for minutes in (100, 102):  # found, and then found the same
        fleet.run(minutes, fleet.job(comment="ckpt=ck"))
    agent.sent.clear()
    rows = Counter()
    read = type(fleet.parts.store.checkpoints).read_present
    monkeypatch.setattr(
        type(fleet.parts.store.checkpoints),
        "read_present",
        lambda store, keys: rows.update(read=len(keys)) or read(store, keys),
    )
    yield fleet, agent, rows
    fleet.parts.store.close()


def settle(fleet):
    """Let the directory be as old as its files."""
    os.utime(fleet.work_dir / "ck", (minute(60).timestamp(),) * 2)


def list_present(fleet):
    [key] = {each.key for each in fleet.state.watchlist.all}
    return {each.checkpoint.path.name for each in fleet.parts.store.checkpoints.read(key) if each.deleted_at is None}


def test_nothing_is_sent_of_checkpoints_that_did_not_change(scanned):
    fleet, agent, rows = scanned
    before = fleet.state.watchlist.all[0].observed_at
    fleet.run(104)
    assert agent.sent["items"] >= 1
    assert (agent.sent["known"], agent.sent["found"], rows["read"]) == (0, 0, 0)
    assert agent.sent["characters"] < 2500 * agent.sent["items"]
    assert fleet.state.watchlist.all[0].observed_at > before
    assert len(list_present(fleet)) == FILE_COUNT


def test_a_scan_that_finds_nothing_changed_makes_no_decision_due(scanned):
    fleet, _, _ = scanned
    fleet.state.decision_due.clear()
    scan.run(fleet.parts, fleet.state, minute(104))
    assert fleet.state.watchlist.all[0].observed_at == minute(104)
    assert not fleet.state.decision_due.is_set()
    fleet.save("ck/epoch_90.npz", 105, npz(weights=[1.0], epoch=[90]))
    scan.run(fleet.parts, fleet.state, minute(106))
    assert fleet.state.decision_due.is_set()


def test_a_directory_that_can_no_longer_be_read_makes_a_decision_due(scanned):
    fleet, _, _ = scanned
    (fleet.work_dir / "ck").chmod(0)
    fleet.state.decision_due.clear()
    scan.run(fleet.parts, fleet.state, minute(104))
    assert fleet.state.decision_due.is_set()


def test_the_silence_of_a_run_is_known_without_its_checkpoints(scanned, monkeypatch):
    fleet, _, _ = scanned
    monkeypatch.setattr(PackedCheckpoints, "unpack", lambda packed: pytest.fail("unpacked"))
    scan.run(fleet.parts, fleet.state, minute(104))
    assert fleet.state.watchlist.all[0].observed_at == minute(104)


def test_a_new_checkpoint_is_found_and_the_others_are_read_again_only_then(scanned):
    fleet, agent, _ = scanned
    fleet.run(104)
    fleet.save("ck/epoch_90.npz", 103, npz(weights=[1.0], epoch=[90]))
    fleet.run(106)
    assert agent.sent["found"] == FILE_COUNT + 1
    assert "epoch_90.npz" in list_present(fleet)


def test_a_save_decodes_none_of_the_others(scanned, monkeypatch):
    fleet, agent, _ = scanned
    decoded = []
    monkeypatch.setattr(recorded_rows, "checkpoint_from_row", lambda *row: decoded.append(row))
    fleet.save("ck/epoch_40.npz", 103, npz(weights=[1.0], epoch=[40]))
    fleet.run(105)
    assert (agent.sent["known"], agent.sent["found"], decoded) == (FILE_COUNT, FILE_COUNT + 1, [])
    monkeypatch.undo()
    assert "epoch_40.npz" in list_present(fleet)


@pytest.mark.parametrize("kind", ["saved", "removed", "overwritten", "renamed", "came back"])
def test_after_a_change_was_found_nothing_is_sent_until_the_next_one(scanned, kind):
    fleet, agent, rows = scanned
    path = fleet.work_dir / "ck/epoch_7.npz"
    if kind == "saved":
        fleet.save("ck/epoch_90.npz", 103, npz(weights=[1.0], epoch=[90]))
    elif kind == "removed":
        path.unlink()
    elif kind == "overwritten":
        fleet.save("ck/epoch_7.npz", 103, npz(weights=[2.0], epoch=[7]))
    else:
        path.rename(fleet.work_dir / "ck/best.npz")
        if kind == "came back":
            fleet.run(104)
            (fleet.work_dir / "ck/best.npz").rename(path)
    settle(fleet)
    agent.sent.clear()
    fleet.run(106)
    assert agent.sent["found"] >= FILE_COUNT - 1
    found = list_present(fleet)
    agent.sent.clear()
    rows.clear()
    fleet.run(108)
    assert (agent.sent["known"], agent.sent["found"], rows["read"]) == (0, 0, 0)
    assert list_present(fleet) == found == {each.name for each in (fleet.work_dir / "ck").iterdir()}


def test_a_checkpoint_that_is_overwritten_in_place_is_found(scanned):
    fleet, agent, _ = scanned
    path = fleet.work_dir / "ck/epoch_7.npz"
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"broken")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    fleet.run(104)
    assert agent.sent["found"] >= FILE_COUNT


def test_a_removed_checkpoint_is_gone(scanned):
    fleet, _, _ = scanned
    (fleet.work_dir / "ck/epoch_7.npz").unlink()
    fleet.run(104)
    assert "epoch_7.npz" not in list_present(fleet)


def test_a_record_that_somebody_changed_is_compared_again(scanned):
    fleet, agent, _ = scanned
    [key] = {each.key for each in fleet.state.watchlist.all}
    path = str(fleet.work_dir / "ck/epoch_7.npz")
    assert fleet.parts.store.checkpoints.set_pinned(key, path, is_pinned=True) == 1
    fleet.run(104)
    assert agent.sent["known"] == FILE_COUNT
    agent.sent.clear()
    fleet.run(106)
    assert agent.sent["known"] == 0


@pytest.fixture
def restarted(scanned, tmp_path, work_dir):
    """Starts the daemon again on the record that the one before left."""
    before, agent, _ = scanned
    agent.sent.clear()
    fleet = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    fleet.source.jobs = before.source.jobs
    yield fleet
    fleet.parts.store.close()


def test_a_second_scan_of_what_the_first_one_found_lists_nothing(tmp_path, work_dir):
    agent = CountingAgent(get_agent())
    fleet = Fleet(agent, f"sqlite:///{tmp_path}/record.db", work_dir)
    for number in range(FILE_COUNT):
        fleet.save(f"ck/epoch_{number}.npz", number, npz(weights=[1.0], epoch=[number]))
    settle(fleet)
    fleet.run(100, fleet.job(comment="ckpt=ck"))
    assert agent.sent["found"] == FILE_COUNT
    agent.sent.clear()
    fleet.run(102)
    assert agent.sent["items"] >= 1
    assert (agent.sent["known"], agent.sent["found"]) == (0, 0)
    fleet.parts.store.close()


def test_a_daemon_that_starts_again_reads_no_checkpoint_that_did_not_change(restarted, scanned):
    _, agent, _ = scanned
    restarted.run(104)
    assert agent.sent["items"] >= 1
    assert (agent.sent["known"], agent.sent["found"]) == (0, 0)
    assert len(list_present(restarted)) == FILE_COUNT


def test_a_daemon_that_starts_again_finds_what_changed_meanwhile(restarted):
    (restarted.work_dir / "ck/epoch_7.npz").unlink()
    restarted.run(104)
    assert len(list_present(restarted)) == FILE_COUNT - 1


def test_another_version_recognises_everything_anew(restarted, scanned, monkeypatch):
    _, agent, _ = scanned
    monkeypatch.setattr(settled_scans, "_find_version", lambda: "999.0")
    restarted.run(104)
    assert agent.sent["known"] == FILE_COUNT
