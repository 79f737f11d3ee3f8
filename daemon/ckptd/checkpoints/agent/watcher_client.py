"""The main process's side of the watcher: sends it directories to watch, and collects the changed ones.

If the watcher ends or no longer answers, changes are found later, by the regular scans.
"""

import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from ckptd.checkpoints.agent import helper_process
from ckptd.checkpoints.agent.watcher import RELOAD, encode_wanted

PAUSE_PER_DIRECTORY = 0.01  # seconds between two requests, each of which names all directories

log = logging.getLogger("ckptd")


class WatcherClient:
    """Starts the watcher, sends it directories, and collects the changed ones. Thread-safe."""

    def __init__(self, module: str, arguments: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Start the watcher's program with these arguments, after its descriptor."""
        self._clock = clock
        self._next_at = clock()
        ours, theirs = socket.socketpair()
        self._connection = ours
        self._lock = threading.Lock()
        self._wanted: frozenset[tuple[str, int]] = frozenset()
        self._changed: set[str] = set()
        self._unwatched: dict[str, str] = {}
        self._requests: dict[str, bytes] = {}  # that are not sent yet
        self._is_due = threading.Event()
        self._process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._is_closing = False
        self._receiver = threading.Thread(target=self._receive, name="watcher-client", daemon=True)
        self._receiver.start()
        threading.Thread(target=self._send, name="watcher-sender", daemon=True).start()

    def watch(self, directories: Iterable[tuple[str, int]]) -> None:
        """Watch exactly these directories from now on, each with the rights of the user whose run is in it.

        Call this often: a change soon after another one has to wait, the longer the more directories there are.
        """
        wanted = frozenset(directories)  # the same object, if it is one already
        if wanted is self._wanted or wanted == self._wanted or self._clock() < self._next_at:
            return
        self._wanted = wanted
        self._next_at = self._clock() + PAUSE_PER_DIRECTORY * len(wanted)
        paths = {path for path, _ in wanted}
        with self._lock:
            self._unwatched = {path: reason for path, reason in self._unwatched.items() if path in paths}
        self._request("watch", encode_wanted(wanted))

    def reload(self) -> None:
        """Let the watcher read its policy again; it logs why it does not."""
        self._request("reload", RELOAD)

    def take_changed(self) -> frozenset[str]:
        """Return the directories that changed since the last call."""
        with self._lock:
            changed, self._changed = frozenset(self._changed), set()
        return changed

    @property
    def unwatched(self) -> dict[str, str]:
        """The directories that cannot be watched, with the reason."""
        with self._lock:
            return dict(self._unwatched)

    def close(self) -> None:
        """End the watcher."""
        self._is_closing = True
        self._is_due.set()
        helper_process.end(self._process, self._connection)

    def _request(self, kind: str, line: bytes) -> None:
        """Let a thread send it: nobody must wait for a watcher that waits for a file system."""
        with self._lock:
            self._requests[kind] = line  # in place of one that is not sent yet
            self._is_due.set()

    def _send(self) -> None:
        with contextlib.suppress(OSError):  # a watcher that has ended leaves the scans, which need none
            while not self._is_closing:
                self._is_due.wait()
                with self._lock:
                    requests, self._requests = self._requests, {}
                    self._is_due.clear()
                self._connection.sendall(b"".join(requests.values()))

    def _receive(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                with self._lock:
                    if "changed" in message:
                        self._changed.add(str(message["changed"]))
                        self._unwatched.pop(str(message["changed"]), None)
                    else:
                        self._unwatched[str(message["unwatched"])] = str(message["reason"])
        if not self._is_closing:
            log.warning("watcher exited; until a restart, only the scans of scan.interval find changes")
