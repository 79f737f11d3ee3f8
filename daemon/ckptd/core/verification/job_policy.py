"""What the site allows jobs of owners to use, and the command line that this makes.

All of it comes from the administrator's configuration, which the agent reads itself; nothing comes from a request.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

JOB_NAME = "ckptd-verify"
COMMENT = "ckpt=none ckptd-verify"  # no rule asks such a job for checkpoints
TASK_MODULE = "ckptd.checkpoints.verify_jobs.verify_task"


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyJobPolicy:
    """Where and how jobs of owners run, which verify or scan. Without a partition there are none."""

    partition: str = ""
    account: str = ""  # empty: the owner's default account
    qos: str = ""
    time_limit_minutes: int = 60
    nice: int = 1000
    max_running: int = 4  # tasks of one job at the same time
    max_tasks: int = 64
    max_jobs: int = 4  # of one user in the queue
    python: str = ""  # of an installation of ckptd that the nodes see
    directory: str = "{home}/.ckptd-verify"
    scan_entries: int = 0  # of a directory, beyond which jobs take part in its first scan; 0: never
    cluster: str = ""  # empty: of any cluster in accounting


def name_job(ticket: str) -> str:
    return f"{JOB_NAME}-{ticket}"


def plan_submission(policy: VerifyJobPolicy, ticket: str, numbers: Sequence[int]) -> list[str]:
    """Return the command that submits these tasks; its script comes from its standard input."""
    tasks = f"{_format_ranges(numbers)}%{policy.max_running}"
    options = {
        "job-name": name_job(ticket),
        "comment": COMMENT,
        "array": tasks,
        "partition": policy.partition,
        "account": policy.account,
        "qos": policy.qos,
        "time": str(policy.time_limit_minutes),
        "nice": str(policy.nice),
        "ntasks": "1",
        "chdir": "/",  # so that the job's directory is never searched for checkpoints
        "output": "/dev/null",
    }
    # the limits of whoever calls sbatch would become the job's: none is handed on
    argv = ["sbatch", "--parsable", "--propagate=NONE", "--no-requeue"]
    return [*argv, *(f"--{name}={value}" for name, value in options.items() if value)]


def format_script(policy: VerifyJobPolicy, directory: str) -> str:
    """Return the batch script of a ticket's job; `-I` imports nothing from the owner's own places."""
    words = [policy.python, "-I", "-m", TASK_MODULE, directory]
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"


def _format_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as sbatch reads them, such as `0-3,7`."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
