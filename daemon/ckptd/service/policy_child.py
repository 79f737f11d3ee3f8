"""Reads the agent's policy in a child.

The agent itself, which keeps its privileges for as long as the daemon runs, never loads pydantic.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError


class PolicyError(CkptdError):
    """The configuration cannot be used, or must not be trusted."""


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
