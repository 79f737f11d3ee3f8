"""The agent of a daemon changes something only while the daemon holds the lease of its cluster."""

import mmap
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.client import AgentClient, Batch
from ckptd.checkpoints.agent.lease_memory import LEASE_OVER, NOT_BEGUN, LeaseMemory, LeaseView, read_elapsed
from ckptd.core.model import Unknown

USER = 54321 if os.geteuid() == 0 else os.geteuid()
# `restore` takes as many seconds as its id says
AGENT = """
import sys, time
from pathlib import Path
from ckptd.checkpoints.agent import agent_operations, process
from ckptd.checkpoints.agent.lease_memory import LeaseView
from ckptd.checkpoints.agent.request_policy import RequestPolicy
def act(item):
    Path(item["place"], "begun").touch()
    time.sleep(float(item["act_id"]))
    Path(item["place"], "done").touch()
    return {}
def look_up(item):
    return {"state": "x" * 2_000_000 if item["act_id"] == "long" else None}
agent_operations.preload()
descriptor, lease = map(int, sys.argv[1:])
process.serve(descriptor, RequestPolicy, {"restore": act, "look_up": look_up}, LeaseView(lease))
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    (tmp_path / "slow_agent.py").write_text(AGENT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    lease = LeaseMemory()
    started = AgentClient("slow_agent", [str(lease.descriptor)], lease)
    started.wait_until_ready()
    yield started
    started.close()


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def restore(client, folder, seconds):
    item = {"place": str(folder), "act_id": str(seconds)}
    [[answer]] = client.run([Batch(uid=USER, operation="restore", items=(item,), deadline_seconds=60)])
    return answer


def list_names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_begun_before_and_after_the_lease(client, folder):
    for show in (lambda: None, lambda: client.show_lease(read_elapsed() - 1), lambda: client.show_lease(0.0)):
        show()
        assert restore(client, folder, 0) == Unknown(what="agent", reason=f"refused: {NOT_BEGUN}")
    assert list_names(folder) == []
    client.show_lease(read_elapsed() + 60)
    assert restore(client, folder, 0) == {}
    assert list_names(folder) == ["begun", "done"]


def test_reading_needs_no_lease(client, folder):
    item = {"places": [str(folder)], "act_id": "a"}
    [[answer]] = client.run([Batch(uid=USER, operation="look_up", items=(item,), deadline_seconds=60)])
    assert answer == {"state": None}


def test_a_request_that_is_carried_out_ends_with_the_lease(client, folder):
    client.show_lease(read_elapsed() + 2)
    began = time.monotonic()
    assert restore(client, folder, 30) == Unknown(what="agent", reason=LEASE_OVER)
    assert time.monotonic() - began < 30
    assert list_names(folder) == ["begun"]


def test_a_main_process_that_reads_no_answers_keeps_nothing_alive(client, folder, monkeypatch):
    """It may be stopped while it waits for long answers, and another daemon acts meanwhile."""
    is_read, accept = threading.Event(), client._accept
    monkeypatch.setattr(client, "_accept", lambda message: (is_read.wait(60), accept(message)))
    client.show_lease(read_elapsed() + 2)
    with ThreadPoolExecutor() as threads:
        acting = threads.submit(restore, client, folder, 6)
        item = {"places": [str(folder)], "act_id": "long"}
        batch = Batch(uid=USER, operation="look_up", items=(item,) * 10, deadline_seconds=60)
        reading = threads.submit(client.run, [batch])
        time.sleep(8)
        assert list_names(folder) == ["begun"]
        is_read.set()
        assert acting.result() == Unknown(what="agent", reason=LEASE_OVER)
        assert [len(answer["state"]) for answer in reading.result()[0]] == [2_000_000] * 10


def test_a_lease_that_is_renewed_ends_nothing(client, folder):
    client.show_lease(read_elapsed() + 2)
    renewal = threading.Timer(1, lambda: client.show_lease(read_elapsed() + 60))
    renewal.start()
    assert restore(client, folder, 3) == {}
    renewal.join()
    assert list_names(folder) == ["begun", "done"]


def test_the_agent_cannot_change_the_lease():
    lease = LeaseMemory()
    with pytest.raises(PermissionError):
        mmap.mmap(lease.descriptor, mmap.PAGESIZE)
    view = LeaseView(os.dup(lease.descriptor))
    lease.close()
    assert view.seconds_left < 0
    lease.write(read_elapsed() + 100)
    assert 99 < view.seconds_left <= 100
