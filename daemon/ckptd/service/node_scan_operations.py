"""The agent's operation on a location that only a job's nodes see: a step in the job, as its owner."""

import os
from typing import Any

from ckptd.checkpoints.agent.job_commands import run_command
from ckptd.checkpoints.agent.step_command import StepError, run_step
from ckptd.slurm import scan_steps


def scan_on_node(item: dict[str, Any]) -> dict[str, Any]:
    """Scan a directory on a node; without a result, `failed` says why, and how many `seconds` it took."""
    try:
        return scan_steps.scan(item, run_command, run_step, os.geteuid())
    except StepError as error:
        return {"failed": str(error), "seconds": error.seconds, "node": "", "node_count": 0}
