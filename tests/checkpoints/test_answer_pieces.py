"""Answers about large directories: they take little memory until they are decoded, and a subverted child gains nothing.

100,000 files in one directory are no rarity: sites warn of them, and allow users a million (for example
https://scicomp.aalto.fi/triton/usage/smallfiles/).
"""

import json
import os
import tempfile
import tracemalloc
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ckptd.checkpoints.agent import answer_pieces
from ckptd.checkpoints.agent.answer_pieces import PIECE_COUNT, PackedItems, pack
from ckptd.checkpoints.agent.client import AgentClient, Batch
from ckptd.checkpoints.agent.scan_client import ScanLimits, request_scans
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.checkpoint_tables import encode_tables
from core.histories import saved
from core.table_rows import as_row
from support.queue_facts import NOON
from support.shared_agent import get_agent
from support.sized_world import make_checkpoint

COUNT = 3 * PIECE_COUNT + 7
REQUESTED = 4  # directories in one request
BYTES_A_CHECKPOINT = 200  # parsed, it takes 450
SOMEONE = 54321 if os.geteuid() == 0 else os.geteuid()
AGENT = """
import os, stat, sys
from ckptd.checkpoints.agent import agent_operations, process
from ckptd.checkpoints.agent.request_policy import RequestPolicy
def flood(item):
    pipes = [number for number in range(3, 200) if is_pipe(number)]
    while True:
        for pipe in pipes:
            os.write(pipe, LINE)
def is_pipe(number):
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False
LINE = bytes.fromhex(sys.argv[2])
agent_operations.preload()
process.MAX_ANSWER_BYTES = 2**20
operations = {"look_up": flood, "find_workspaces": lambda item: {"workspace": None}}
process.serve(int(sys.argv[1]), RequestPolicy, operations)
"""


