"""The answer to a scan names checkpoints that are known and the same by their numbers."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.checkpoints.agent import batches, scan_json
from ckptd.checkpoints.agent.answer_pieces import PIECE_COUNT, PackedItems, pack
from ckptd.checkpoints.agent.scan_client import ScanLimits, rescan_runs, scan_runs
from ckptd.checkpoints.agent.scan_json import decode_scan, encode_scan
from ckptd.checkpoints.scanning.tree_fingerprint import UNCHANGED
from ckptd.core.model import CheckpointState, RunKey, Scan, Unknown
from ckptd.core.model.records import SettledScan
from ckptd.core.rows.sent_checkpoints import decode_contents
from ckptd.core.rows.stored_checkpoints import RowContext
from core.histories import saved
from core.table_rows import as_row
from support.known_rows import encode_known

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
KNOWN = tuple(saved(minute, name=f"step_{minute}.pt", step=minute).checkpoint for minute in range(40))
DIRECTORY = KNOWN[0].path.parent


def answer(found):
    """Return the scan as it arrives, from a child that got what is known as JSON."""
    sent = json.loads(json.dumps(encode_known(KNOWN, DIRECTORY, 1000)))
    known = decode_contents(sent, RowContext(str(DIRECTORY), 1000))
    return json.loads(json.dumps(encode_scan(Scan(directory=DIRECTORY, scanned_at=NOW, checkpoints=found), known)))


def test_what_is_known_arrives_as_it_is_on_record():
    sent = json.loads(json.dumps(encode_known(KNOWN, DIRECTORY, 1000)))
    assert decode_contents(sent, RowContext(str(DIRECTORY), 1000)) == list(KNOWN)


def test_what_did_not_change_takes_a_number():
    new = saved(50, name="step_50.pt", step=50).checkpoint
    told = answer((*KNOWN[1:], new))
    assert told["checkpoints"][:-1] == list(range(1, 40))
    found = decode_scan(told, len(KNOWN))
    assert (found.unchanged, found.checkpoints) == (tuple(range(1, 40)), (new,))


def test_what_changed_is_told_whole():
    changed = replace(KNOWN[3], modified_at=KNOWN[3].modified_at + timedelta(seconds=1), state=CheckpointState.WRITING)
    told = answer((*KNOWN[:3], changed, *KNOWN[4:]))
    assert [isinstance(each, dict) for each in told["checkpoints"]] == [number == 3 for number in range(40)]
    assert decode_scan(told, len(KNOWN)).checkpoints == (changed,)


@pytest.mark.parametrize("numbers", [[40], [-1], [0, 0], [2**70], [1.5], ["1"], [None]])
def test_a_number_that_nothing_has_makes_the_answer_malformed(numbers):
    told = answer(KNOWN) | {"checkpoints": numbers}
    found = batches.decode_answer(told, lambda data: decode_scan(data, len(KNOWN)))
    assert isinstance(found, Unknown)
    assert found.reason.startswith("the child's answer is malformed")


@pytest.mark.parametrize(
    "value",
    [
        "x", 5, [], ["x", 1], ["/etc/x", 1, 1], ["../x", 1, 1], ["a/../../x", 1, 1], ["", 1, 1], ["x", -1, 1],
        ["x", 1, "1"], ["x", 1, 2**70], ["x" * 4097, 1, 1], [None, 1, 1], {"path": "x"},
    ],
)  # fmt: skip
def test_a_file_of_no_known_format_that_is_none_below_the_directory_makes_the_answer_malformed(value):
    told = answer(()) | {"unrecognised": value}
    found = batches.decode_answer(told, lambda data: decode_scan(data, len(KNOWN)))
    assert isinstance(found, Unknown)
    assert found.reason.startswith("the child's answer is malformed")


def test_tables_arrive_among_numbers_and_others_and_do_not_hold_more_than_may_be_decoded(monkeypatch):
    rows = [as_row(saved(minute, name=f"new_{minute}.pt", step=minute).checkpoint) for minute in range(100, 150)]
    other = replace(rows[0], path=DIRECTORY / "other.pt", metrics={"loss": 0.5})
    scan = Scan(directory=DIRECTORY, scanned_at=NOW, checkpoints=(*rows[:30], KNOWN[3], other, *rows[30:]))
    told = json.loads(json.dumps(encode_scan(scan, KNOWN, in_tables=True)))
    assert [type(each) for each in told["checkpoints"]] == [list, int, dict, list]
    found = decode_scan(told, len(KNOWN))
    assert (found.unchanged, found.checkpoints) == ((3,), (*rows[:30], other, *rows[30:]))
    monkeypatch.setattr(scan_json, "MAX_DECODED", 50)
    refused = batches.decode_answer(told, lambda data: decode_scan(data, len(KNOWN)))
    assert isinstance(refused, Unknown)
    assert "more than 50 checkpoints" in refused.reason
    told["checkpoints"] = [*told["checkpoints"][:1], *told["checkpoints"][2:3] * 21]
    others = batches.decode_answer(told, lambda data: decode_scan(data, len(KNOWN)))
    assert "more than 50 checkpoints" in others.reason


class CountingAgent:
    """Answers that directories have so many checkpoints, by the numbers in their names."""

    def run(self, batches):
        return [[self._answer(item["directory"]) for item in batch.items] for batch in batches]

    def _answer(self, directory):
        count = int(directory.rpartition("/")[2])
        items = PackedItems([pack(b"[]")] * (count // PIECE_COUNT + 1), count)
        return answer(()) | {"answer": UNCHANGED, "fingerprint": "f", "directory": directory, "checkpoints": items}


def test_the_directories_of_an_owner_have_no_more_new_checkpoints_together_than_one_may_have():
    """An answer of 128 MiB may hold ten million rows of tables, and it would take minutes to decode them."""
    limits = ScanLimits(deadline=timedelta(seconds=1))
    counts = [(1, 300_000), (1, 200_001), (2, 400_000), (1, 600_000), (1, 200_000), (1, 0), (1, 1)]
    runs = [(RunKey("demo", uid, f"/{count}"), (), None) for uid, count in counts]
    found = scan_runs(CountingAgent(), runs, limits, NOW)
    assert [isinstance(each, Unknown) for each in found] == [False, True, False, True, False, False, True]
    assert found[1].reason == "its owner's directories have more than 500000 new checkpoints"
    known = PackedItems([pack(b"[]")] * 600, 600_000)  # what is on record is sent as a number
    [again] = scan_runs(CountingAgent(), [(RunKey("demo", 1, "/600001"), known, None)], limits, NOW)
    assert isinstance(again, Scan)


def test_no_checkpoint_of_a_directory_that_did_not_change_is_decoded(monkeypatch):
    decoded = []
    monkeypatch.setattr(scan_json, "decode_scan", lambda *_: decoded.append(1))
    run = RunKey("demo", 1000, "/5")
    limits = ScanLimits(deadline=timedelta(seconds=1))
    [found] = rescan_runs(CountingAgent(), [(run, SettledScan("f", 1, ()), None)], limits, NOW)
    assert found.reason == "the child's answer is malformed: a directory that did not change was listed"
    assert not decoded


class SubvertedAgent:
    """Answers for another directory than it was asked about."""

    def run(self, batches):
        told = answer(()) | {"answer": UNCHANGED, "fingerprint": "f", "directory": "/", "checkpoints": []}
        return [[told for _ in batch.items] for batch in batches]


def test_an_answer_about_another_directory_is_not_believed():
    run = RunKey("demo", 1000, str(DIRECTORY))
    limits = ScanLimits(deadline=timedelta(seconds=1))
    found = [
        *scan_runs(SubvertedAgent(), [(run, (), None)], limits, NOW),
        *rescan_runs(SubvertedAgent(), [(run, SettledScan("f", 1, ()), None)], limits, NOW),
    ]
    assert [each.reason for each in found] == ["the child's answer is malformed: / is another directory"] * 2
