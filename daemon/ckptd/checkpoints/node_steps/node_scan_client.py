"""Requests scans of locations that only a job's nodes see from the agent, and decodes what their owners' jobs say."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.checkpoints.agent.batches import BatchRunner, decode_answer, run_items
from ckptd.checkpoints.agent.requests import SCAN_ON_NODE
from ckptd.core.model import Job, RunKey, Scan, Unknown
from ckptd.core.node_scans import step_result
from ckptd.core.node_scans.step_policy import NodeScanPolicy

WHAT = "node scan"  # of an Unknown: there was no step, or it did not say what is there
MAX_SECONDS = 86_400.0
SLACK_SECONDS = 70.0  # for the agent's questions to Slurm before a step, and to end it


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeScanRequest:
    """A run whose location only the nodes of a running job see."""

    run: RunKey
    job: Job


class NodeScanOutcome(NamedTuple):
    """What a step found, or why there is nothing, and how many seconds it took; None: there was no step."""

    found: Scan | Unknown
    host: str
    seconds: float | None


def scan_on_nodes(
    agent: BatchRunner, asked: Sequence[NodeScanRequest], policy: NodeScanPolicy, now: datetime
) -> list[NodeScanOutcome]:
    """Run a step for each request, several at once; each has another owner, so that each has its own time."""
    items = [(each.run.uid, _describe(each)) for each in asked]
    deadline = timedelta(seconds=policy.deadline_seconds + SLACK_SECONDS)
    answers = run_items(agent, SCAN_ON_NODE, items, deadline)
    return [_decode(answer, each, now) for answer, each in zip(answers, asked, strict=True)]


def _decode(answer: dict[str, Any] | Unknown, asked: NodeScanRequest, now: datetime) -> NodeScanOutcome:
    found = decode_answer(answer, partial(_outcome, asked=asked, now=now))
    if isinstance(found, Unknown):
        return NodeScanOutcome(Unknown(what=WHAT, reason=found.reason), "", None)
    return found


def _outcome(data: dict[str, Any], asked: NodeScanRequest, now: datetime) -> NodeScanOutcome:
    """Check the answer once more: the child parsed what a user wrote."""
    host, node_count = str(data["node"])[:254], int(data["node_count"])
    seconds = min(max(0.0, float(data["seconds"])), MAX_SECONDS)
    if "failed" in data:
        reason = str(data["failed"])[:500]
        return NodeScanOutcome(Unknown(what=WHAT, reason=f"job {asked.job.slurm_name}: {reason}"), host, seconds)
    directory = PurePosixPath(asked.run.directory)
    try:
        result = step_result.decode_result(data["result"], directory, asked.run.uid)
    except step_result.StepResultError as error:
        raise ValueError(str(error)) from error
    return NodeScanOutcome(step_result.make_scan(result, directory, host, node_count, now), host, seconds)


def _describe(asked: NodeScanRequest) -> dict[str, Any]:
    job = asked.job
    return {
        "job_id": job.job_id,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
        "restart_count": job.restart_count,
        "is_running": True,
        "directory": asked.run.directory,
    }
