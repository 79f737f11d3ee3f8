"""Reports changes in directories with inotify, through watchdog, in a process of its own.

It starts before the daemon drops its privileges, because users' directories are often closed to others: it opens each
with the rights of the user whose run is in it. It only names a watched directory that has changed. It opens a directory
through no link and watches what it opened: a link of one user must not lead into a directory of another. If the kernel
refuses a watch (no permission, none left) or cannot know of changes (network file systems), only the daemon's own scans
find them, and `unwatched` has the reason.

An attacker may control the main process, as with the agent. So the watcher reads the same policy from the configuration
itself: it has the rights of people's accounts only, and watches below the allowed roots only.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from pathlib import PurePosixPath

from watchdog.observers.inotify_c import CallbackId, InotifyConstants, InotifyEvent, InotifyFD, Mask, WatchDescriptor

from ckptd.checkpoints.agent.field_checks import MAX_PLACES, are_owned_paths
from ckptd.checkpoints.agent.identities import read_account
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.user_switch import effective_owner
from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, is_allowed, open_without_links
from ckptd.checkpoints.scanning.mounts import Mount, find_mount, read_mounts
from ckptd.errors import CkptdError

MAX_WATCHED = 1000  # more report no sooner: the scans before their turn have a budget
MAX_LINE_BYTES = 64 * 2**20
RELOAD = b'{"reload": true}\n'
PAUSE = 0.05  # seconds between two reads of the kernel's queue: of many changes meanwhile, one is reported
REPORTED = Mask(
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_DELETE_SELF
)


class _ChangeHandler:
    """Reports one directory. watchdog's reader of inotify calls it, which needs one thread for all directories."""

    def __init__(self, watcher: "Watcher", directory: str) -> None:
        self._watcher = watcher
        self._directory = directory

    def on_event(self, event: InotifyEvent) -> None:  # noqa: ARG002 - the scan finds out what it was
        self._watcher.changes[self._directory] += 1

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        self._watcher.forget(self._directory, wd)

    def on_queue_overflow(self) -> None:
        """Do nothing: the reader itself drops the directory that changes most."""


class _ChangeReader(InotifyFD):
    """The thread that reads the changes of all directories; without it, this process would only seem to watch."""

    def __init__(self, watcher: "Watcher") -> None:
        super().__init__()
        self._watcher = watcher

    def run(self) -> None:
        try:
            while self.should_keep_running():
                for event in self.read_events():
                    self.handle_event(event)
                self._watcher.report()
                time.sleep(PAUSE)
        except BaseException:  # noqa: BLE001 - the main process logs that the watcher has ended
            traceback.print_exc()
            os._exit(1)

    def handle_event(self, event: InotifyEvent) -> None:
        if event.is_queue_overflow:
            self._watcher.drop_busiest()
        else:
            super().handle_event(event)


