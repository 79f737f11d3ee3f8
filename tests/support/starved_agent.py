"""An agent whose scans have time to read one file each: its program, and how a test starts it."""

import os
from pathlib import Path
from unittest import mock

from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.scanning import scan_operation
from ckptd.service import agent_process, agent_start


def start_agent(config_path, **options):
    """Start such an agent as `ckptd.service.agent_start.start_agent` does."""
    places = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    program = mock.patch.object(agent_start, "MODULE", "support.starved_agent")
    with program, mock.patch.dict(os.environ, {"PYTHONPATH": places}):
        return agent_start.start_agent(config_path, **options)


if __name__ == "__main__":
    scan_operation.READ_UNTIL = 0.0
    ChildLimits.begin_reading = lambda limits: limits
    agent_process.main()
