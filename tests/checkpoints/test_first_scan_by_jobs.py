"""First scans whose rest jobs of the owner read: equal to a scan on this node, whatever their owner makes of them."""

import json
import os
import struct
import time
from datetime import UTC, datetime

import numpy as np
import pytest

from ckptd.checkpoints.agent import request_child, requests, scan_json
from ckptd.checkpoints.agent.agent_operations import OPERATIONS
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.formats.interface import Claim, Examination, Shape
from ckptd.checkpoints.scanning import job_results, scan_operation
from ckptd.checkpoints.scanning.job_results import JobResults, ReadPiece
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.checkpoints.verify_jobs import ticket_files, verify_task
from ckptd.core.model import CheckpointState
from ckptd.core.verification.job_policy import VerifyJobPolicy
from ckptd.core.verification.scan_tasks import count_tasks, find_task
from ckptd.core.verification.task_results import MAX_BYTES
from support.known_rows import complete, encode_known

TICKET = "0123456789abcdef"
STEPS = range(1, 13)
DAMAGED = 5
NOW = datetime.now(UTC)
COMPLETE, UNKNOWN = CheckpointState.COMPLETE, CheckpointState.UNKNOWN


def write(path, step, size=16):
    array = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    head = json.dumps({"__metadata__": {"step": str(step)}, "w": array})
    path.write_bytes(struct.pack("<Q", len(head)) + head.encode() + bytes(size))
    os.utime(path, (time.time() - 36_000 + step,) * 2)


class Unsafe:
    def __reduce__(self):
        return os.system, ("true",)


def save_unsafe(path):
    np.save(path, np.array([Unsafe()], dtype=object), allow_pickle=True)


class Site:
    """A directory that one scan cannot read, and the place of the results of its owner's jobs."""

    def __init__(self, root):
        self.directory, self.tickets = root / "run", root / "tickets"
        self.directory.mkdir()
        self.tickets.mkdir()
        for step in STEPS:
            write(self.directory / f"step_{step}.safetensors", step, 3 if step == DAMAGED else 16)
        for rank in (0, 1):
            write(self.directory / f"late_99_rank_{rank}.safetensors", 99)
        self.policy = VerifyJobPolicy(partition="main", directory=str(self.tickets), scan_entries=1)

    def request(self, task_count, seconds=60.0):
        asked = {"directory": str(self.directory), "task_count": task_count, "max_depth": 6, "max_entries": 1000}
        ticket_files.write_request(str(self.tickets / TICKET), {"scan": {**asked, "seconds": seconds}})

    def run_tasks(self, task_count, **options):
        """Do what the tasks of a job do on their nodes; return their results."""
        self.request(task_count, **options)
        for task in range(task_count):
            verify_task.run_task(str(self.tickets / TICKET), task)
        return [json.loads(self.find_result(task).read_text()) for task in range(task_count)]

    def find_result(self, task=0):
        return self.tickets / TICKET / f"result-{task}.json"

    def scan(self, tasks=(), known=(), policy=None):
        """Scan with time for one file."""
        results = {"ticket": TICKET, "tasks": list(tasks)} if tasks else None
        item = {
            "directory": str(self.directory),
            "now": NOW.timestamp(),
            "asks_quota": False,
            "work_dirs": [],
            "resuming_jobs": [],
            "candidates": [],
            "read_since": None,
            "known": encode_known(known, self.directory, os.getuid()),
            "fingerprint": None,
            "shares_parser": False,
            "results": results,
        }
        policy = RequestPolicy(verify_jobs=self.policy if policy is None else policy)
        answer = request_child.answer("scan", item, policy, OPERATIONS, 0.0)
        return complete(scan_json.decode_scan(json.loads(json.dumps(answer)), len(known)), known)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(scan_operation, "LEAST_READING_SECONDS", 0.0)
    monkeypatch.setattr(ChildLimits, "begin_reading", lambda limits: limits)
    return Site(tmp_path)


def read_alone(site):
    """Return what scans on this node find after as many as it takes."""
    scan, known = None, ()
    while scan is None or scan.unread_count:
        scan = site.scan(known=known)
        known = scan.checkpoints
    return known


