"""The client of the agent: answers are read while requests are being sent."""

import threading

import pytest

from ckptd.checkpoints.agent import client as agent_client
from ckptd.checkpoints.agent.client import SILENCE, AgentClient, Batch
from ckptd.core.model import Unknown
from demo.patience import allow

BIG = "x" * 100_000
# an agent that answers each request at once, at length, and reads the next one only when its answer is read
ECHO = """
import json, socket, sys
connection = socket.socket(fileno=int(sys.argv[1]))
connection.sendall(b"{}\\n")
kept = []
for line in connection.makefile("rb"):
    request = json.loads(line)
    if request["operation"] == "kept":
        kept.append(request)
        continue
    if request["operation"] == "release":
        for each in kept:
            connection.sendall(json.dumps({"id": each["id"], "done": True, "reason": "released"}).encode() + b"\\n")
    for index, item in enumerate(request["items"]):
        answer = {"id": request["id"], "index": index, "result": item}
        connection.sendall(json.dumps(answer).encode() + b"\\n")
    connection.sendall(json.dumps({"id": request["id"], "done": True, "reason": None}).encode() + b"\\n")
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    (tmp_path / "echoing_agent.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = AgentClient("echoing_agent")
    started.wait_until_ready()
    yield started
    started.close()


def test_long_requests_and_long_answers_do_not_wait_for_each_other(client):
    batch = Batch(uid=0, operation="scan", items=({"text": BIG},) * 5, deadline_seconds=20)
    found = []
    threads = [threading.Thread(target=lambda: found.append(client.run([batch] * 5)), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=allow(60))
    assert len(found) == 4
    assert all(answer == {"text": BIG} for answers in found for each in answers for answer in each)


def batch_of(operation, *texts, seconds=20):
    return Batch(uid=0, operation=operation, items=tuple({"text": each} for each in texts), deadline_seconds=seconds)


def test_answers_come_while_others_are_waited_for(client):
    answering = client.run_as_answered([batch_of("scan", "a"), batch_of("kept", "b"), batch_of("scan", "c", "d")])
    assert sorted(next(answering)) == [(0, [{"text": "a"}]), (2, [{"text": "c"}, {"text": "d"}])]
    client.run([batch_of("release")])
    assert list(answering) == [[(1, [Unknown(what="agent", reason="released")])]]


def test_what_is_not_answered_in_time_comes_in_the_end(client, monkeypatch):
    monkeypatch.setattr(agent_client, "_GRACE_SECONDS", 0)
    answering = client.run_as_answered([batch_of("kept", "b", seconds=0.5), batch_of("echo", "a", seconds=0.5)])
    found = [each for some in answering for each in some]
    assert sorted(found, key=lambda each: each[0]) == [(0, [SILENCE]), (1, [{"text": "a"}])]
