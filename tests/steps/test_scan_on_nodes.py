"""Locations that only a job's nodes see: which steps there are, and what is recorded of them."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent.client import NOT_REACHED
from ckptd.core import health, retention
from ckptd.core.health import node_locations
from ckptd.core.model import Checkpoint, CheckpointState, Level, RunKey, Scan, Unknown, checkpoint_json
from ckptd.core.node_scans import step_result
from ckptd.core.node_scans.step_policy import NodeScanPolicy
from ckptd.present import models
from ckptd.steps import publish, scan_on_nodes
from ckptd.steps import scan as scan_step
from ckptd.steps.snapshots import NodeScanTotals
from ckptd.steps.state import begin
from steps.replayed_fleet import UID, Fleet, minute
from support import shared_agent
from support.forked_agent import start_agent

POLICY = NodeScanPolicy(directories=("/local",), partitions=("*",), interval_seconds=1800, seconds=10)
WHERE = "/local/alice"


class NodeAgent:
    """Answers for the nodes of jobs, and leaves everything else to the real agent."""

    def __init__(self, inner):
        self.inner = inner
        self.asked = []
        self.disks = {}  # by job id: the checkpoints on its node, or why there is no answer

    def run(self, batches):
        return [
            [self._answer(item) for item in batch.items]
            if batch.operation == "scan_on_node"
            else self.inner.run([batch])[0]
            for batch in batches
        ]

    def _answer(self, item):
        self.asked.append((item["job_id"], item["directory"]))
        found = self.disks.get(item["job_id"], [])
        if isinstance(found, str):
            return Unknown(what="answer", reason=found)
        if isinstance(found, dict):
            return {"node": "n1", "node_count": 1, "seconds": 0.25, **found}
        encoded = [checkpoint_json.encode_checkpoint(each) for each in found]
        scan = {"checkpoints": encoded, "problems": [], "free_bytes": 10, "total_bytes": 20, "filesystem_type": "xfs"}
        result = json.loads(step_result.encode_result(scan))
        return {"node": "n1", "node_count": 1, "seconds": 0.25, "result": result}


@pytest.fixture(scope="module")
def real_agent():
    text = shared_agent.write_settings(shared_agent.QUICK) + '[node_scans]\ndirectories = ["/local"]\n'
    agent = shared_agent.start_with(text, start=start_agent, is_person=True)
    yield agent
    agent.close()


@pytest.fixture
def nodes(real_agent):
    return NodeAgent(real_agent)


@pytest.fixture
def fleet(nodes, tmp_path, work_dir):
    driven = Fleet(nodes, f"sqlite:///{tmp_path}/ckptd.sqlite3", work_dir)
    driven.parts = replace(driven.parts, node_scans=POLICY)
    yield driven
    driven.parts.store.close()


def checkpoint(number, minutes, **changes):
    values = {
        "path": PurePosixPath(WHERE, f"epoch_{number}.pt"),
        "format": "torch",
        "files": (f"epoch_{number}.pt",),
        "identities": ((1, number, 100, int(minute(minutes).timestamp()) * 10**9, 0),),
        "owner_uids": frozenset({UID}),
        "size_bytes": 100,
        "modified_at": minute(minutes),
        "state": CheckpointState.COMPLETE,
        "level": Level.STRUCTURE,
        "epoch": number,
    }
    return Checkpoint(**{**values, **changes})


def job(fleet, job_id=1, **changes):
    return fleet.job(job_id, **{"comment": f"ckpt={WHERE}", **changes})


def scan(fleet, minutes, *jobs):
    """Poll and decide, run the steps that are due, and decide once more."""
    fleet.run(minutes, *jobs)
    result = scan_on_nodes.run(fleet.parts, fleet.state, minute(minutes))
    fleet.run(minutes, *jobs)
    return result


def read(fleet):
    [history] = fleet.parts.store.histories.read("c1", [RunKey("c1", UID, WHERE)])
    return history


def test_what_the_node_has_is_recorded_as_its_owners_statement(fleet, nodes):
    nodes.disks[1] = [checkpoint(1, 5), checkpoint(2, 15)]
    scan(fleet, 20, job(fleet))
    history = read(fleet)
    assert history.located_by == "comment"
    assert [each.checkpoint.epoch for each in history.checkpoints] == [1, 2]
    assert isinstance(history.scan, Scan)
    assert history.scan.problems[0].reason.startswith("a step in job 1 of its owner reported this")
    view = models.run_view(history, [], minute(20))
    assert view["newest_complete"]["epoch"] == 2
    assert view["scan_witnesses"] == [f"n1: {history.scan.problems[0].reason}"]
    assert view["scan_problems"] == []
    assert nodes.asked == [(1, WHERE)]


def test_steps_are_rare_and_other_scans_leave_the_location_alone(fleet, nodes):
    for at in range(1, 65, 2):
        scan(fleet, at, job(fleet))
    assert len(nodes.asked) == 3
    assert isinstance(read(fleet).scan, Scan)


def test_another_attempt_is_scanned_at_once_and_what_its_node_lacks_is_deleted(fleet, nodes):
    nodes.disks[1] = [checkpoint(1, 5)]
    scan(fleet, 10, job(fleet))
    nodes.disks[1] = []
    scan(fleet, 20, job(fleet, restart_count=1, start=19))
    assert len(nodes.asked) == 2
    assert [each.deleted_at is not None for each in read(fleet).checkpoints] == [True]


def test_a_daemon_that_starts_again_asks_no_node_too_soon(fleet, nodes):
    scan(fleet, 10, job(fleet))
    fleet.state = begin(fleet.parts, minute(12))
    scan(fleet, 12, job(fleet))
    assert len(nodes.asked) == 1
    scan(fleet, 41, job(fleet))
    assert len(nodes.asked) == 2


def test_what_a_stop_interrupts_is_not_recorded(fleet, nodes):
    scan(fleet, 10, job(fleet))
    fleet.parts = replace(fleet.parts, runner=replace(fleet.parts.runner, is_stopping=lambda: True))
    nodes.disks[1] = "the agent has ended"
    scan(fleet, 50, job(fleet))
    assert len(nodes.asked) == 2
    assert isinstance(read(fleet).scan, Scan)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("the site's configuration allows no step there", "the site's configuration allows no step there"),
        ({"failed": "srun ended with 1: Unable to create step"}, "job 1: srun ended with 1: Unable to create step"),
        ({"result": {"version": 1}}, "the child's answer is malformed"),
        ({"result": None, "seconds": "x"}, "the child's answer is malformed"),
    ],
)
def test_without_a_result_the_location_is_unknown_and_no_flag_opens(fleet, nodes, answer, reason):
    nodes.disks[1] = answer
    scan(fleet, 30, job(fleet))
    assert fleet.run(90, job(fleet)) == []
    found = read(fleet).scan
    assert isinstance(found, Unknown)
    assert reason in found.reason
    assert reason in models.run_view(read(fleet), [], minute(90))["scan_problems"][0]


def test_a_regular_save_that_stops_opens_no_flag(fleet, nodes):
    """Such a scan is its owner's statement, and up to half an hour old."""
    for number in range(1, 9):
        nodes.disks[1] = [checkpoint(each, each * 10) for each in range(1, number + 1)]
        scan(fleet, number * 30, job(fleet))
    for at in range(270, 600, 30):
        scan(fleet, at, job(fleet))
        assert fleet.flags() == []


