"""A directory whose files cannot all be read within the time of one scan is read over several scans."""

import json
import mmap
import os
import struct
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.checkpoints import formats
from ckptd.checkpoints.agent import request_child, scan_json
from ckptd.checkpoints.agent.agent_operations import OPERATIONS
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.interface import Examination
from ckptd.checkpoints.scanning import examination, inspection, scan_operation
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.discovery.scan_schedule import UNREAD_GAP, WatchedRun, after_scan
from ckptd.core.model import CheckpointState, RunKey
from ckptd.core.model.checkpoints import UNREAD
from support.known_rows import complete, encode_known
from support.queue_facts import make_checkpoint, make_scan, merge

COMPLETE, UNKNOWN, DAMAGED = CheckpointState.COMPLETE, CheckpointState.UNKNOWN, CheckpointState.DAMAGED
NOW = datetime.now(UTC)


def write(path, step, age=3600.0):
    head = json.dumps(
        {"__metadata__": {"step": str(step)}, "w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    )
    path.write_bytes(struct.pack("<Q", len(head)) + head.encode() + bytes(16))
    os.utime(path, (time.time() - age,) * 2)


def look(root, known=(), seconds=30.0):
    over = ChildLimits(seconds=seconds, until=time.monotonic())
    return inspect_tree(root, now=NOW + timedelta(hours=1), known=known, limits=over)


def list_states(found):
    return {each.path.name: each.state for each in found.checkpoints}


def test_each_scan_goes_on_where_the_one_before_had_no_time_left(tmp_path):
    names = [f"step_{step}.safetensors" for step in range(5)]
    for step, name in enumerate(names):
        write(tmp_path / name, step, age=3600 - step)
    found, known = None, ()
    for count in range(1, 6):
        found = look(tmp_path, known)
        known = found.checkpoints
        assert found.unread_count == 5 - count
        expected = {name: COMPLETE if step >= 5 - count else UNKNOWN for step, name in enumerate(names)}
        assert list_states(found) == expected, "the newest is read first"
        assert {each.reason for each in known if each.state is UNKNOWN} <= {UNREAD}
        assert (found.fingerprint is None) == (count < 5), "the directory counts as read when all of it was"


def test_parts_that_were_not_read_leave_their_checkpoint_unknown(tmp_path):
    for number in (0, 1):
        write(tmp_path / f"step_7_rank_{number}.safetensors", 7)
    first = look(tmp_path)
    assert [each.state for each in first.checkpoints] == [UNKNOWN]
    second = look(tmp_path, first.checkpoints)
    assert second.unread_count == 0
    assert not any(UNREAD in (part.reason or "") for each in second.checkpoints for part in (each, *each.parts))


class Slow:
    """A format whose first file no one can read in time."""

    name = "slow"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory, reader):
        for file in directory.by_suffix.get("slow", ()):
            yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim, reader, level):
        if claim.path.startswith("9"):
            time.sleep(60)
        return Examination(step=7)


def test_a_file_that_always_takes_too_long_does_not_keep_the_others_from_being_read(monkeypatch, tmp_path):
    monkeypatch.setitem(formats.FORMATS, "slow", Slow())
    for number in (1, 5, 9):
        path = tmp_path / f"{number}.slow"
        path.write_bytes(b"content")
        os.utime(path, (time.time() - 3600 + number,) * 2)
    known = ()
    reasons = []
    for _ in range(4):
        found = look(tmp_path, known, seconds=0.5)
        known = found.checkpoints
        reasons.append({each.path.name: each.reason for each in known})
    assert "did not finish" in reasons[0]["9.slow"]
    assert reasons[1] == {"9.slow": UNREAD, "5.slow": None, "1.slow": UNREAD}
    assert {"5.slow": None, "1.slow": None}.items() <= reasons[3].items()


def test_what_was_found_damaged_is_not_taken_for_what_nobody_read(tmp_path):
    write(tmp_path / "step_1.safetensors", 1)
    write(tmp_path / "step_2.safetensors", 2, age=1800)
    cut = tmp_path / "step_2.safetensors"
    os.truncate(cut, cut.stat().st_size - 4)
    os.utime(cut, (time.time() - 1800,) * 2)
    first = look(tmp_path)
    assert list_states(first) == {"step_1.safetensors": UNKNOWN, "step_2.safetensors": DAMAGED}
    second = look(tmp_path, first.checkpoints)
    assert list_states(second)["step_1.safetensors"] is COMPLETE


