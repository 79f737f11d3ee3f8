"""Starts the privileged agent, which reads the configuration itself."""

from pathlib import Path

from ckptd.checkpoints.agent.client import AgentClient

MODULE = "ckptd.service.agent_process"
DEFAULTS = "--defaults"
PERSON = "--person"


def start_agent(config_path: Path | None, *, is_person: bool = False, is_configured: bool = True) -> AgentClient:
    """Start the agent with the configuration at this path, or with the default file where there is one.

    With `is_person` the caller is a command that a person typed: it keeps all its privileges and may release held jobs.
    With `is_configured` false the agent works with the default of every setting and reads no file.
    """
    options = [name for name, is_given in ((PERSON, is_person), (DEFAULTS, not is_configured)) if is_given]
    return AgentClient(MODULE, [*options, *([] if config_path is None else [str(config_path)])])
