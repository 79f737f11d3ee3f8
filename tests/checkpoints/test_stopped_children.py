"""Users stop and continue the agent's children, which run as they do: the agent ends these at once."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.client import NOT_REACHED, AgentClient, Batch
from ckptd.checkpoints.agent.process import MAX_CHILDREN, STOPPED
from ckptd.core.model import Unknown
from demo.patience import Deadline, allow
from support.child_stopper import list_children

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has children of several users")
ANN, BOB = 54_321, 54_322
OTHERS = range(60_000, 60_000 + MAX_CHILDREN - 1)
WAS_STOPPED = Unknown(what="agent", reason=STOPPED)
# `look_up` writes its user and its process, or those of a child that it waits for, into a file; "wait" waits for ever
AGENT = """
import os, sys, time
from pathlib import Path
from ckptd.checkpoints.agent import abandonable_child, agent_operations, process
from ckptd.checkpoints.agent.request_policy import RequestPolicy
def note(folder):
    with open(f"{folder}/started", "a") as file:
        file.write(f"{os.getuid()} {os.getpid()}\\n")
def look_up(item):
    folder, what = item["places"][0], item["act_id"]
    def wait(_beat=None):
        note(folder)
        while what != "note":
            time.sleep(600)
    abandonable_child.run(wait, 600) if what == "child" else wait()
    return {"state": None}
agent_operations.preload()
process.serve(int(sys.argv[1]), RequestPolicy, {"look_up": look_up})
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    (tmp_path / "waiting_agent.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    started = AgentClient("waiting_agent")
    started.wait_until_ready()
    yield started
    started.close()


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        (Path(name) / "started").touch()
        (Path(name) / "started").chmod(0o666)
        yield Path(name)


def submit(client, folder, uid, *what):
    items = tuple({"places": [str(folder)], "act_id": each} for each in what)
    return client._submit(Batch(uid=uid, operation="look_up", items=items, deadline_seconds=600)).future


def wait_for_started(folder, count):
    """Return the users and processes that have started, in order, as soon as there are so many."""
    wait_until(lambda: len(read_started(folder)) >= count)
    return read_started(folder)


def read_started(folder):
    return [tuple(map(int, line.split())) for line in (folder / "started").read_text().splitlines()]


def send(uid, process_id, name):
    """Send a signal as a user."""
    subprocess.run(["/bin/kill", f"-{name}", str(process_id)], user=uid, group=uid, extra_groups=[], check=True)


@pytest.mark.parametrize("name", ["STOP", "TSTP"])
@pytest.mark.parametrize("what", ["wait", "child"])
def test_a_child_that_its_user_stops_is_ended_at_once(client, folder, what, name):
    answers = submit(client, folder, ANN, "note", what, "note")
    send(ANN, wait_for_started(folder, 2)[-1][1], name)
    assert answers.result(allow(10)) == [{"state": None}, WAS_STOPPED, NOT_REACHED]
    assert submit(client, folder, BOB, "note").result(allow(10)) == [{"state": None}]
    wait_for_end(client)


@pytest.mark.parametrize("what", ["wait", "child"])
def test_a_stop_is_noticed_even_if_it_is_over_before_the_agent_can_look(client, folder, what):
    answers = submit(client, folder, ANN, what)
    [(_, process_id)] = wait_for_started(folder, 1)
    client._process.send_signal(signal.SIGSTOP)
    for _ in range(2):
        send(ANN, process_id, "STOP")
        wait_until(lambda: read_state(process_id) == "T")
        send(ANN, process_id, "CONT")
        wait_until(lambda: read_state(process_id) != "T")
    client._process.send_signal(signal.SIGCONT)
    assert answers.result(allow(10)) == [WAS_STOPPED]
    wait_for_end(client)


def read_state(process_id):
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(condition):
    deadline = Deadline(20)
    while not condition():
        assert not deadline.has_passed()
        time.sleep(0.005)


def wait_for_end(client):
    wait_until(lambda: not list_children(client._process.pid))


def test_another_user_can_stop_no_child(client, folder):
    answers = submit(client, folder, ANN, "wait")
    [(_, process_id)] = wait_for_started(folder, 1)
    with pytest.raises(subprocess.CalledProcessError):
        send(BOB, process_id, "STOP")
    assert not answers.done()


def test_a_user_who_stops_a_child_waits_until_all_others_were_served(client, folder):
    first = submit(client, folder, ANN, "wait")
    for uid in OTHERS:
        submit(client, folder, uid, "wait")
    process_id = dict(wait_for_started(folder, MAX_CHILDREN))[ANN]
    last = submit(client, folder, ANN, "note")
    submit(client, folder, BOB, "note")
    client.ping()
    send(ANN, process_id, "STOP")
    assert first.result(allow(10)) == [WAS_STOPPED]
    assert last.result(allow(10)) == [{"state": None}]
    assert [uid for uid, _ in wait_for_started(folder, MAX_CHILDREN + 2)[MAX_CHILDREN:]] == [BOB, ANN]


def test_a_child_that_a_user_stops_after_the_daemon_has_ended_ends_too(client, folder):
    submit(client, folder, ANN, "wait")
    [(_, process_id)] = wait_for_started(folder, 1)
    os.kill(process_id, signal.SIGSTOP)
    client.close()
    wait_until(lambda: not Path(f"/proc/{process_id}").exists())
