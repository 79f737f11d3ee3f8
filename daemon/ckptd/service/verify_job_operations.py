"""The agent's operations on verification jobs: their files and their commands of Slurm, as their owner."""

import os
import pwd
from contextlib import suppress
from typing import Any

from ckptd.checkpoints.agent.job_commands import run_command
from ckptd.checkpoints.scanning.allowed_roots import open_allowed
from ckptd.checkpoints.verify_jobs import ticket_files
from ckptd.core.verification import task_results
from ckptd.core.verification.job_policy import VerifyJobPolicy
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.core.verification.task_results import ResultError
from ckptd.errors import CkptdError
from ckptd.slurm import verification_commands

_LIMITS = ("max_depth", "max_entries", "write_grace_seconds")


def submit(item: dict[str, Any]) -> dict[str, Any]:
    """Write a ticket's request, and submit the tasks with these numbers."""
    policy = VerifyJobPolicy(**item["jobs"])
    with open_allowed(item["directory"], item["allowed_roots"]):
        directory = ticket_files.find_directory(policy.directory, item["ticket"])
    limits = {name: item[name] for name in _LIMITS}
    request = {"directory": item["directory"], "tasks": item["tasks"], "limits": limits}
    try:
        ticket_files.write_request(directory, request)
    except (OSError, CkptdError) as error:
        detail = f"its request cannot be written to {directory}: {error}"
        return verification_commands.refuse(SkipReason.REFUSED, detail)
    user = pwd.getpwuid(os.geteuid()).pw_name
    answer = verification_commands.submit(policy, item["ticket"], item["numbers"], directory, user, run_command)
    if "refused" in answer:
        ticket_files.remove(directory)
    return answer


def follow(item: dict[str, Any]) -> dict[str, Any]:
    """Return what the queue shows of a ticket's tasks, and which of them have a result file."""
    queued = verification_commands.follow(item["ticket"], item["job_id"], os.geteuid(), run_command)
    results = ticket_files.list_results(_find_directory(item), item["task_count"])
    states = [[number, state.value] for number, state in queued.states.items()]
    return {"job_id": queued.job_id, "states": states, "results": results}


def collect(item: dict[str, Any]) -> dict[str, Any]:
    """Read the result of one task; `refused` says why there is none to believe."""
    try:
        verdicts = ticket_files.read_result(_find_directory(item), item["task"])
    except FileNotFoundError:
        return {"refused": "the task left no result"}
    except (OSError, ResultError) as error:
        return {"refused": str(error)}
    pieces = [each._asdict() for each in verdicts]
    return {"result": {"version": task_results.VERSION, "task": item["task"], "pieces": pieces}}


def cancel(item: dict[str, Any]) -> dict[str, Any]:
    """Cancel a ticket's job, and delete the ticket's directory."""
    verification_commands.cancel(item["ticket"], item["job_id"], os.geteuid(), run_command)
    with suppress(OSError, CkptdError):  # there is none, or its owner has put something else there
        ticket_files.remove(_find_directory(item))
    return {}


def _find_directory(item: dict[str, Any]) -> str:
    return ticket_files.find_directory(VerifyJobPolicy(**item["jobs"]).directory, item["ticket"])
