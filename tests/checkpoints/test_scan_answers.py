"""The answer to a scan names checkpoints that are known and the same by their numbers."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent import batches
from ckptd.checkpoints.agent.scan_json import decode_scan, encode_scan
from ckptd.core.model import CheckpointState, Scan, Unknown, checkpoint_json
from core.histories import saved

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
KNOWN = tuple(saved(minute, name=f"step_{minute}.pt", step=minute).checkpoint for minute in range(40))
DIRECTORY = KNOWN[0].path.parent


def answer(found):
    """Return the scan as it arrives, from a child that got what is known as JSON."""
    sent = json.loads(json.dumps([checkpoint_json.encode_checkpoint(each) for each in KNOWN]))
    known = [checkpoint_json.decode_checkpoint(each) for each in sent]
    return json.loads(json.dumps(encode_scan(Scan(directory=DIRECTORY, scanned_at=NOW, checkpoints=found), known)))


def test_what_did_not_change_takes_a_number_and_is_the_very_one_that_was_known():
    new = saved(50, name="step_50.pt", step=50).checkpoint
    told = answer((*KNOWN[1:], new))
    assert told["checkpoints"][:-1] == list(range(1, 40))
    found = decode_scan(told, KNOWN).checkpoints
    assert all(one is other for one, other in zip(found, KNOWN[1:], strict=False))
    assert found[-1] == new


def test_what_changed_is_told_whole():
    changed = replace(KNOWN[3], modified_at=KNOWN[3].modified_at + timedelta(seconds=1), state=CheckpointState.WRITING)
    told = answer((*KNOWN[:3], changed, *KNOWN[4:]))
    assert [isinstance(each, dict) for each in told["checkpoints"]] == [number == 3 for number in range(40)]
    assert decode_scan(told, KNOWN).checkpoints[3] == changed


@pytest.mark.parametrize("numbers", [[40], [-1], [0, 0], [2**70], [1.5], ["1"], [None]])
def test_a_number_that_nothing_has_makes_the_answer_malformed(numbers):
    told = answer(KNOWN) | {"checkpoints": numbers}
    found = batches.decode_answer(told, lambda data: decode_scan(data, KNOWN))
    assert isinstance(found, Unknown)
    assert found.reason.startswith("the child's answer is malformed")


def test_what_is_known_of_another_directory_is_not_believed():
    told = answer(KNOWN) | {"directory": str(PurePosixPath("/elsewhere"))}
    assert isinstance(batches.decode_answer(told, lambda data: decode_scan(data, KNOWN)), Unknown)
