"""The agent and the watcher of a daemon in a test, forked from it instead of started as programs.

Their imports, and those of the child that reads the configuration, cost a second and a half of CPU time each time.
A fork of the daemon has these modules already, so such a test cannot find that a program fails to import one. Tests of
the daemon beside a real Slurm and systemd, and of the agent itself, start the programs.
"""

import importlib
import os
import runpy
import select
import signal
import subprocess
import sys
import traceback
from types import SimpleNamespace

from ckptd.checkpoints.agent import client, watcher_client

_FIRST_OTHER = 3  # descriptors before it are standard input, output and errors


def fork_programs(*, change_command=lambda command: command):
    """From now on, let this process fork its helpers; `change_command` may name another program."""

    def start(command, *, pass_fds):
        return _ForkedProgram(change_command(command), pass_fds)

    for module in (client, watcher_client):
        module.subprocess = SimpleNamespace(Popen=start)


class _ForkedProgram:
    """What the clients need of `subprocess.Popen`."""

    def __init__(self, command, pass_fds):
        self.pid = os.fork()
        if self.pid == 0:
            _be_program(command, pass_fds)
        self._descriptor = os.pidfd_open(self.pid)

    def wait(self, timeout=None):
        if self._descriptor is None:
            return
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("helper", timeout)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        self._descriptor = None

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


def _be_program(command, pass_fds):
    status = 1
    try:
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        kept = {*range(_FIRST_OTHER), *pass_fds}
        for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:
            if descriptor not in kept:
                _close(descriptor)
        _run(command)
        status = 0
    except SystemExit as end:
        sys.stderr.write(f"{end.code}\n" if isinstance(end.code, str) else "")
    except BaseException:  # noqa: BLE001 - as the interpreter does for a program
        traceback.print_exc()
    finally:
        os._exit(status)


def _run(command):
    _, first, *rest = command
    if first == "-P":
        _, module, *arguments = rest
        sys.argv = [module, *arguments]
        importlib.import_module(module).main()
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _close(descriptor):
    try:
        os.close(descriptor)
    except OSError:  # it was that of the listing
        return
