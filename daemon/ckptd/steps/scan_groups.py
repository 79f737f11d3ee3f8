"""Groups one owner's directories for requests to the agent, so that only a bounded number of checkpoints is in memory.

A request contains the known checkpoints of its directories and its answer those that were found, so the size of a
group depends on how many entries the last scans counted. In a directory that was never scanned, as many are expected
as in the owner's others. What is recorded at once depends on how many checkpoints were found.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Scan, Unknown

MAX_DIRECTORIES = 16  # of a group: as many as one parser reads
MAX_ENTRIES = 4000  # expected in a group of several directories
EXPECTED_ENTRIES = 1000  # in a directory, while none of the owner's was scanned


class ScanGroups:
    """Takes one group after another from the directories that are due, in their order."""

    def __init__(self, due: Iterable[WatchedRun]) -> None:
        self._left = deque(due)
        self._counts: list[int] = [each.last.entry_count for each in self._left if isinstance(each.last, Scan)]

    @property
    def is_empty(self) -> bool:
        return not self._left

    def note(self, found: Iterable[Scan | Unknown]) -> None:
        """Note how many entries the scans of a group counted."""
        self._counts += [each.entry_count for each in found if isinstance(each, Scan)]

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
        return sum(self._counts) // len(self._counts) if self._counts else EXPECTED_ENTRIES


def split_by_size(
    scanned: Iterable[tuple[WatchedRun, Scan | Unknown]],
) -> Iterator[list[tuple[WatchedRun, Scan | Unknown]]]:
    """Yield the results of some scans in parts that have a bounded number of checkpoints, or one directory each."""
    part: list[tuple[WatchedRun, Scan | Unknown]] = []
    count = 0
    for watched, found in scanned:
        count += len(found.checkpoints) if isinstance(found, Scan) else 0
        if part and count > MAX_ENTRIES:
            yield part
            part, count = [], len(found.checkpoints) if isinstance(found, Scan) else 0
        part.append((watched, found))
    if part:
        yield part
