"""Forks an agent for each request: the program that `support.forked_agent` starts once in a process of tests.

It imports what the program of the real agent imports, and no more, so that an agent that needs more fails here, too.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress

from ckptd.checkpoints.agent import agent_operations, child_states, confinement, process, request_child, requests
from ckptd.checkpoints.agent.identities import read_account
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.user_switch import become
from ckptd.checkpoints.scanning import claiming, examination, pointers, user_paths
from ckptd.errors import CkptdError
from ckptd.service.agent_process import OPERATIONS
from ckptd.service.policy_child import PolicyError

MAX_REQUEST_BYTES = 1 << 17
_KEPT = frozenset({"locate", "look_up_paths", "scan"})
_READERS = (claiming, examination, pointers)  # the modules that fork a child to read files


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
        if request["keeps_children"]:
            process.Agent = KeepingAgent
        process.serve(descriptor, read_policy, OPERATIONS)
        status = 0
    except CkptdError as error:
        sys.stderr.write(f"agent: {error}\n")
    finally:
        os._exit(status)


class KeepingAgent(process.Agent):
    """An agent whose children that scan stay: one for each user, confined as others, which reads files itself.

    To fork two children for a scan takes four times the processor time of the scan. Tests of the steps scan thousands
    of times, and only files that they made. Tests of the agent, of users who stop its children, and of what a hostile
    file does to a child, have the real agent; what changes files is always done by a child of its own.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._kept = {}  # by user: the socket of a child
        self._process_ids = set()

    def _start(self, request):
        if request["operation"] not in _KEPT or requests.needs_programs(request, self._policy):
            super()._start(request)
            return
        uid = request["uid"]
        if uid not in self._kept:
            self._kept[uid] = self._fork(uid)
        for answer in _ask(self._kept[uid], request):
            self._send({"id": request["id"], **answer})
            if answer.get("reason") is not None:
                del self._kept[uid]

    def _reap(self):
        """Do the same, but do not take the kept children for orphans."""
        self._abandoned |= self._process_ids
        super()._reap()
        self._process_ids &= self._abandoned
        self._abandoned -= self._process_ids

    def _fork(self, uid):
        ours, theirs = socket.socketpair()
        process_id = os.fork()
        if process_id == 0:
            ours.close()
            self._connection.close()
            self._signals.close()
            for other in self._kept.values():
                other.close()
            _serve(theirs, uid, self._policy, self._operations)
        theirs.close()
        self._process_ids.add(process_id)
        return ours.makefile("rwb")


def _ask(child, request):
    """Yield what the agent answers to a request, and that it is done."""
    with suppress(BrokenPipeError):
        child.write(json.dumps(request).encode() + b"\n")
        child.flush()
    reason = "it ended before it had answered"
    for line in child:
        answer = json.loads(line)
        if answer.keys() == {"done"}:
            reason = None
            break
        yield answer
    yield {"done": True, "reason": reason}


def _serve(connection, uid, policy, operations):
    """Answer requests as this user until the agent ends; never return."""
    try:
        child_states.stop_with_children()
        account = read_account(uid)
        policy.identities.check_names(account)
        confinement.drop_capability_bounds()
        become(account)
        user_paths.keep_home(uid, account.home)
        confinement.confine_files()
        os.umask(0o077)
        read_here()
        with connection.makefile("rwb") as lines:
            for line in lines:
                request = json.loads(line)
                for index, item in enumerate(request["items"]):
                    seconds = request["deadline_seconds"] / len(request["items"])
                    result = request_child.answer(request["operation"], item, policy, operations, seconds)
                    lines.write(json.dumps({"index": index, "result": result}).encode() + b"\n")
                lines.write(b'{"done": true}\n')
                lines.flush()
    except Exception as error:  # noqa: BLE001 - it must never return into the agent's loop
        sys.stderr.write(f"agent: the child of user {uid} ended: {type(error).__name__}: {error}\n")
    finally:
        os._exit(1)


def read_here(change=setattr):
    """From now on, let this process fork no child to read files; `change` sets an attribute."""
    for module in _READERS:
        change(module, "LimitedChild", _SameProcess)


class _SameProcess:
    """What the scan needs of `LimitedChild`, without another process."""

    def __init__(self, work, limits, allowed, directories, pipe=None):
        del limits, allowed, directories, pipe
        self._work = work
        self.failure = None
        self.step = -1
        self._told = []

    def answers(self, watch=None):
        del watch
        try:
            self._work(self)
        except Exception as error:  # noqa: BLE001 - a child would end with status 1
            self.failure = f"its reader failed: {error!r}"
        yield from self._told

    def fail(self, error):
        self.failure = f"its reader's answer is garbled: {error!r}"

    def begin(self, step, seconds):
        del seconds
        self.step = step

    def answer(self, value):
        self._told.append(json.loads(json.dumps(value)))

    def answer_row(self, *numbers):
        self.answer([[each] for each in numbers])

    def send(self):
        pass

    def close(self):
        pass

    def read_bytes_read(self):
        return 0


if __name__ == "__main__":
    main()