def test_nothing_is_planned_for_removal_because_of_it(fleet, nodes):
    nodes.disks[1] = [checkpoint(number, number) for number in range(1, 20)]
    scan(fleet, 30, job(fleet))
    policy = retention.Policy(name="tight", rules=(retention.KeepLast(1),), mode=retention.PolicyMode.ENFORCE)
    history = read(fleet)
    believed = replace(history, scan=replace(history.scan, problems=()))
    [run] = retention.plan([(history, policy)], minute(30)).runs
    assert run.remove == ()
    assert "was not read completely: n1: a step in job 1" in str(run)
    [other] = retention.plan([(believed, policy)], minute(30)).runs
    assert "was not read completely" not in str(other)


def test_what_is_here_by_the_same_name_is_another_directory(fleet, nodes):
    here = str(fleet.work_dir / "ck")
    fleet.parts = replace(fleet.parts, node_scans=replace(POLICY, directories=(here,)))
    fleet.save("ck/step_1.safetensors", 1)
    scan(fleet, 10, job(fleet, comment="ckpt=ck"))
    run = RunKey("c1", UID, here)
    assert nodes.asked == [(1, here)]
    found = scan_step.scan_again(fleet.parts, fleet.state, [run], [], minute(11))
    assert found == {run: NOT_REACHED}
    [history] = fleet.parts.store.histories.read("c1", [run])
    assert history.checkpoints == ()
    assert history.scan.problems[0].what == "n1"


