"""Reports changes in directories with inotify, through watchdog, in a process of its own.

It starts before the daemon drops its privileges, because users' directories are often closed to others: it opens each
with the rights of the user whose run is in it. It only names a watched directory that has changed. It opens a directory
through no link and watches what it opened: a link of one user must not lead into a directory of another. If the kernel
refuses a watch (no permission, none left) or cannot know of changes (network file systems), only the daemon's own scans
find them, and `unwatched` has the reason.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from itertools import groupby
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

from ckptd.checkpoints.agent.user_switch import AgentError, effective_owner
from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, open_without_links
from ckptd.checkpoints.scanning.mounts import Mount, find_mount, read_mounts

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
        self._without_room: set[str] = set()  # directories for which the main process knows that there is no room

    def serve(self) -> None:
        """Work until the main process is gone."""
        self._observer.start()
        with self._connection.makefile("rb") as lines:
            for line in lines:
                self._watch([(directory, uid) for directory, uid in json.loads(line)["watch"]])

    def send(self, message: dict[str, str]) -> None:
        """Send one message; ignore a closed connection, because this process then ends soon."""
        with self._lock:
            try:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                os._exit(0)

    def _watch(self, wanted: list[tuple[str, int]]) -> None:
        names = {directory for directory, _ in wanted}
        for directory in self._watched.keys() - names:
            self._observer.unschedule(self._watched.pop(directory))
        self._without_room &= names
        mounts = read_mounts()
        new = [each for each in wanted if each[0] not in self._watched]
        if self._is_full():
            new = [each for each in new if each[0] not in self._without_room]
        for uid, group in groupby(sorted(new, key=_owner), key=_owner):
            directories = [directory for directory, _ in group if directory not in self._watched]
            try:
                with effective_owner(uid):
                    for directory in directories:
                        self._add(directory, mounts)
            except AgentError as error:
                for directory in directories:
                    self.send({"unwatched": directory, "reason": str(error)})

    def _is_full(self) -> bool:
        return len(self._watched) >= MAX_WATCHED

    def _add(self, directory: str, mounts: tuple[Mount, ...]) -> None:
        if self._is_full():
            if directory not in self._without_room:
                self._without_room.add(directory)
                self.send({"unwatched": directory, "reason": f"more than {MAX_WATCHED} directories"})
            return
        if getattr(find_mount(mounts, PurePosixPath(directory)), "is_network", False):
            self.send({"unwatched": directory, "reason": "a network file system"})
            return
        self._without_room.discard(directory)
        try:
            with open_without_links(directory) as descriptor:
                name = self._name(descriptor)
                os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY))  # watchdog ignores a missing permission
                self._watched[directory] = self._observer.schedule(
                    _ChangeHandler(self, directory), name, recursive=False, event_filter=TOLD
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


def _owner(wanted: tuple[str, int]) -> int:
    return wanted[1]


def encode_wanted(directories: Iterable[tuple[str, int]]) -> bytes:
    """Return the request to watch exactly these directories, each with the rights of a user."""
    return json.dumps({"watch": sorted(directories)}).encode() + b"\n"


def main() -> None:
    """Serve on the socket whose descriptor is the only argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process closes the socket when it ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Watcher(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
