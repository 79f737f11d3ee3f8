"""Runs the privileged agent with the policy of the configuration: the program that `start_agent` starts.

The arguments come from the process that started it, which still had all its privileges then. A child reads the file,
so that the agent itself, which keeps its privileges for as long as the daemon runs, never loads pydantic.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ckptd.checkpoints.agent import agent_operations, process
from ckptd.checkpoints.agent.agent_operations import Operation
from ckptd.checkpoints.agent.job_commands import run_command
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError
from ckptd.service.agent_start import DEFAULTS, PERSON
from ckptd.slurm import owner_actions

OPERATIONS: dict[str, Operation] = {
    **agent_operations.OPERATIONS,
    "reach": lambda item: owner_actions.reach(item, run_command),
    "read_submission": lambda item: owner_actions.read_submission(item, run_command, os.geteuid()),
    "signal_job": lambda item: owner_actions.signal_job(item, run_command, os.geteuid()),
    "hold_job": lambda item: owner_actions.hold_job(item, run_command, os.geteuid()),
    "resubmit_job": lambda item: owner_actions.resubmit_job(item, run_command, os.geteuid()),
}


class PolicyError(CkptdError):
    """The configuration cannot be used, or must not be trusted."""


def main() -> None:
    """Serve on the socket whose descriptor is the first argument; options and the configuration's path follow."""
    descriptor, *more = sys.argv[1:]
    is_person = PERSON in more
    path = next((Path(each) for each in more if each not in {PERSON, DEFAULTS}), None)
    read = partial(read_policy, path, dict(os.environ), is_person=is_person)
    if DEFAULTS in more:
        read = partial(RequestPolicy, is_person=is_person)
    try:
        process.serve(int(descriptor), read, OPERATIONS)
    except CkptdError as error:
        sys.exit(f"agent: {error}")


def read_policy(path: Path | None, environment: Mapping[str, str], *, is_person: bool) -> RequestPolicy:
    """Read the policy in a child.

    Raises:
        PolicyError: the file cannot be read, is invalid, or somebody other than root may write it.

    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(path, environment, writing, is_person=is_person)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        raise PolicyError("the process that reads the configuration ended without an answer")
    answer = json.loads(data)
    if "error" in answer:
        raise PolicyError(answer["error"])
    return RequestPolicy.from_json(answer)


def _be_child(path: Path | None, environment: Mapping[str, str], pipe: int, *, is_person: bool) -> None:
    """Do the child's work and exit; never return."""
    try:
        from ckptd.service import agent_policy  # noqa: PLC0415 - it loads pydantic, which the parent never does

        try:
            answer = asdict(agent_policy.read_policy(path, environment, is_person=is_person))
        except CkptdError as error:
            answer = {"error": str(error)}
        with os.fdopen(pipe, "wb") as out:
            out.write(json.dumps(answer).encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
