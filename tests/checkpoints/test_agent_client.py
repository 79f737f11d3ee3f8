"""The client of the agent: answers are read while requests are being sent."""

import threading

import pytest

from ckptd.checkpoints.agent.client import AgentClient, Batch
from demo.patience import allow

BIG = "x" * 100_000
# an agent that answers each request at once, at length, and reads the next one only when its answer is read
ECHO = """
import json, socket, sys
connection = socket.socket(fileno=int(sys.argv[1]))
connection.sendall(b"{}\\n")
for line in connection.makefile("rb"):
    request = json.loads(line)
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
