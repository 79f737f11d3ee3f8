"""Starts the daemons of one cluster, each marked as its own, and tells why one does not come up."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from demo.errors import DemoError
from demo.patience import Deadline, allow
from demo.processes import MARK


class Daemons:
    """The daemons of one cluster by name, with a log file each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a daemon in the foreground of a session of its own, its output in log/NAME.log.

        Raises:
            DemoError: the program is not installed.

        """
        with (self._directory / f"log/{name}.log").open("ab") as log:
            try:
                self._running[name] = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **(environment or {}), MARK: str(self._directory)},
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise DemoError(f"{argv[0]} is not installed: run deploy/demo/install as root.") from error

    def wait_ready(self, name: str, is_ready: Callable[[], bool], *, seconds: float = 30) -> None:
        """Wait until a daemon answers.

        Raises:
            DemoError: it ended or did not answer in time; the text ends with its log's last lines.

        """
        deadline = Deadline(seconds)
        while not is_ready():
            status = self._running[name].poll()
            if status is not None or deadline.has_passed():
                trouble = "does not answer" if status is None else f"ended with status {status}"
                raise DemoError(f"{name} {trouble}; its log ends with: {self._read_log_end(name)}")
            time.sleep(0.05)

    def check_running(self, name: str) -> None:
        """Make sure that a daemon still runs.

        Raises:
            DemoError: it ended; the text ends with its log's last lines.

        """
        status = self._running[name].poll()
        if status is not None:
            raise DemoError(f"{name} ended with status {status}; its log ends with: {self._read_log_end(name)}")

    def read_pid(self, name: str) -> int:
        """Return the process id of a daemon."""
        return self._running[name].pid

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon by a signal and wait for its end."""
        daemon = self._running.pop(name)
        daemon.send_signal(number)
        try:
            daemon.wait(timeout=allow(20))
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def wait_ended(self) -> None:
        """Collect the daemons after something else has ended them."""
        for daemon in self._running.values():
            daemon.wait()
        self._running.clear()

    def _read_log_end(self, name: str) -> str:
        lines = (self._directory / f"log/{name}.log").read_text(errors="replace").splitlines()
        return " / ".join(lines[-5:])
