"""Groups one owner's directories for requests to the agent, so that only a bounded number of checkpoints is in memory.

A request contains the known checkpoints of its directories and its answer those that were found, so the size of a
group depends on how many entries the last scans counted. In a directory that was never scanned, as many are expected
as in the owner's others; while none of these was scanned, a group has one directory. What is recorded at once depends
on how many checkpoints were found.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Scan

Found = TypeVar("Found")

MAX_DIRECTORIES = 16  # of a group: as many as one parser reads
MAX_ENTRIES = 4000  # expected in a group of several directories


class ScanGroups:
    """Takes one group after another from the directories that are due, in their order."""

    def __init__(self, due: Iterable[WatchedRun]) -> None:
        self._left = deque(due)
        self._counts: list[int] = [each.last.entry_count for each in self._left if isinstance(each.last, Scan)]

    @property
    def is_empty(self) -> bool:
        return not self._left

    def note(self, entry_counts: Iterable[int | None]) -> None:
        """Note how many entries the scans of a group counted; None: one failed."""
        self._counts += [each for each in entry_counts if each is not None]

    def take(self) -> list[WatchedRun]:
        """Remove and return the next group; it is empty when no directory is left."""
        group: list[WatchedRun] = []
        count = 0
        while self._left and len(group) < MAX_DIRECTORIES:
            count += self._expect(self._left[0])
            if group and count > MAX_ENTRIES:
                break
            group.append(self._left.popleft())
        return group

    def _expect(self, watched: WatchedRun) -> int:
        if isinstance(watched.last, Scan):
            return watched.last.entry_count
        return sum(self._counts) // len(self._counts) if self._counts else MAX_ENTRIES


def split_by_size(
    scanned: Iterable[tuple[WatchedRun, Found]], count: Callable[[Found], int]
) -> Iterator[list[tuple[WatchedRun, Found]]]:
    """Yield the results of scans in parts with a bounded number of checkpoints, or one directory each."""
    part: list[tuple[WatchedRun, Found]] = []
    total = 0
    for watched, found in scanned:
        total += count(found)
        if part and total > MAX_ENTRIES:
            yield part
            part, total = [], count(found)
        part.append((watched, found))
    if part:
        yield part


class LargeDirectories:
    """Lets the checkpoints of one large directory be in memory at a time, whoever owns it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def wait_for_turn(self, checkpoint_count: int) -> Iterator[None]:
        """Enter when no other thread has more checkpoints than a group of directories; at once with no more."""
        with self._lock if checkpoint_count > MAX_ENTRIES else contextlib.nullcontext():
            yield
