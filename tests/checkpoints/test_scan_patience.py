"""A scan that still computes at its deadline gets more time; one that waits for a file system gets none."""

import os
import sys
import time

import pytest

from checkpoints.test_agent import SOMEONE, scan_item
from ckptd.checkpoints.agent import scan_patience
from ckptd.checkpoints.agent.client import AgentClient, Batch
from ckptd.checkpoints.agent.scan_patience import MOST, ScanPatience
from ckptd.core.model import Unknown
from demo.patience import Deadline

# an agent whose scans answer after three times their deadline, on a host where they use this much of the processor
LATE = """
import itertools, os, sys, time
from ckptd.checkpoints.agent import process, scan_patience
from ckptd.checkpoints.agent.request_policy import RequestPolicy
used = itertools.count(step=int(sys.argv[2]))
scan_patience._read_processor_seconds = lambda process_id: next(used)
def answer_late(item):
    time.sleep(3 * float(sys.argv[3]))
    return {"is_late": True}
process.serve(int(sys.argv[1]), RequestPolicy, {"scan": answer_late, "read_mutes": answer_late})
"""
LATE_ANSWER = {"is_late": True}
GIVEN_UP = Unknown(what="agent", reason="it did not answer in time")
SECONDS = 0.5


@pytest.mark.parametrize(
    ("operation", "used", "expected"), [("scan", 1, LATE_ANSWER), ("scan", 0, GIVEN_UP), ("read_mutes", 1, GIVEN_UP)]
)
def test_only_a_scan_that_computes_is_answered_after_its_deadline(tmp_path, monkeypatch, operation, used, expected):
    (tmp_path / "late_agent.py").write_text(LATE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    client = AgentClient("late_agent", [str(used), str(SECONDS)])
    try:
        client.wait_until_ready()
        item = scan_item(tmp_path) if operation == "scan" else {"work_dir": str(tmp_path)}
        uid = os.getuid() or SOMEONE
        [[answer]] = client.run([Batch(uid=uid, operation=operation, items=(item,), deadline_seconds=SECONDS)])
    finally:
        client.close()
    assert answer == expected


def list_times(monkeypatch, *used):
    """Return until when a scan with a deadline of 60 s may go on, each time that it is asked in time."""
    answers = iter(used)
    monkeypatch.setattr(scan_patience, "_read_processor_seconds", lambda process_id: next(answers, used[-1]))
    patience = ScanPatience(1, 60.0, 1000.0)
    times = [patience.first_at]
    while (longer := patience.find_next(times[-1])) is not None:
        times.append(longer)
    return [each - 1000.0 for each in times]


def test_a_scan_goes_on_as_long_as_it_uses_processor_time(monkeypatch):
    assert list_times(monkeypatch, 5.0, 5.0) == [54, 60]
    assert list_times(monkeypatch, 5.0, 5.1, 5.2, 5.2) == [54, 60, 66, 72]
    assert max(list_times(monkeypatch, *range(200))) == 60 * MOST


def test_it_is_asked_late_where_the_agent_is_late(monkeypatch):
    monkeypatch.setattr(scan_patience, "_read_processor_seconds", lambda process_id: 1.0)
    patience = ScanPatience(1, 60.0, 0.0)
    assert patience.find_next(90.0) == 96.0, "it is not known yet whether it is at work"
    assert patience.find_next(96.0) is None


@pytest.mark.parametrize("uid", [None, SOMEONE])
def test_the_processor_time_of_another_users_process_is_read(uid):
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root has children of several users")
    child = os.fork()
    if child == 0:
        if uid is not None:
            os.setresuid(uid, uid, uid)
        while True:
            pass
    try:
        deadline = Deadline(20)
        while scan_patience._read_processor_seconds(child) < 0.02:
            assert not deadline.has_passed()
            time.sleep(0.01)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert scan_patience._read_processor_seconds(child) == 0.0
