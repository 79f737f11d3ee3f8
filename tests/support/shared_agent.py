"""One privileged agent for all tests of a process: to start one costs half a second of CPU time.

An agent keeps nothing between two requests. A test that ends, stops or replaces an agent starts its own.
"""

import atexit

from ckptd.checkpoints.agent.client import AgentClient

_agents = []


def get_agent():
    """Return the agent of this process; start it for the first test that asks, and after one that ended it."""
    if not _agents or _agents[-1].is_gone:
        _agents.append(AgentClient())
    return _agents[-1]


@atexit.register
def _close():
    for agent in _agents:
        agent.close()
