"""Nothing stays of what the site's quota command starts, whatever its user makes of it."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from checkpoints import escaping_command
from checkpoints.test_agent import scan_item
from ckptd.checkpoints.agent import client
from ckptd.checkpoints.agent.client import Batch
from demo.patience import Deadline, allow
from support.child_stopper import list_children
from support.shared_agent import start_with
from support.unit_capabilities import limit_to_unit

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has children of several users")
ANN, BOB = 54_321, 54_322


@pytest.fixture
def folder():
    """A directory for each of two users, and one that both may write into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        for uid in (ANN, BOB):
            Path(name, str(uid)).mkdir()
            os.chown(Path(name, str(uid)), uid, uid)
        Path(name, "left").mkdir()
        Path(name, "left").chmod(0o777)
        yield Path(name)


# an agent on a machine for which there are no seccomp filters
UNFILTERED = """
import json, os, sys
from ckptd.checkpoints.agent import agent_operations, process, syscall_filter
from ckptd.checkpoints.agent.request_policy import RequestPolicy
syscall_filter.limit_system_calls = lambda _profile: False
agent_operations.preload()
policy = RequestPolicy(quota_command=tuple(json.loads(os.environ["QUOTA_COMMAND"])))
process.serve(int(sys.argv[1]), lambda: policy, agent_operations.OPERATIONS)
"""


def make_command(folder, way, how):
    program = folder / "escaping_command.py"
    program.write_text(Path(escaping_command.__file__).read_text())
    return ["/usr/bin/python3", "-I", "-S", str(program), way, how, str(folder / "left")]


def start(folder, way, how):
    argv = make_command(folder, way, how)
    with mock.patch.object(client, "subprocess", SimpleNamespace(Popen=start_as_in_the_unit)):
        return start_with(f"[scan]\nquota_command = {json.dumps(argv)}\n")


def start_as_in_the_unit(command, **options):
    """Start the agent with no more capabilities than the unit has, and with `ProtectProc=invisible`."""
    hide = 'mount -t proc -o hidepid=invisible proc /proc && exec "$@"'
    return subprocess.Popen(["unshare", "--mount", "/bin/sh", "-c", hide, "sh", *limit_to_unit(), *command], **options)


def submit(agent, folder, uid):
    item = {**scan_item(folder / str(uid)), "asks_quota": True}
    return agent._submit(Batch(uid=uid, operation="scan", items=(item,), deadline_seconds=120)).future


def wait_until(condition):
    deadline = Deadline(20)
    while not condition():
        assert not deadline.has_passed()
        time.sleep(0.01)


def list_left(folder, *uids):
    """Return the processes of these users, or of both, that run the command or were forked from it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_command = str(folder / "left").encode() in (path / "cmdline").read_bytes()
            if is_command and read_uid(path.name) in (uids or (ANN, BOB)):
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def read_uid(process_id):
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Uid:")).split()[1])


def was_anything_left(folder):
    return any(path.name.isdecimal() for path in (folder / "left").iterdir())


@pytest.mark.parametrize("way", escaping_command.WAYS)
def test_what_a_command_leaves_behind_ends_with_it(folder, way):
    agent = start(folder, way, "ends")
    try:
        [answer] = submit(agent, folder, ANN).result(allow(60))
        assert (answer["quota_left_bytes"], answer["quota_error"]) == (1, None)
        wait_until(lambda: not list_left(folder) and not list_children(agent._process.pid))
    finally:
        agent.close()


@pytest.mark.parametrize("way", ["double-forked", "running-away"])
def test_what_a_command_leaves_behind_ends_with_its_time(folder, way):
    agent = start(folder, way, "hangs")
    try:
        [answer] = submit(agent, folder, ANN).result(allow(60))
        assert answer["quota_error"] == "it took over 10 s"
        assert was_anything_left(folder)
        wait_until(lambda: not list_left(folder) and not list_children(agent._process.pid))
    finally:
        agent.close()


@pytest.mark.parametrize("way", escaping_command.WAYS)
def test_what_a_command_leaves_behind_ends_if_its_user_kills_the_process_that_waits_for_it(folder, way):
    """And nothing happens to the command of another user."""
    agent = start(folder, way, "hangs")
    try:
        answers = {uid: submit(agent, folder, uid) for uid in (ANN, BOB)}
        wait_until(lambda: all((folder / f"left/begun-{uid}").exists() for uid in answers))
        [child] = [child for child in list_children(agent._process.pid) if read_uid(child) == ANN]
        subprocess.run(["/bin/kill", "-KILL", str(child)], user=ANN, group=ANN, extra_groups=[], check=True)
        [answer] = answers[ANN].result(allow(10))
        assert answer.reason == "it ended before it had answered"
        wait_until(lambda: not list_left(folder, ANN))
        assert list_left(folder, BOB)
        assert not answers[BOB].done()
    finally:
        agent.close()
    wait_until(lambda: not list_left(folder))


@pytest.mark.parametrize("way", sorted(set(escaping_command.WAYS) - {"running-away"}))
def test_without_seccomp_filters_it_ends_with_the_request(folder, tmp_path, monkeypatch, way):
    (tmp_path / "unfiltered_agent.py").write_text(UNFILTERED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("QUOTA_COMMAND", json.dumps(make_command(folder, way, "ends")))
    agent = client.AgentClient("unfiltered_agent")
    try:
        agent.wait_until_ready()
        [answer] = submit(agent, folder, ANN).result(allow(60))
        assert answer["quota_left_bytes"] == 1
        wait_until(lambda: was_anything_left(folder) and not list_left(folder))
        wait_until(lambda: not list_children(agent._process.pid))
    finally:
        agent.close()
