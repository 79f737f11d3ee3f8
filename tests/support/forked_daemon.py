"""Daemons and commands in processes of their own, without the cost of their start.

To start the program costs a second of CPU time for its imports. Here one process has them, and forks. Tests of the
start itself, and those beside a real Slurm, start the program.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing import connection, forkserver, reduction

from ckptd.checkpoints.agent.limited_child import end_with
from ckptd.cli import main
from support.forked_processes import FORKS
from support.forked_programs import fork_programs


class ForkedDaemon:
    """What a test needs of `subprocess.Popen`, of a process that calls a function."""

    def __init__(self, function, *arguments, log, folder, output=None, environment=None):
        """Call `function`, which a module holds, in a session of its own.

        What it prints goes to the open files `output` and `log`, or all of it to `log`.
        """
        files = _InheritedFile(output or log), _InheritedFile(log)
        self._process = FORKS.Process(
            target=_be_daemon,
            args=(files, folder, {**os.environ, **(environment or {})}, function, arguments),
        )
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        if not connection.wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired("daemon", timeout)
        return self._process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self._process.terminate()

    def kill(self):
        self._process.kill()


class _InheritedFile:
    """Stands for an open file among a process's arguments, where its descriptor arrives."""

    def __init__(self, file):
        self._file = file

    def __reduce__(self):
        return _get_descriptor, (reduction.DupFd(self._file.fileno()),)


def _get_descriptor(duplicate):
    return duplicate.detach()


def _be_daemon(files, folder, environment, function, arguments):
    os.setsid()
    # the server ends with the test run unless a process keeps this open, and this process ends with the server
    os.close(forkserver._forkserver._forkserver_alive_fd)
    end_with(os.getppid())
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    fork_programs()
    function(*arguments)


def run_ckptd(*words):
    """Be the command `ckptd` with these words."""
    sys.argv = ["ckptd", *words]
    main()


def complete_ckptd(*words, folder, timeout):
    """Run the command `ckptd` with these words as `subprocess.run` does with captured text."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = ForkedDaemon(run_ckptd, *words, log=errors, output=output, folder=folder)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        texts = [file.seek(0) or file.read() for file in (output, errors)]
    return subprocess.CompletedProcess(words, status, *texts)