@pytest.mark.parametrize("task_count", [1, 2, 4, 32])
def test_what_jobs_and_this_node_read_together_is_what_this_node_reads_alone(site, task_count):
    first = site.scan()
    assert first.unread_count == len(STEPS) + 1, "the newest alone was read"
    results = site.run_tasks(task_count)
    last = first
    for start in range(0, task_count, requests.MAX_RESULTS):
        last = site.scan(range(task_count)[start : start + requests.MAX_RESULTS], last.checkpoints)
    assert last.unread_count == 0
    together = {each.path.name: each for each in last.checkpoints}
    assert together == {each.path.name: each for each in read_alone(site)}
    assert [name for name, each in together.items() if each.state is not COMPLETE] == [f"step_{DAMAGED}.safetensors"]
    read = [piece["path"] for result in results for piece in result["pieces"]]
    assert len(read) == len(set(read)) == len(STEPS) + 1, "one task reads each, and none speaks of damage"


def test_the_results_of_some_tasks_are_taken_before_the_others_have_any(site):
    site.run_tasks(2)
    os.unlink(site.find_result(1))
    share = sum(find_task(f"step_{step}.safetensors", 2) == 0 for step in STEPS)
    assert 1 < share < len(STEPS)
    assert 0 < site.scan(range(2)).unread_count <= len(STEPS) + 1 - share


def test_a_task_without_time_leaves_what_it_has_read_oldest_first(site):
    (result,) = site.run_tasks(1, seconds=0.0)
    assert [piece["path"] for piece in result["pieces"]] == ["step_1.safetensors"]


