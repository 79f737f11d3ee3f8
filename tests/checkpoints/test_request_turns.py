"""A request that only compares directories may be long; others wait for it no longer than for a short one."""

import math
import os
import sys

import pytest

from checkpoints.test_agent import SOMEONE, scan_item
from ckptd.checkpoints.agent import request_turns
from ckptd.checkpoints.agent.client import NOT_REACHED, AgentClient, Batch
from ckptd.checkpoints.agent.request_turns import LEAST_ANSWERS, MAX_READ_ITEMS, TURN_SECONDS, find_turn_end
from ckptd.checkpoints.agent.requests import MAX_ITEMS
from ckptd.core.model import Unknown

# an agent whose scans answer at once but for that of one directory, which hangs
HANGING = """
import sys, time
from ckptd.checkpoints.agent import process, request_turns, scan_patience
from ckptd.checkpoints.agent.request_policy import RequestPolicy
request_turns.TURN_SECONDS = float(sys.argv[2])
scan_patience._read_processor_seconds = lambda process_id: 0.0
def scan(item):
    if item["directory"] == "/hangs":
        time.sleep(600)
    return {"directory": item["directory"]}
process.serve(int(sys.argv[1]), RequestPolicy, {"scan": scan})
"""
SHORT_SECONDS, LONG_SECONDS = 0.2, 600.0  # of a turn
DEADLINE_SECONDS = 2.0
GIVEN_UP = Unknown(what="agent", reason="it did not answer in time")


@pytest.fixture
def turn_seconds():
    return SHORT_SECONDS


@pytest.fixture
def client(tmp_path, monkeypatch, turn_seconds):
    (tmp_path / "hanging_agent.py").write_text(HANGING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    started = AgentClient("hanging_agent", [str(turn_seconds)])
    started.wait_until_ready()
    yield started
    started.close()


def list_items(count, hanging=None, fingerprint="f"):
    places = ["/hangs" if number == hanging else f"/{number}" for number in range(count)]
    return tuple({**scan_item(place), "fingerprint": fingerprint} for place in places)


def run(client, items):
    batch = Batch(uid=os.getuid() or SOMEONE, operation="scan", items=items, deadline_seconds=DEADLINE_SECONDS)
    [answers] = client.run([batch])
    return answers


def test_a_directory_that_hangs_late_in_a_long_request_is_left_to_the_next_one(client):
    hanging = LEAST_ANSWERS + 20
    answers = run(client, list_items(MAX_ITEMS, hanging))
    assert [each["directory"] for each in answers[:hanging]] == [f"/{number}" for number in range(hanging)]
    assert set(answers[hanging:]) == {NOT_REACHED}
    again = run(client, list_items(MAX_ITEMS, 0))
    assert again[0] == GIVEN_UP
    assert set(again[1:]) == {NOT_REACHED}


def test_one_that_hangs_early_delays_as_many_as_in_a_short_request(client):
    hanging = LEAST_ANSWERS - 1
    answers = run(client, list_items(MAX_ITEMS, hanging))
    assert answers[hanging] == GIVEN_UP
    assert set(answers[hanging + 1 :]) == {NOT_REACHED}


@pytest.mark.parametrize("turn_seconds", [LONG_SECONDS])
def test_all_is_answered_that_takes_no_longer_than_a_turn(client):
    assert [each["directory"] for each in run(client, list_items(MAX_ITEMS))] == [
        f"/{each}" for each in range(MAX_ITEMS)
    ]


def test_a_request_that_may_read_files_is_short(client):
    for items in (list_items(MAX_READ_ITEMS + 1, fingerprint=None), (*list_items(MAX_READ_ITEMS), scan_item("/x"))):
        refused = run(client, items)[0]
        assert isinstance(refused, Unknown)
        assert refused.reason.startswith(f"refused: more than {MAX_READ_ITEMS} items")


@pytest.mark.parametrize(
    ("operation", "items", "has_turn"),
    [
        ("scan", [{"fingerprint": "f"}] * (LEAST_ANSWERS + 1), True),
        ("scan", [{"fingerprint": "f"}] * LEAST_ANSWERS, False),
        ("scan", [{"fingerprint": "f"}] * LEAST_ANSWERS + [{"fingerprint": None}], False),
        ("scan", [{"fingerprint": "f"}] * LEAST_ANSWERS + ["no object"], False),
        ("move_aside", [{"fingerprint": "f"}] * (LEAST_ANSWERS + 1), False),
    ],
)
def test_only_what_may_be_ended_at_any_time_has_a_turn(operation, items, has_turn):
    request = {"operation": operation, "items": items}
    assert find_turn_end(request, 5.0) == (5.0 + TURN_SECONDS if has_turn else math.inf)
    request_turns.check_size(request)