def scan_through_the_agent(root, known, seconds=0.0):
    item = {
        "directory": str(root),
        "now": NOW.timestamp(),
        "asks_quota": False,
        "work_dirs": [],
        "resuming_jobs": [],
        "candidates": [],
        "read_since": None,
        "known": encode_known(known, root, os.getuid()),
        "fingerprint": None,
        "shares_parser": False,
        "results": None,
    }
    answer = request_child.answer("scan", item, RequestPolicy(), OPERATIONS, seconds)
    return complete(scan_json.decode_scan(json.loads(json.dumps(answer)), len(known)), known)


def test_a_request_leaves_what_it_has_no_time_for_to_the_next(monkeypatch, tmp_path):
    monkeypatch.setattr(scan_operation, "LEAST_READING_SECONDS", 0.0)
    for step in range(3):
        write(tmp_path / f"step_{step}.safetensors", step)
    left, known = [], ()
    while not left or left[-1]:
        scan = scan_through_the_agent(tmp_path, known)
        known = scan.checkpoints
        left.append(scan.unread_count)
    assert left == [2, 1, 0]
    assert {each.state for each in known} == {COMPLETE}


class SlowHost:
    """A clock that children share, on which each call of some functions takes its seconds, and nothing else any."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch
        self._shared = memoryview(mmap.mmap(-1, 8)).cast("d")
        self._begun_at = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: self._begun_at + self.seconds)

    @property
    def seconds(self):
        return self._shared[0]

    def delay(self, module, name, seconds):
        work = getattr(module, name)

        def take_long(*args, **options):
            self._shared[0] += seconds
            return work(*args, **options)

        self._monkeypatch.setattr(module, name, take_long)


@pytest.mark.parametrize("listing", [1.0, 10.0, 13.0])
def test_a_request_leaves_time_for_what_follows_reading(monkeypatch, tmp_path, listing):
    host = SlowHost(monkeypatch)
    host.delay(inspection, "list_tree", listing)
    host.delay(examination, "examine_claim", 1.0)
    host.delay(inspection, "group", 2.5 * listing)
    for step in range(30):
        write(tmp_path / f"step_{step}.safetensors", step)
    left, known = [30], ()
    while left[-1]:
        before = host.seconds
        scan = scan_through_the_agent(tmp_path, known, seconds=60.0)
        known = scan.checkpoints
        assert host.seconds - before <= 60, "an answer that comes too late is lost"
        assert scan.unread_count < left[-1], "each request gets further"
        left.append(scan.unread_count)
    assert {each.state for each in known} == {COMPLETE}


@pytest.mark.parametrize(
    ("took", "reads"),
    [(1, 35), (8, 28), (10, 20), (14, 14), (20, 20), (100, 60)],
    ids=["until its usual end", "so, too", "what the reserve leaves", "as long as before", "so, too", "its share"],
)
def test_how_long_a_scan_of_a_minute_reads_after_what_took_so_long(monkeypatch, took, reads):
    limits = ChildLimits(until=36.0, least_seconds=12.0, begun_at=0.0, over_at=60.0)
    monkeypatch.setattr(time, "monotonic", lambda: float(took))
    assert limits.keep_reserve().begin_reading().until - took == reads
    assert limits.keep_reserve().until <= limits.keep_reserve().begin_reading().until, "the parent waits for no more"


def test_the_next_scan_comes_at_once(tmp_path):
    write(tmp_path / "step_1.safetensors", 1)
    scan = scan_through_the_agent(tmp_path, (), seconds=30.0)
    assert scan.unread_count == 0
    watched = WatchedRun(key=RunKey(cluster="c", uid=1000, directory=str(tmp_path)), due_at=NOW)
    interval = timedelta(minutes=5)
    for unread_count, gap in ((0, interval), (1, UNREAD_GAP)):
        assert after_scan(watched, replace(scan, unread_count=unread_count), interval, NOW).due_at == NOW + gap


@pytest.mark.parametrize("state", list(CheckpointState))
@pytest.mark.parametrize("reason", [UNREAD, f"rank_3.pt: {UNREAD}"])
def test_what_is_on_record_of_a_checkpoint_stays_until_there_is_time_to_read_it_again(state, reason):
    before = make_checkpoint("a", state=state, reason="as it was read")
    known = merge((), make_scan(1, before)).appeared
    unread = replace(before, state=UNKNOWN, reason=reason)
    assert merge(known, make_scan(2, unread)).is_empty
    saved_again = replace(unread, identities=(before.identities[0]._replace(inode=7, modified_ns=7),))
    changes = merge(known, make_scan(3, saved_again))
    assert [each.checkpoint.state for each in (*changes.changed, *changes.appeared)] == [UNKNOWN]
