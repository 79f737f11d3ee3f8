"""The privileged agents of a test process, one for each configuration, as `forked_agent` starts them.

An agent keeps nothing between two requests. A test that ends, stops or replaces an agent starts its own, and so does a
child that a test forks: the thread that hears the answers stays in the parent.
"""

import atexit
import json
import os
import tempfile
from pathlib import Path

from ckptd.service.agent_start import start_agent
from support import forked_agent

QUICK = {"write_grace": "1s", "max_depth": 4, "max_entries": 1000, "discovery_depth": 2, "discovery_entries": 1000}
_agents = {}  # by the process that started each, and its settings


def get_agent(*, keeps_children=True, **scan):
    """Return this process's agent with these settings of [scan]; start it for the first test, and after it ended.

    It is a person's, who says what time it is: tests live through weeks.
    """
    text = write_settings({**QUICK, **scan})
    key = os.getpid(), text, keeps_children
    if key not in _agents or _agents[key].is_gone:
        _agents[key] = start_with(text, start=forked_agent.start_agent, is_person=True, keeps_children=keeps_children)
    return _agents[key]


def write_settings(scan):
    return "[scan]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in scan.items())


def start_with(text, *, start=start_agent, **options):
    """Start an agent with a configuration."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "config.toml")
        path.write_text(text)
        agent = start(path, **options)
        agent.wait_until_ready()
    return agent


@atexit.register
def _close():
    for (pid, *_), agent in _agents.items():
        if pid == os.getpid():
            agent.close()