def test_a_file_that_was_saved_again_after_a_job_read_it_is_read_here(site):
    site.run_tasks(1)
    write(site.directory / "step_1.safetensors", 77)
    read = {each.path.name: each.content_step for each in site.scan([0]).checkpoints}
    assert (read["step_1.safetensors"], read["step_2.safetensors"]) == (77, 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user")
def test_a_job_says_nothing_about_files_of_other_users(site):
    os.chown(site.directory / "step_1.safetensors", 54_321, -1)
    (result,) = site.run_tasks(1)
    assert "step_1.safetensors" in {piece["path"] for piece in result["pieces"]}
    read = {each.path.name: each.state for each in site.scan([0]).checkpoints}
    assert (read["step_1.safetensors"], read["step_2.safetensors"]) == (
        UNKNOWN,
        COMPLETE,
    )


def test_what_this_node_has_read_itself_outweighs_a_result(site):
    known = read_alone(site)
    name = f"step_{DAMAGED}.safetensors"
    (result,) = site.run_tasks(1)
    listed = list_tree(site.directory).files[name]
    forged = {"path": name, "format": "safetensors", "files": job_results.identify_files([listed]), "content": {}}
    site.find_result().write_text(json.dumps({**result, "pieces": [forged]}))
    assert {each.path.name: each.state for each in site.scan([0]).checkpoints}[name] is COMPLETE, "it is well forged"
    assert {each.path.name: each.state for each in site.scan([0], known).checkpoints}[name] is CheckpointState.DAMAGED


def test_a_checkpoint_that_is_unsafe_to_load_is_read_here(site):
    save_unsafe(site.directory / "step_1.npy")
    (result,) = site.run_tasks(1)
    assert "step_2.safetensors" in {piece["path"] for piece in result["pieces"]}
    assert "step_1.npy" not in {piece["path"] for piece in result["pieces"]}
    (found,) = [each for each in site.scan([0]).checkpoints if each.path.name == "step_1.npy"]
    assert found.unsafe == (f"{os.system.__module__}.system",)


def test_nothing_is_believed_of_a_checkpoint_without_files():
    claim = Claim(format="torch", shape=Shape.SET, path="shards", files=())
    piece = ReadPiece("shards", "torch", job_results.identify_files(()), Examination())
    assert JobResults([piece], os.getuid()).find([claim]) == {}


def change_each(change):
    def forge(result):
        for piece in result["pieces"]:
            change(piece)
        return json.dumps(result)

    return forge


FORGED = {
    "other files": change_each(lambda piece: piece.update(files="0" * 32)),
    "another format": change_each(lambda piece: piece.update(format="torch")),
    "a format that does not exist": change_each(lambda piece: piece.update(format="x" * 65)),
    "paths elsewhere": change_each(lambda piece: piece.update(path=f"../{piece['path']}")),
    "paths of others": change_each(lambda piece: piece.update(path="/etc/shadow")),
    "one path": change_each(lambda piece: piece.update(path="step_1.safetensors")),
    "a state": change_each(lambda piece: piece["content"].update(state="damaged")),
    "a reason": change_each(lambda piece: piece["content"].update(reason="x")),
    "a field more": change_each(lambda piece: piece.update(owner_uids=[0])),
    "a field less": change_each(lambda piece: piece.pop("content")),
    "a step that is no number": change_each(lambda piece: piece["content"].update(step="7")),
    "a step that is true": change_each(lambda piece: piece["content"].update(step=True)),
    "a step that no column holds": change_each(lambda piece: piece["content"].update(step=2**63)),
    "a role that does not exist": change_each(lambda piece: piece["content"].update(role="root")),
    "a list of lists": change_each(lambda piece: piece["content"].update(best_paths=[["best"]])),
    "a text in place of a list": change_each(lambda piece: piece["content"].update(best_paths="best")),
    "names that administrators would be shown": change_each(lambda piece: piece["content"].update(unsafe=["Call 555"])),
    "a long text": change_each(lambda piece: piece["content"].update(role_evidence="x" * 5000)),
    "many metrics": change_each(lambda piece: piece["content"].update(metrics={str(n): 0 for n in range(1001)})),
    "an infinite epoch": lambda result: json.dumps(result).replace('"step": 2', '"epoch": 1e999, "step": 2'),
    "no number": lambda result: json.dumps(result).replace('"step": 2', '"epoch": NaN, "step": 2'),
    "a name twice": lambda result: json.dumps(result).replace('"step": 2', '"step": 2, "step": 3'),
    "a piece twice": lambda result: json.dumps({**result, "pieces": [*result["pieces"], result["pieces"][0]]}),
    "another version": lambda result: json.dumps({**result, "version": 2}),
    "another task": lambda result: json.dumps({**result, "task": 1}),
    "a list": lambda _result: "[]",
    "nothing": lambda _result: "",
    "half of it": lambda result: json.dumps(result)[:-9],
    "deep nesting": lambda _result: "[" * 200_000,
    "too much": lambda result: json.dumps(result) + " " * MAX_BYTES,
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_a_forged_result_changes_nothing(site, forge):
    before = site.scan()
    (result,) = site.run_tasks(1)
    honest = json.dumps(result)
    site.find_result().write_text(forged := forge(result))
    assert forged != honest
    assert site.scan([0]).checkpoints == before.checkpoints


def put_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def put_pipe(path):
    path.unlink()
    os.mkfifo(path)


def put_link_above(path):
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to("elsewhere")


def put_nothing(path):
    path.unlink()


@pytest.mark.parametrize("put", [put_link, put_pipe, put_link_above, put_nothing], ids=lambda put: put.__name__)
def test_a_result_that_is_no_plain_file_in_its_place_changes_nothing(site, put):
    before = site.scan()
    site.run_tasks(1)
    put(site.find_result())
    assert site.scan([0]).checkpoints == before.checkpoints


def test_one_forged_result_does_not_hide_the_others(site):
    site.run_tasks(2)
    site.find_result(0).write_text("{}")
    share = sum(find_task(f"step_{step}.safetensors", 2) == 1 for step in STEPS)
    assert len(STEPS) + 1 - site.scan(range(2)).unread_count >= share


def test_results_are_not_read_where_the_site_does_not_let_jobs_scan(site):
    site.run_tasks(1)
    off = VerifyJobPolicy(partition="main", directory=str(site.tickets))
    assert site.scan([0], policy=off).unread_count == site.scan().unread_count
    item = {"directory": "/scratch/run", "ticket": TICKET, "task_count": 2, "numbers": [0, 1]}
    with pytest.raises(requests.RequestError, match="allows no first scans by jobs"):
        requests.complete("submit_scan", item, RequestPolicy(verify_jobs=off))
    assert requests.complete("submit_scan", item, RequestPolicy(verify_jobs=site.policy))["jobs"]["scan_entries"] == 1


MALFORMED = {
    "another place": {"ticket": "../../etc/passwd", "tasks": [0]},
    "a directory": {"ticket": TICKET, "tasks": [0], "directory": "/etc"},
    "one task twice": {"ticket": TICKET, "tasks": [0, 0]},
    "no number": {"ticket": TICKET, "tasks": ["0"]},
    "a task that no job has": {"ticket": TICKET, "tasks": [1000]},
    "too many": {"ticket": TICKET, "tasks": [0, 1, 2, 3, 4]},
}


@pytest.mark.parametrize("results", MALFORMED.values(), ids=MALFORMED.keys())
def test_the_agent_refuses_malformed_names_of_results(results):
    assert not requests.SHAPES["scan"]["results"](results)


@pytest.mark.parametrize(("entries", "count"), [(1, 1), (1000, 1), (1001, 2), (100_000, 64), (10**9, 64)], ids=str)
def test_tasks_get_about_as_many_entries_as_this_node_reads_alone(entries, count):
    assert count_tasks(entries, 1000, 64) == count


def test_names_that_are_not_utf_8_have_a_task():
    assert {find_task(os.fsdecode(b"\xff\xfe%d" % number), 3) for number in range(50)} == {0, 1, 2}