class Watcher:
    """Watches the directories of the last request, each without its subdirectories."""

    def __init__(self, connection: socket.socket, read_policy: Callable[[], RequestPolicy]) -> None:
        """Read the policy for the first time.

        Raises:
            CkptdError: it cannot be read, or must not be trusted; or the kernel refuses inotify.

        """
        self._connection = connection
        self._read_policy = read_policy
        self._policy = read_policy()
        self._wanted: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self.changes: Counter[str] = Counter()  # how many of each directory were read at once; of the reader alone
        try:
            self._inotify = _ChangeReader(self)
        except OSError as error:
            message = f"cannot use inotify: {error.strerror}; see fs.inotify.max_user_instances"
            raise CkptdError(message) from error
        self._watched: dict[str, tuple[WatchDescriptor, CallbackId]] = {}
        self._without_room: set[str] = set()  # directories for which the main process knows that there is no room

    def serve(self) -> None:
        """Work until the main process is gone."""
        self._inotify.start()
        with self._connection.makefile("rb") as lines:
            for line in iter(partial(lines.readline, MAX_LINE_BYTES), b""):
                self._accept(line)

    def _accept(self, line: bytes) -> None:
        """Do what the line asks for; a malformed one changes nothing."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if request == {"reload": True}:
            self._reload()
        elif isinstance(request, dict) and request.keys() == {"watch"} and are_owned_paths(request["watch"]):
            self._watch([(directory, uid) for directory, uid in request["watch"]])
        else:
            sys.stderr.write("watcher: refused a malformed request\n")

    def _reload(self) -> None:
        """Read the policy again, and end the watches that it does not allow; a wrong one leaves the old in force."""
        try:
            policy = self._read_policy()
        except CkptdError as error:
            sys.stderr.write(f"watcher: {error}; keeping the previous configuration\n")
            return
        has_changed = (policy.identities, policy.allowed_roots) != (self._policy.identities, self._policy.allowed_roots)
        self._policy = policy
        if has_changed:
            wanted = self._wanted
            self._watch([])
            self._watch(wanted)

    def send(self, message: dict[str, str]) -> None:
        """Send one message; ignore a closed connection, because this process then ends soon."""
        with self._lock:
            try:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                os._exit(0)

    def report(self) -> None:
        """Report the directories whose changes were just read."""
        for directory in self.changes:
            self.send({"changed": directory})
        self.changes.clear()

    def forget(self, directory: str, wd: WatchDescriptor) -> None:
        """Note that the kernel has ended a watch; the next request begins it again if the directory is back."""
        if self._watched.get(directory, (None,))[0] == wd:
            del self._watched[directory]
            self.report()
            self.send({"unwatched": directory, "reason": "deleted or unmounted"})

    def drop_busiest(self) -> None:
        """Watch the directory that changed most no longer: the changes of all others wait in the same queue.

        The regular scans find what the kernel dropped. The next request begins the watch again.
        """
        for directory, _ in self.changes.most_common(1):
            if (place := self._watched.pop(directory, None)) is not None:
                self._inotify.remove_callbacks([place])
                self.report()
                self.send({"unwatched": directory, "reason": "too many changes"})

    def _watch(self, wanted: list[tuple[str, int]]) -> None:
        self._wanted = wanted
        names = {directory for directory, _ in wanted}
        for directory in self._watched.keys() - names:
            if (place := self._watched.pop(directory, None)) is not None:  # else the reader was faster
                self._inotify.remove_callbacks([place])
        self._without_room &= names
        mounts = read_mounts()
        new = [each for each in wanted if each[0] not in self._watched]
        if self._is_full():
            new = [each for each in new if each[0] not in self._without_room]
        for uid, group in groupby(sorted(new, key=_owner), key=_owner):
            directories = [directory for directory, _ in group if directory not in self._watched]
            if self._is_full():
                self._leave_out(directories)
                continue
            try:
                self._policy.identities.check_number(uid)
                account = read_account(uid)
                self._policy.identities.check_names(account)
                with effective_owner(account):
                    for directory in directories:
                        self._add(directory, mounts)
            except CkptdError as error:
                for directory in directories:
                    self.send({"unwatched": directory, "reason": str(error)})

    def _is_full(self) -> bool:
        return len(self._watched) >= MAX_WATCHED

    def _add(self, directory: str, mounts: tuple[Mount, ...]) -> None:
        if self._is_full():
            self._leave_out([directory])
            return
        if getattr(find_mount(mounts, PurePosixPath(directory)), "is_network", False):
            self.send({"unwatched": directory, "reason": "a network file system"})
            return
        self._without_room.discard(directory)
        try:
            with open_without_links(directory) as descriptor:
                self._check_place(directory, descriptor)
                self._watched[directory] = self._begin(descriptor, directory)
        except OSError as error:
            self.send({"unwatched": directory, "reason": error.strerror or str(error)})
        except (OutsideRootsError, UnicodeEncodeError) as error:  # the latter: no file has such a name
            self.send({"unwatched": directory, "reason": str(error)})

    def _leave_out(self, directories: Iterable[str]) -> None:
        """Tell once of each directory that there is no room for it."""
        for directory in directories:
            if directory not in self._without_room:
                self._without_room.add(directory)
                self.send({"unwatched": directory, "reason": f"more than {MAX_WATCHED} directories"})

    def _check_place(self, directory: str, descriptor: int) -> None:
        if not is_allowed(os.readlink(f"/proc/self/fd/{descriptor}"), self._policy.allowed_roots):
            raise OutsideRootsError(f"{directory} is outside the site's allowed roots")

    def _begin(self, descriptor: int, directory: str) -> tuple[WatchDescriptor, CallbackId]:
        """Watch an open directory; return what ends that watch."""
        name = f"/proc/self/fd/{descriptor}"
        os.close(os.open(name, os.O_RDONLY | os.O_DIRECTORY))  # watchdog ignores a missing permission
        handler = _ChangeHandler(self, directory)
        place = CallbackId(id(handler))
        return self._inotify.add_callback(name.encode(), REPORTED, handler, place), place


def _owner(wanted: tuple[str, int]) -> int:
    return wanted[1]


def encode_wanted(directories: Iterable[tuple[str, int]]) -> bytes:
    """Return the request to watch exactly these directories, each with the rights of a user."""
    return json.dumps({"watch": sorted(directories)[:MAX_PLACES]}).encode() + b"\n"


def serve(descriptor: int, read_policy: Callable[[], RequestPolicy]) -> None:
    """Serve on a socket until its other end closes, then end the process.

    Raises:
        CkptdError: the policy cannot be read, or must not be trusted.

    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process closes the socket when it ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Watcher(socket.socket(fileno=descriptor), read_policy).serve()
    os._exit(0)