@pytest.fixture
def place():
    """A directory that everyone can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        yield Path(parent)


@pytest.fixture
def large(place):
    directory = place / "large"
    directory.mkdir()
    for step in range(COUNT):
        file = directory / f"step_{step}.safetensors"
        file.write_bytes(make_checkpoint(step))
        os.chown(file, SOMEONE, -1)
    return directory


def ask(directory, times=1, known=()):
    agent = get_agent(keeps_children=False, max_entries=100_000)
    run = RunKey("demo", SOMEONE, str(directory))
    return request_scans(agent, [(run, known, None)] * times, ScanLimits(deadline=timedelta(minutes=1)), NOON)


def test_every_checkpoint_of_a_large_directory_arrives(large):
    [answer] = ask(large)
    assert answer.checkpoint_count == COUNT
    assert answer.entry_count == COUNT
    found = answer.decode().checkpoints
    assert {each.path.name for each in found} == {f"step_{step}.safetensors" for step in range(COUNT)}
    assert len(found) == COUNT


def test_answers_take_little_memory_until_they_are_decoded(place, large):
    ask(place)  # the agent has begun
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        answers = ask(large, REQUESTED)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(answers) == REQUESTED
    assert held - before < REQUESTED * COUNT * BYTES_A_CHECKPOINT
    assert peak - before < REQUESTED * COUNT * BYTES_A_CHECKPOINT


@pytest.mark.parametrize(
    "piece",
    [b"[1", b"{}", b"3", b"[" * 30 + b"[" * 30 + b"]" * 60, b"[" * 100_000, b"\xff", b'["a"]', b'[{"path": "/x"}]'],
)
def test_a_malformed_piece_makes_the_answer_malformed(place, piece):
    [answer] = ask(place)
    wrong = answer._replace(answer={**answer.answer, "checkpoints": PackedItems([pack(b"[]"), pack(piece)], 2)})
    found = wrong.decode()
    assert isinstance(found, Unknown)
    assert found.reason.startswith("the child's answer is malformed: ")


@pytest.mark.parametrize("is_packed", [True, False])
def test_tables_hold_no_more_checkpoints_than_were_counted(place, is_packed):
    """The count decides whether the checkpoints of other directories are in memory at the same time."""
    [answer] = ask(place)
    rows = [as_row(saved(minute, name=f"{minute}.pt", step=minute).checkpoint) for minute in range(30)]
    [table] = [*encode_tables([replace(each, path=place / each.path.name) for each in rows], str(place))]
    told = [json.loads(json.dumps(table))] * 10
    for count in (300, 299, 10, 0):
        items = PackedItems([pack(json.dumps(told).encode())], count) if is_packed else told
        wrong = answer._replace(answer={**answer.answer, "checkpoints": items})
        found = wrong.decode()
        if not is_packed or count == 300:
            assert wrong.checkpoint_count == len(found.checkpoints) == 300
        else:
            assert wrong.checkpoint_count == count
            assert found.reason.startswith(f"the child's answer is malformed: there are more than {count} ")


@pytest.mark.parametrize("wrong", [[], [7], [None], ["text"], [{}]])
def test_what_is_no_table_counts_as_one_item(place, wrong):
    [answer] = ask(place)
    answer = answer._replace(answer={**answer.answer, "checkpoints": [wrong, wrong]})
    assert answer.checkpoint_count == 2
    assert isinstance(answer.decode(), Unknown)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"+[" + b"1," * 10_000 + b"1]\n", "its answer is too large"),
        (b"+[]\n", "its answer is too large"),
        (b'{"index": -1, "result": {}}\n', "it answered more than it was asked"),
        (b'{"index": 1e999, "result": {}}\n', "its answer is malformed"),
    ],
)
def test_a_child_that_answers_without_end_neither_fills_the_memory_nor_delays_others(
    tmp_path, monkeypatch, line, reason
):
    (tmp_path / "flooded_agent.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    client = AgentClient("flooded_agent", [line.hex()])
    tracemalloc.start()
    try:
        client.wait_until_ready()
        requests = [("look_up", {"places": ["/nowhere"], "act_id": "a"}), ("find_workspaces", {"directory": "/x"})]
        batches = [Batch(uid=SOMEONE, operation=name, items=(item,), deadline_seconds=20) for name, item in requests]
        [[flooded], [other]] = client.run(batches)
        _, peak = tracemalloc.get_traced_memory()
        assert flooded == Unknown(what="agent", reason=reason)
        assert other == {"workspace": None}
        assert peak < 2**21
    finally:
        tracemalloc.stop()
        client.close()


def write(tmp_path, count):
    with (tmp_path / "lines").open("wb") as out:
        answer_pieces.write_answer(out, 2, {"checkpoints": [1] * count})
    return (tmp_path / "lines").read_bytes().splitlines()


def test_a_short_answer_has_no_pieces(tmp_path):
    count = answer_pieces.LEAST_SPLIT - 1
    [line] = write(tmp_path, count)
    assert json.loads(line) == {"index": 2, "result": {"checkpoints": [1] * count}}


@pytest.mark.parametrize("count", [answer_pieces.LEAST_SPLIT, PIECE_COUNT, COUNT])
def test_other_answers_have_the_length_of_their_list(tmp_path, count):
    *pieces, line = write(tmp_path, count)
    assert json.loads(line)["result"]["checkpoints"] == count
    packed = PackedItems([pack(piece.removeprefix(answer_pieces.MARK)) for piece in pieces], count)
    assert (packed.expected_count, [*packed]) == (count, [1] * count)


def test_the_rows_of_tables_count_and_no_piece_has_many(tmp_path):
    tables = [[["name"] * PIECE_COUNT, 1], [["name"] * 30, 1]]
    items = [*tables, 7, *tables, *[8] * 20]
    with (tmp_path / "lines").open("wb") as out:
        answer_pieces.write_answer(out, 2, {"checkpoints": items})
    *pieces, line = (tmp_path / "lines").read_bytes().splitlines()
    count = 2 * (PIECE_COUNT + 30) + 21
    assert json.loads(line)["result"]["checkpoints"] == count
    assert [len(json.loads(piece[1:])) for piece in pieces] == [1, 2, 1, 21]
    packed = PackedItems([pack(piece.removeprefix(answer_pieces.MARK)) for piece in pieces], count)
    assert (packed.expected_count, [*packed]) == (count, items)


def test_one_table_is_a_piece(tmp_path):
    with (tmp_path / "lines").open("wb") as out:
        answer_pieces.write_answer(out, 2, {"checkpoints": [[["name"] * 30, 1]]})
    assert len((tmp_path / "lines").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("count", [-1, 2 * PIECE_COUNT + 1, None, "7", 1.0, [3]])
def test_a_length_that_cannot_be_is_replaced_by_the_most_that_can(count):
    packed = PackedItems([pack(b"[1]"), pack(b"[2]")], count)
    assert (packed.expected_count, [*packed]) == (2 * PIECE_COUNT, [1, 2])


def test_more_items_than_were_announced_are_refused():
    with pytest.raises(ValueError, match="more than 1 items"):
        list(PackedItems([pack(b"[1]"), pack(b"[2]")], 1))
