"""Starts the privileged agent, which reads the configuration itself."""

from pathlib import Path

from ckptd.checkpoints.agent.client import AgentClient
from ckptd.checkpoints.agent.lease_memory import LeaseMemory
from ckptd.service.agent_options import DEFAULTS, LEASE, PERSON

MODULE = "ckptd.service.agent_process"
TRASH_MODULE = "ckptd.service.trash_agent_process"


def start_agent(
    config_path: Path | None,
    *,
    is_person: bool = False,
    is_configured: bool = True,
    is_for_trash: bool = False,
    is_leased: bool = False,
) -> AgentClient:
    """Start the agent with the configuration at this path, or with the default file where there is one.

    If `is_person` is true, the caller is a command that a person typed: the agent keeps all privileges and may release
    held jobs. If `is_configured` is false, the agent uses the default of every setting and reads no file. If
    `is_for_trash` is true (for commands only), the agent has only the operations on trashes, and starts faster. If
    `is_leased` is true, the agent changes nothing until `AgentClient.show_lease` gives it the end of the lease, and
    nothing after that time.
    """
    options = [name for name, is_given in ((PERSON, is_person), (DEFAULTS, not is_configured)) if is_given]
    module = TRASH_MODULE if is_for_trash and is_person else MODULE
    lease = LeaseMemory() if is_leased else None
    if lease is not None:
        options.append(f"{LEASE}{lease.descriptor}")
    return AgentClient(module, [*options, *([] if config_path is None else [str(config_path)])], lease)
