"""Actions and steps on a heterogeneous job, of which `squeue --jobs` prints a record for each component."""

import json

import pytest

from ckptd.core.node_scans import step_result
from ckptd.slurm import owner_actions, scan_steps
from ckptd.slurm.owner_actions import ActionError

UID = 1000
REQUEST = {
    "job_id": 40, "array_job_id": None, "array_task_id": None, "restart_count": 0, "is_running": True,
    "partitions": ["main", "urgent"], "signal": "USR1",
}  # fmt: skip
STEP = {
    "directory": "/local/a", "allowed_roots": ["/"], "max_depth": 1, "max_entries": 1, "write_grace_seconds": 1,
    "steps": {"directories": ["/local"], "partitions": ["main", "urgent"], "python": "/opt/bin/python"},
}  # fmt: skip


class Slurm:
    """Prints these components for each squeue, and keeps the other commands."""

    def __init__(self, *components):
        self.components, self.commands = components, []

    def __call__(self, item):
        argv = item["argv"]
        if argv[0] != "squeue":
            self.commands.append(argv)
            return {"output": ""}
        fields = [each.partition(":") for each in argv[-1].split(",")]
        lines = ["".join(str(job.get(name, "(null)")) + end for name, _, end in fields) for job in self.components]
        return {"output": "".join(f"{line}\n" for line in lines)}


def component(job_id, partition="main", **changes):
    plain = {"UserID": UID, "Partition": partition, "State": "RUNNING", "RestartCnt": 0, "NumNodes": 1, "HetJobID": 40}
    return {"JobID": job_id, "BatchFlag": 1, "BatchHost": f"n{job_id}", "Name": "a\nb", **plain, **changes}


JOB = (component(41, "urgent", NumNodes=2), component(40))  # not in this order by itself


def test_a_signal_and_a_hold_reach_it():
    slurm = Slurm(*JOB)
    assert owner_actions.signal_job(REQUEST, slurm, UID) == {}
    assert owner_actions.hold_job(REQUEST, slurm, UID) == {}
    assert slurm.commands == [["scancel", "--signal=USR1", "--state=RUNNING", "40"], ["scontrol", "requeuehold", "40"]]


def test_the_tasks_of_an_array_are_no_components():
    slurm = Slurm(component(40, HetJobID=0), component(41, HetJobID=0))
    assert owner_actions.hold_job(REQUEST, slurm, UID)["failed"] == "Slurm shows 2 jobs by the name 40"
    assert slurm.commands == []


def test_the_partitions_of_all_components_must_be_allowed():
    slurm = Slurm(*JOB)
    answer = owner_actions.hold_job({**REQUEST, "partitions": ["main"]}, slurm, UID)
    assert answer["failed"] == "the configuration does not allow this action in partition 'urgent,main'"
    assert slurm.commands == []


@pytest.mark.parametrize("jobs", [(), ({},), (component(7),), (component(40, UserID=0), component(41))])
def test_what_is_not_this_job_is_refused(jobs):
    with pytest.raises(ActionError):
        owner_actions.read_job(owner_actions.describe_job(REQUEST, UID), Slurm(*jobs))


def run_steps(asked):
    """Return what runs srun: it keeps the command lines in `asked`, and finds no checkpoints."""
    scan = {"checkpoints": [], "problems": [], "free_bytes": 1, "total_bytes": 2, "filesystem_type": "xfs"}

    def run_step(argv, _seconds, _max_bytes):
        asked.append(argv)
        return step_result.encode_result(scan), 0.1

    return run_step


@pytest.mark.parametrize(("jobs", "group", "node_count"), [(JOB, ["--het-group=0"], 3), ((component(40),), [], 1)])
def test_a_step_scans_the_first_node_of_the_first_component(jobs, group, node_count):
    asked = []
    answer = scan_steps.scan({**REQUEST, **STEP}, Slurm(*jobs), run_steps(asked), UID)
    assert (answer["node"], answer["node_count"], answer["result"]["free_bytes"]) == ("n40", node_count, 1)
    (argv,) = asked
    assert [word for word in argv if word.startswith(("--het-group", "--jobid", "--nodelist"))] == [
        "--jobid=40", *group, "--nodelist=n40",
    ]  # fmt: skip
    assert json.loads(argv[-1])["directory"] == "/local/a"


@pytest.mark.parametrize(
    ("nodes", "first"), [("n[07-09,3],m1", "n07"), ("m1", "m1"), ("r[1-2]n[5-6]", "r1n5"), ("gpu-a,gpu-b", "gpu-a")]
)
def test_a_step_in_an_allocation_runs_on_its_first_node_and_not_where_salloc_was_typed(nodes, first):
    allocation = component(40, HetJobID="(null)", BatchFlag=0, BatchHost="login1", NodeList=nodes, NumNodes=4)
    asked = []
    answer = scan_steps.scan({**REQUEST, **STEP}, Slurm(allocation), run_steps(asked), UID)
    assert answer["node"] == first
    assert f"--nodelist={first}" in asked[0]


def test_no_step_runs_in_an_allocation_without_nodes():
    allocation = component(40, HetJobID="(null)", BatchFlag=0, BatchHost="login1", NodeList="")
    with pytest.raises(ActionError, match="as the node of the job"):
        scan_steps.scan({**REQUEST, **STEP}, Slurm(allocation), run_steps([]), UID)
