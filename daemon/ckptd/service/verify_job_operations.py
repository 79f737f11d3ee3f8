"""The agent's operations on verification jobs: their files and their commands of Slurm, as their owner."""

import os
import pwd
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ckptd.checkpoints.agent.job_commands import run_command
from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, open_allowed
from ckptd.checkpoints.verify_jobs import ticket_files
from ckptd.core.verification import file_digests, task_results
from ckptd.core.verification.job_policy import VerifyJobPolicy
from ckptd.core.verification.skip_reasons import SkipReason
from ckptd.core.verification.task_results import ResultError
from ckptd.errors import CkptdError
from ckptd.slurm import verification_commands

_LIMITS = ("max_depth", "max_entries", "write_grace_seconds")
_READ_UNTIL = 0.8  # of a task's time limit: then it writes what it has read


def submit(item: dict[str, Any]) -> dict[str, Any]:
    """Write a ticket's request for a verification, and submit the tasks with these numbers."""
    with open_allowed(item["directory"], item["allowed_roots"]):
        limits = {name: item[name] for name in _LIMITS}
    return _submit(item, {"directory": item["directory"], "tasks": item["tasks"], "limits": limits})


def submit_digests(item: dict[str, Any]) -> dict[str, Any]:
    """Write a ticket's request for the digests of files, and submit the tasks with these numbers."""
    for directory in {each["directory"] for task in item["tasks"] for each in task}:
        try:
            with open_allowed(directory, item["allowed_roots"]):
                pass
        except (OSError, OutsideRootsError) as error:
            return verification_commands.refuse(SkipReason.REFUSED, str(error))
    return _submit(item, {"digests": item["tasks"]})


def submit_scan(item: dict[str, Any]) -> dict[str, Any]:
    """Write a ticket's request for a share of a first scan by each task, and submit the tasks with these numbers."""
    try:
        with open_allowed(item["directory"], item["allowed_roots"]):
            seconds = VerifyJobPolicy(**item["jobs"]).time_limit_minutes * 60 * _READ_UNTIL
    except (OSError, OutsideRootsError) as error:
        return verification_commands.refuse(SkipReason.REFUSED, str(error))
    asked = {name: item[name] for name in ("directory", "task_count", "max_depth", "max_entries")}
    return _submit(item, {"scan": {**asked, "seconds": seconds}})


def _submit(item: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    policy = VerifyJobPolicy(**item["jobs"])
    directory = ticket_files.find_directory(policy.directory, item["ticket"])
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
    """Read the result of one task of a verification; `refused` says why there is none to believe."""

    def check(data: bytes) -> dict[str, Any]:
        pieces = [each._asdict() for each in task_results.parse_result(data, item["task"])]
        return {"version": task_results.VERSION, "task": item["task"], "pieces": pieces}

    return _collect(item, check)


def collect_digests(item: dict[str, Any]) -> dict[str, Any]:
    """Read the result of one task of a comparison; the caller, who knows what was asked, checks the files in it."""
    return _collect(item, lambda data: file_digests.parse_result(data, item["task"]))


def _collect(item: dict[str, Any], check: Callable[[bytes], Any]) -> dict[str, Any]:
    try:
        return {"result": check(ticket_files.read_result(_find_directory(item), item["task"]))}
    except FileNotFoundError:
        return {"refused": "the task left no result"}
    except (OSError, ResultError) as error:
        return {"refused": str(error)}


def cancel(item: dict[str, Any]) -> dict[str, Any]:
    """Cancel a ticket's job, and delete the ticket's directory."""
    verification_commands.cancel(item["ticket"], item["job_id"], os.geteuid(), run_command)
    with suppress(OSError, CkptdError):  # there is none, or its owner has put something else there
        ticket_files.remove(_find_directory(item))
    return {}


def _find_directory(item: dict[str, Any]) -> str:
    return ticket_files.find_directory(VerifyJobPolicy(**item["jobs"]).directory, item["ticket"])
