"""Runs a step in a user's job that scans a location on one of its nodes, in the agent's child that has become the user.

The request names an attempt and a directory. The partition, in which the configuration must allow it, and the node come
from Slurm; everything else comes from the configuration.
"""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.core.model import Unknown
from ckptd.core.node_scans import step_policy, step_result
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.core.node_scans.step_policy import NodeScanPolicy
from ckptd.core.queue import federation
from ckptd.core.text import hostlist
from ckptd.slurm import commands, owner_actions
from ckptd.slurm.owner_actions import ActionError, Runner
from ckptd.slurm.queue_text import Separators

StepRunner = Callable[[list[str], float, int], tuple[bytes, float]]  # runs srun; returns its output and the seconds
NOT_ALLOWED = "only the nodes of its jobs see this location, and the site's configuration allows no step there"
_LIMITS = ("max_depth", "max_entries", "write_grace_seconds")


class _Nodes(NamedTuple):
    host: str  # the first node of the job; of a heterogeneous one, of its first component
    node_count: int
    is_heterogeneous: bool


def scan(item: Mapping[str, Any], run: Runner, run_step: StepRunner, uid: int) -> dict[str, Any]:
    """Run the step; return the checked `result` and its `node`, or raise why there is none.

    Raises:
        CkptdError: the configuration does not allow it, or Slurm or the step does not answer as expected.

    """
    policy = NodeScanPolicy(**item["steps"])
    directory = PurePosixPath(item["directory"])
    if not policy.partitions:
        raise ActionError(NOT_ALLOWED)
    named = item["directory"]
    if ".." in directory.parts or str(directory) != named or not is_on_nodes(named, policy.directories):
        raise ActionError("the configuration does not name this location as one that only nodes see")
    if not is_on_nodes(named, item["allowed_roots"]):
        raise ActionError(f"{named} is outside the site's allowed roots")
    nodes = _find_nodes(item, policy, run, uid)
    request = {"directory": named, **{name: item[name] for name in _LIMITS}}
    argv = step_policy.plan_step(policy, item["job_id"], nodes.host, request, is_heterogeneous=nodes.is_heterogeneous)
    output, seconds = run_step(argv, policy.deadline_seconds, step_result.MAX_BYTES)
    answer = {"node": nodes.host, "node_count": nodes.node_count, "seconds": seconds}
    try:
        document = step_result.parse_document(output)
        step_result.decode_result(document, directory, uid)
    except step_result.StepResultError as error:
        return {**answer, "failed": str(error)}
    return {**answer, "result": document}


def _find_nodes(item: Mapping[str, Any], policy: NodeScanPolicy, run: Runner, uid: int) -> _Nodes:
    """Return the nodes of the requested attempt, if it runs where the configuration allows steps.

    Raises:
        CkptdError: it does not, or Slurm does not say so.

    """
    job = owner_actions.describe_job(item, uid)
    if federation.is_federated(job.job_id):
        raise ActionError("it may run on another cluster of the federation")
    now = owner_actions.read_job(job, run)
    owner_actions.check_partition(now, {"partitions": policy.partitions})
    if not now.is_running or now.restart_count != job.restart_count:
        raise ActionError("this attempt of the job no longer runs")
    names, separators = ("JobID", "BatchFlag", "BatchHost", "NodeList", "NumNodes"), Separators.draw()
    answer = run({"argv": commands.format_attributes(job, names, separators)})["output"]
    found = commands.parse_components(answer, names, separators)
    if isinstance(found, Unknown):
        raise ActionError(found.reason)
    hosts = [_find_first_node(each) for each in found if each["JobID"] == str(job.job_id)]
    counts = [each["NumNodes"].strip() for each in found]
    if len(hosts) != 1 or not step_policy.is_host(hosts[0]) or not all(count.isdecimal() for count in counts):
        raise ActionError(f"Slurm shows {', '.join(hosts)[:40]!r} as the node of the job")
    return _Nodes(hosts[0], sum(map(int, counts)), is_heterogeneous=len(found) > 1)


def _find_first_node(shown: Mapping[str, str]) -> str:
    """Return the node where the batch script runs; for another job, squeue shows the host of its salloc there."""
    is_batch = shown["BatchFlag"].strip() != "0"
    return shown["BatchHost"].strip() if is_batch else hostlist.find_first(shown["NodeList"].strip()) or ""
