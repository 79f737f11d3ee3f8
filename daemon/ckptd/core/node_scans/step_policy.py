"""What the site allows steps in users' jobs to be, and the command line that this makes.

All of it comes from the administrator's configuration, which the agent reads itself; a request names a job and a
directory. Why each option is there: docs/decisions/0026.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEP_NAME = "ckptd-scan"
TASK_MODULE = "ckptd.checkpoints.node_steps.scan_task"
IMMEDIATE_SECONDS = 10  # that slurmctld has to create the step
LAUNCH_SECONDS = 20  # beyond its own time that a step may take to be created, launched and ended
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,253}")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeScanPolicy:
    """Where and how steps run. Without a partition there are none."""

    directories: tuple[str, ...] = ()  # that only nodes see
    partitions: tuple[str, ...] = ()  # shell patterns
    interval_seconds: float = 1800.0  # between two steps in one job
    seconds: int = 60  # of one step
    max_running: int = 2  # steps at the same time
    python: str = ""  # of an installation of ckptd that the nodes see

    @property
    def deadline_seconds(self) -> int:
        """The time after which a step is ended from here."""
        return self.seconds + LAUNCH_SECONDS


def is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None


def plan_step(
    policy: NodeScanPolicy, job_id: int, host: str, request: Mapping[str, Any], *, is_heterogeneous: bool = False
) -> list[str]:
    """Return the command that runs one task beside a job's other steps, without GPUs or memory of its own."""
    options = {
        "jobid": str(job_id),
        **({"het-group": "0"} if is_heterogeneous else {}),  # the first component; srun demands to know
        "immediate": str(IMMEDIATE_SECONDS),
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": "1",
        "nodelist": host,
        "mem": "0",  # no more than the job has, and none that other steps would lack
        "gres": "none",
        "cpu-bind": "none",
        "mpi": "none",
        "time": str(max(1, -(-policy.seconds // 60))),  # minutes
        "job-name": STEP_NAME,
        "chdir": "/",
        "export": "NONE",
        "propagate": "NONE",
        "input": "none",
        "prolog": "none",
        "epilog": "none",
        "acctg-freq": "0",
        "kill-on-bad-exit": "1",
    }
    words = [policy.python, "-I", "-m", TASK_MODULE, json.dumps({**request, "seconds": policy.seconds})]
    return ["srun", "--overlap", *(f"--{name}={value}" for name, value in options.items()), *words]