def test_damage_that_a_step_reports_is_shown_and_opens_no_flag(fleet, nodes):
    nodes.disks[1] = [
        checkpoint(number, number * 10, state=CheckpointState.DAMAGED, reason="cut off") for number in range(1, 4)
    ]
    scan(fleet, 35, job(fleet))
    assert fleet.run(36, job(fleet)) == []
    assert {each.checkpoint.state for each in read(fleet).checkpoints} == {CheckpointState.DAMAGED}


def test_rules_about_jobs_alone_are_decided_as_everywhere():
    assert set(health.RULES) > node_locations.ABOUT_JOBS
    chosen = node_locations.choose_rules(kind() for kind in health.RULES.values())
    assert {rule.name for rule in chosen} == node_locations.ABOUT_JOBS


def test_two_running_jobs_make_it_unknown(fleet, nodes):
    scan(fleet, 10, job(fleet), job(fleet, 2))
    assert nodes.asked == []
    assert fleet.run(40, job(fleet), job(fleet, 2)) == []
    assert read(fleet).scan.reason.startswith("jobs 1 and 2 use it at the same time")


def test_tasks_of_an_array_have_the_names_that_squeue_shows(fleet, nodes):
    tasks = [job(fleet, 41 + number, array_job_id=41, array_task_id=number) for number in (1, 0)]
    scan(fleet, 10, *tasks)
    assert read(fleet).scan.reason.startswith("jobs 41_0 and 41_1 use it at the same time")
    nodes.disks[42] = [checkpoint(1, 5)]
    scan(fleet, 20, tasks[0])
    assert read(fleet).scan.problems[0].reason.startswith("a step in job 41_1 of its owner reported this")
    nodes.disks[41] = {"failed": "it ended"}
    result = scan(fleet, 60, tasks[1])
    assert [line.text for line in result.lines] == [f"step in job 41_0 did not scan '{WHERE}': 'job 41_0: it ended'"]


def test_after_the_end_nobody_is_asked_and_the_record_stays(fleet, nodes):
    nodes.disks[1] = [checkpoint(1, 5)]
    scan(fleet, 10, job(fleet))
    for at in (50, 51, 52):
        scan(fleet, at, job(fleet, 9, comment="", work_dir=None))
    assert len(nodes.asked) == 1
    assert RunKey("c1", UID, WHERE) not in fleet.state.watchlist
    [record] = read(fleet).checkpoints
    assert record.deleted_at is None


def test_the_cost_is_counted_and_a_slow_pace_is_no_delay_of_scans(fleet, nodes):
    scan(fleet, 1, job(fleet))
    nodes.disks[1] = {"failed": "srun ended with 1"}
    scan(fleet, 40, job(fleet))
    nodes.disks[1] = "refused"
    scan(fleet, 80, job(fleet))
    totals = fleet.state.latest(NodeScanTotals)
    assert totals.steps == {"found": 1, "failed": 1, "not run": 1}
    assert totals.seconds == 0.5
    assert totals.cost.step_count == 2
    report = publish.report(fleet.parts, fleet.state, minute(90))
    assert report.scan_delay == timedelta(0)


def test_without_such_directories_nothing_is_asked(fleet, nodes):
    fleet.parts = replace(fleet.parts, node_scans=NodeScanPolicy())
    assert scan(fleet, 10, job(fleet)).found_work is False
    assert nodes.asked == []
