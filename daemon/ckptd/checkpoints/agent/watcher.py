"""Reports changes in directories with inotify, through watchdog, in a process of its own.

It starts before the daemon drops its privileges, because users' directories are often closed to others. It only names
a watched directory that has changed. It opens a directory through no link and watches what it opened, because its
privileges would let it follow a link that the directory's owner could not. If the kernel refuses a watch (no
permission, none left) or cannot know of changes (network file systems), only the daemon's own scans find them, and
`unwatched` has the reason.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import PurePosixPath

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, open_without_links
from ckptd.checkpoints.scanning.mounts import find_mount, read_mounts

MAX_WATCHED = 1000  # watchdog keeps a thread for each
TOLD = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]


class _ChangeHandler(FileSystemEventHandler):
    def __init__(self, watcher: "Watcher", directory: str) -> None:
        self._watcher = watcher
        self._directory = directory

    def on_any_event(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - the scan finds out what it was
        self._watcher.send({"changed": self._directory})


class Watcher:
    """Watches the directories of the last request, each without its subdirectories."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._observer: BaseObserver = Observer()
        self._watched: dict[str, ObservedWatch] = {}

    def serve(self) -> None:
        """Work until the main process is gone."""
        self._observer.start()
        with self._connection.makefile("rb") as lines:
            for line in lines:
                self._watch(json.loads(line)["watch"])

    def send(self, message: dict[str, str]) -> None:
        """Send one message; ignore a closed connection, because this process then ends soon."""
        with self._lock:
            try:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                os._exit(0)

    def _watch(self, wanted: list[str]) -> None:
        for directory in self._watched.keys() - set(wanted):
            self._observer.unschedule(self._watched.pop(directory))
        mounts = read_mounts()
        for directory in wanted:
            if directory not in self._watched:
                self._add(directory, find_mount(mounts, PurePosixPath(directory)))

    def _add(self, directory: str, mount: object) -> None:
        if getattr(mount, "is_network", False):
            self.send({"unwatched": directory, "reason": "a network file system"})
            return
        if len(self._watched) >= MAX_WATCHED:
            self.send({"unwatched": directory, "reason": f"more than {MAX_WATCHED} directories"})
            return
        try:
            with open_without_links(directory) as descriptor:
                self._watched[directory] = self._observer.schedule(
                    _ChangeHandler(self, directory), self._name(descriptor), recursive=False, event_filter=TOLD
                )
        except OSError as error:
            self.send({"unwatched": directory, "reason": error.strerror or str(error)})
        except OutsideRootsError as error:
            self.send({"unwatched": directory, "reason": str(error)})

    def _name(self, descriptor: int) -> str:
        """Return a path of an open directory that no watch has: watchdog tells watches apart by their paths.

        The descriptor is closed once the watch is there, since it would keep the file system from being unmounted; the
        next directory may get its number.
        """
        used = {watch.path for watch in self._watched.values()}
        name = f"/proc/self/fd/{descriptor}/."  # watchdog follows no link at a path's end
        while name in used:
            name += "/."
        return name


def encode_wanted(directories: Iterable[PurePosixPath]) -> bytes:
    """Return the request to watch exactly these directories."""
    return json.dumps({"watch": sorted(str(directory) for directory in directories)}).encode() + b"\n"


def main() -> None:
    """Serve on the socket whose descriptor is the only argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process closes the socket when it ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Watcher(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
