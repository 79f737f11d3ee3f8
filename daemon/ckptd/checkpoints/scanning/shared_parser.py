"""One confined child that reads several directories of one owner in turn.

To start a child costs as much processor time as to read a hundred small files. A file that takes over such a child can
make it answer wrongly for the directories after it, so it opens only files of the one owner that nobody else may write.
A directory with any other file is read by a child of its own, and so is one on which a shared child failed: that
failure is never blamed on a file.
"""

import os
import pickle
import resource
import select
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self

from ckptd.checkpoints.agent.limited_child import ChildLimits, ChildReporter, LimitedChild, RunningChild
from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, open_allowed, open_without_links
from ckptd.checkpoints.scanning.mounts import find_mount, read_recent_mounts
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory

MAX_DIRECTORIES = 16  # that one child may read; each of them is an open file
STEP_SECONDS = 5.0  # at most for a step: what takes longer is read again, and waited for, by another child
GROWTH_KIB = 512 << 10  # of memory, after which a child reads no other directory
MAX_ENTRIES = 5000  # of a directory and those below it: their listing is sent to the child
_END = True  # the last answer to each task; all others are objects, lists, texts or null
_LENGTH = struct.Struct("=Q")

Memory = dict[str, Any]  # what a task leaves for the next one
Work = Callable[..., None]  # a function of a module, called with Memory, Reader, ChildReporter and the task's values


class SharedParser:
    """Starts a child for an owner's directories when it is first needed. Close it, or use it as a context."""

    def __init__(self, uid: int, paths: Iterable[str], allowed_roots: Sequence[str]) -> None:
        """Take the directories in the order in which they are going to be read."""
        self._uid = uid
        self._paths = list(dict.fromkeys(paths))
        self._roots = allowed_roots
        self._child: _ServingChild | None = None
        self._has_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def begin(self, path: str, descriptor: int, tree: Directory) -> "SharedTask | None":
        """Return the child, ready to read one of the directories; None if that needs a child of its own."""
        if self._has_failed or path not in self._paths or not self._is_own(tree):
            return None
        if self._child is None or path not in self._child.paths:
            together = self._list_from(path)
            if len(together) == 1:
                return None
            self._close()
            try:
                self._child = _ServingChild(self._uid, together, self._roots)
            except OSError:  # no process can be started: whoever starts another one gets the error
                self._has_failed = True
                return None
        return SharedTask(self, self._child, path) if self._child.has_opened(path, descriptor) else None

    def give_up(self) -> None:
        """End the child after a failure, and start no other one."""
        self._has_failed = True
        self._close()

    def _list_from(self, path: str) -> list[str]:
        """Return the directory and the next ones on its file system: one that hangs delays none of another."""
        mounts = read_recent_mounts()
        left = self._paths[self._paths.index(path) :]
        mount = find_mount(mounts, PurePosixPath(path))
        if mount is not None and mount.filesystem_type == "autofs":
            return [path]  # each directory below may be a file system of its own
        return [each for each in left if find_mount(mounts, PurePosixPath(each)) == mount][:MAX_DIRECTORIES]

    def _is_own(self, tree: Directory) -> bool:
        if tree.count_entries() > MAX_ENTRIES:
            return False
        return all(
            not directory.is_open_to_others and all(file.uid == self._uid for file in directory.files.values())
            for directory in tree.walk()
        )

    def _close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


class SharedTask(RunningChild):
    """A shared child while it reads one directory; when that is left, as a context, all must have been answered."""

    is_shared = True

    def __init__(self, parser: SharedParser, serving: "_ServingChild", path: str) -> None:
        self._parser = parser
        self._serving = serving
        self._path = path
        self.child = serving.child
        self.answers: Iterator[Any] = iter(())

    def ask(self, work: Work, *values: Any, seconds: float) -> None:
        """Let the child call a function; its answers are in `answers`. A step may take so many seconds, if few."""
        self._finish()
        self.answers = self._serving.ask(self._path, work, values, min(seconds, STEP_SECONDS))

    def _finish(self) -> None:
        """Note a failure if the child answers more than was asked."""
        next(self.answers, None)
        if not self._serving.is_idle:
            self.child.fail(ValueError("more answers than questions"))

    def __exit__(self, *_: object) -> None:
        self._finish()
        if self.child.failure is not None:
            self._parser.give_up()


class _ServingChild:
    """The parent's side of one shared child."""

    def __init__(self, uid: int, paths: Sequence[str], allowed_roots: Sequence[str]) -> None:
        self.is_idle = True
        self._seconds = 0.0
        self.paths: dict[str, int] = {}  # what could be opened, by its number
        self._opened: list[tuple[int, int]] = []
        with ExitStack() as stack:
            descriptors: list[int] = []
            for path in paths:
                try:
                    stack.enter_context(open_without_links(path))  # a link may lead to a server that hangs
                    descriptor = stack.enter_context(open_allowed(path, allowed_roots))
                except (OSError, OutsideRootsError):
                    continue  # whoever asks for this directory gets the error
                self.paths[path] = len(descriptors)
                descriptors.append(descriptor)
                self._opened.append(_identify(descriptor))
            tasks, self._tasks = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, tasks)
            unless_begun = stack.enter_context(ExitStack())
            unless_begun.callback(os.close, self._tasks)
            self.child = LimitedChild(
                lambda teller: _serve(tasks, descriptors, uid, teller),
                ChildLimits(),
                lambda _: self._seconds,
                descriptors,
                tasks,
            )
            unless_begun.pop_all()
        os.set_blocking(self._tasks, False)
        self._answers = self.child.answers()

    def has_opened(self, path: str, descriptor: int) -> bool:
        """Tell whether the child has this very directory, and not another one that had the path before."""
        number = self.paths.get(path)
        return number is not None and self._opened[number] == _identify(descriptor)

    def ask(self, path: str, work: Work, values: Sequence[Any], seconds: float) -> Iterator[Any]:
        """Send a task, and return the answers to it as they arrive."""
        if self.child.failure is not None:
            return iter(())
        self.is_idle, self._seconds = False, seconds
        try:
            self._send(pickle.dumps((self.paths[path], work, values)))
        except RecursionError:
            self.child.failure = "its directories are nested too deeply to be sent"
        return self._list_answers()

    def _list_answers(self) -> Iterator[Any]:
        for answer in self._answers if self.child.failure is None else ():
            if answer is _END:
                self.is_idle = True
                return
            yield answer

    def close(self) -> None:
        os.close(self._tasks)
        self.child.close()

    def _send(self, task: bytes) -> None:
        left = memoryview(_LENGTH.pack(len(task)) + task)
        until = time.monotonic() + self._seconds
        try:
            while left:
                if not select.select([], [self._tasks], [], max(0.0, until - time.monotonic()))[1]:
                    self.child.failure = "its reader takes no task"
                    return
                left = left[os.write(self._tasks, left) :]
        except BrokenPipeError:
            self.child.failure = "its reader has ended"


def _identify(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _serve(tasks: int, descriptors: Sequence[int], uid: int, teller: ChildReporter) -> None:
    """Carry out one task after the other, as the child, until the parent closes the pipe."""
    memory: Memory = {}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + GROWTH_KIB
    with os.fdopen(tasks, "rb") as pipe:
        while head := pipe.read(_LENGTH.size):
            number, work, values = pickle.loads(pipe.read(_LENGTH.unpack(head)[0]))  # noqa: S301 - of the parent
            with Reader(descriptors[number], only_uid=uid) as reader:
                work(memory, reader, teller, *values)
            teller.answer(_END)
            teller.send()
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > most:
                return  # the next one gets all the memory that it may have
