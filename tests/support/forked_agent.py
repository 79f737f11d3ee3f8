"""Agents for commands that run within the test process: the real agent, without the cost of its start.

To start the agent as a program costs most of a second of CPU time: its imports, and a child that loads pydantic to read
the configuration. Here one process has the imports, and forks; the test process reads the configuration, with the same
function. Tests of the agent itself, of the daemon and of commands as processes start the program.
"""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from ckptd.checkpoints.agent import client
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError
from ckptd.service import agent_options, agent_policy, agent_start
from support import agent_fork_server


def start_agent(config_path, *, is_person=False, is_configured=True, is_for_trash=False, keeps_children=False):
    """Start an agent as `ckptd.service.agent_start.start_agent` does; it cannot reload its configuration.

    An agent for the trash only has all operations here. `keeps_children`: see `agent_fork_server.KeepingAgent`.
    """
    popen = functools.partial(_ForkedProcess, keeps_children=keeps_children)
    with mock.patch.object(client, "subprocess", SimpleNamespace(Popen=popen)):
        return agent_start.start_agent(
            config_path, is_person=is_person, is_configured=is_configured, is_for_trash=is_for_trash
        )


class _ForkedProcess:
    """What an agent's client needs of `subprocess.Popen`, of a process that is not a child of this one."""

    def __init__(self, command, *, pass_fds, keeps_children):
        (descriptor,) = pass_fds
        options = command[command.index(str(descriptor)) + 1 :]
        request = {**_read_policy(options), "keeps_children": keeps_children}
        self.pid = _get_server(os.getpid()).fork(request, descriptor)
        self._descriptor = None
        with suppress(ProcessLookupError):  # it has ended already
            self._descriptor = os.pidfd_open(self.pid)

    def wait(self, timeout=None):
        if self._descriptor is None:
            return
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("agent", timeout)
        os.close(self._descriptor)
        self._descriptor = None

    def kill(self):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


def _read_policy(options):
    is_person = agent_options.PERSON in options
    if agent_options.DEFAULTS in options:
        return {"policy": asdict(RequestPolicy(is_person=is_person)), "refusal": None}
    path = next((Path(each) for each in options if each != agent_options.PERSON), None)
    try:
        policy = agent_policy.read_policy(path, os.environ, is_person=is_person)
    except CkptdError as error:
        return {"policy": None, "refusal": str(error)}
    return {"policy": asdict(policy), "refusal": None}


class _Server:
    def __init__(self):
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", agent_fork_server.__file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def fork(self, request, descriptor):
        """Fork an agent that serves on this socket; return its process id."""
        message = json.dumps({**request, "environment": dict(os.environ)}).encode()
        assert len(message) < agent_fork_server.MAX_REQUEST_BYTES
        socket.send_fds(self._connection, [message], [descriptor, 2])
        return int(self._connection.recv(20))

    def close(self):
        self._connection.close()
        self._process.wait()


@functools.cache
def _get_server(process_id):
    """Return the server of a process: a child that a test forks starts its own."""
    server = _Server()
    atexit.register(lambda: server.close() if os.getpid() == process_id else None)
    return server
