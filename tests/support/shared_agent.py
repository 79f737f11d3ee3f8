"""One privileged agent for all tests of a process: to start one costs half a second of CPU time.

An agent keeps nothing between two requests. A test that ends, stops or replaces an agent starts its own, and so does a
child that a test forks: the thread that hears the answers stays in the parent.
"""

import atexit
import os

from ckptd.checkpoints.agent.client import AgentClient

_agents = []  # with the process that started each


def get_agent():
    """Return the agent of this process; start it for the first test that asks, and after one that ended it."""
    if not _agents or _agents[-1][1].is_gone or _agents[-1][0] != os.getpid():
        _agents.append((os.getpid(), AgentClient()))
    return _agents[-1][1]


class Lent:
    """The agent of this process in place of one that a command starts: closing it ends nothing."""

    def __init__(self):
        self._agent = get_agent()

    def __getattr__(self, name):
        return getattr(self._agent, name)

    def close(self):
        pass


@atexit.register
def _close():
    for pid, agent in _agents:
        if pid == os.getpid():
            agent.close()
