"""The directories that inotify reported, and how many of them may be scanned before their turn.

Each save is reported, and each report would cost a scan. Where many jobs save, the scans at the regular interval find
several saves of a job at once, which costs less. So reports cause BURST scans, and PER_SECOND more as time passes: of
all that wait, or of TOGETHER directories at once, because those of one owner cost less in one request.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from ckptd.core.discovery.scan_schedule import WatchedRun

BURST = 120
PER_SECOND = 1.0
TOGETHER = 20


class ReportedDirectories:
    """Those that wait for an early scan, the oldest first. Use it under one lock."""

    def __init__(self) -> None:
        self._reported_at: dict[str, datetime] = {}  # the last report of each, in the order of the first ones
        self._left = float(BURST)  # how many scans may begin now
        self._counted_at: datetime | None = None

    def add(self, directories: Iterable[str], now: datetime) -> None:
        """Note that something changed in these directories."""
        for directory in sorted(directories):
            self._reported_at[directory] = now

    def take(self, watched: Iterable[WatchedRun], now: datetime) -> list[WatchedRun]:
        """Return the runs to scan early; forget directories that were scanned since, or that nobody watches."""
        self._count_time(now)
        if not self._reported_at or self._left < min(TOGETHER, len(self._reported_at)):
            return []
        in_directory: dict[str, list[WatchedRun]] = defaultdict(list)
        for each in watched:
            if each.key.directory in self._reported_at:
                in_directory[each.key.directory].append(each)
        taken: list[WatchedRun] = []
        for directory, reported_at in list(self._reported_at.items()):
            unseen = [each for each in in_directory[directory] if not _is_seen(each, reported_at)]
            if any(each.due_at <= now for each in unseen):
                continue  # its scan may have begun before the report
            if unseen and self._left < 1:
                break
            del self._reported_at[directory]
            self._left -= bool(unseen)
            taken += unseen
        return taken

    def _count_time(self, now: datetime) -> None:
        passed = 0.0 if self._counted_at is None else (now - self._counted_at).total_seconds()
        self._left = min(self._left + max(passed, 0.0) * PER_SECOND, BURST)
        self._counted_at = now


def _is_seen(watched: WatchedRun, reported_at: datetime) -> bool:
    """Whether the last scan began after the report."""
    return watched.observed_at is not None and watched.observed_at > reported_at
