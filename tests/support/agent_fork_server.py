"""Forks an agent for each request: the program that `support.forked_agent` starts once in a process of tests.

It imports what the program of the real agent imports, and no more, so that an agent that needs more fails here, too.
"""

import json
import os
import signal
import socket
import sys

from ckptd.checkpoints.agent import agent_operations, process
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError
from ckptd.service.agent_process import OPERATIONS
from ckptd.service.policy_child import PolicyError

MAX_REQUEST_BYTES = 1 << 17


def main():
    connection = socket.socket(fileno=int(sys.argv[1]))
    agent_operations.preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever asked for a child waits for it
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 2)
        if not data:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            be_agent(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(child).encode())


def be_agent(request, descriptor, log):
    """Serve as the program of the agent does, with the policy that the test process has read; never return."""

    def read_policy():
        if request["refusal"] is not None:
            raise PolicyError(request["refusal"])
        return RequestPolicy.from_json(request["policy"])

    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(request["environment"])
        process.serve(descriptor, read_policy, OPERATIONS)
        status = 0
    except CkptdError as error:
        sys.stderr.write(f"agent: {error}\n")
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
