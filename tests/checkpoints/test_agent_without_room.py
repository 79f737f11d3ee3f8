"""An agent that can start no process, because a user's programs use up what the service may have, waits."""

import os
import subprocess

import pytest

from ckptd.checkpoints.agent.client import AgentClient, Batch
from demo.patience import allow

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the kernel counts the processes of root only elsewhere")
USER = 58_123  # who has no other process
# it is a user itself, because that limit does not hold for root
AGENT = f"""
import os, resource, sys
from ckptd.checkpoints.agent import agent_operations, process
from ckptd.checkpoints.agent.request_policy import RequestPolicy
agent_operations.preload()
os.dup2(os.open(os.environ["AGENT_LOG"], os.O_WRONLY | os.O_CREAT, 0o644), 2)
os.setresgid({USER}, {USER}, {USER})
os.setresuid({USER}, {USER}, {USER})
resource.setrlimit(resource.RLIMIT_NPROC, (1, 50))
process.serve(int(sys.argv[1]), RequestPolicy, {{"look_up": lambda item: {{"state": None}}}})
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    (tmp_path / "agent_without_room.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("AGENT_LOG", str(tmp_path / "log"))
    started = AgentClient("agent_without_room")
    started.wait_until_ready()
    yield started
    started.close()


def test_a_request_waits_until_a_process_can_be_started(client, tmp_path):
    item = {"places": ["/nowhere"], "act_id": "a"}
    answers = [
        client._submit(Batch(uid=USER, operation="look_up", items=(item,), deadline_seconds=60)).future
        for _ in range(3)
    ]
    client.ping()  # the agent has tried the first one by then
    assert not client.is_gone
    assert not any(each.done() for each in answers)
    lift = ["prlimit", f"--pid={client._process.pid}", "--nproc=50:50"]
    subprocess.run(lift, user=USER, group=USER, extra_groups=[], check=True)
    assert [each.result(allow(20)) for each in answers] == [[{"state": None}]] * 3
    said = "agent: no process can be started: Resource temporarily unavailable; retrying every 1 s\n"
    assert (tmp_path / "log").read_text() == said
