"""Notices that scans no longer answer, though some were begun: then something keeps all of them waiting."""

import threading
from datetime import timedelta

REQUESTS_OF_A_SCAN = 20  # of one owner's directories; each may wait for a file system until its deadline


def find_limit(interval: timedelta, deadline: timedelta) -> timedelta:
    """Return for how long no scan may answer: longer than that of an owner whose file system is dead.

    A single request takes at most `scan_patience.MOST` deadlines.
    """
    return interval + REQUESTS_OF_A_SCAN * deadline


class ScanWatch:
    """Counts scans that were begun and have not ended. A scan that finds nothing, or fails, has ended.

    One of many large directories may take hours on a busy host: what it records of each request counts as an end.

    Silence is counted in calls of `is_silent`, not in seconds, as in `agent_watch`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_count = 0
        self._call_count = 0

    def begin(self) -> None:
        """Note that a scan was begun, or waits for a thread."""
        with self._lock:
            self._open_count += 1

    def end(self) -> None:
        """Note that a scan ended, in whatever way."""
        with self._lock:
            self._open_count -= 1
            self._call_count = 0

    def note_answer(self) -> None:
        """Note that a scan has recorded a part of what it shall find."""
        with self._lock:
            self._call_count = 0

    def is_silent(self, max_calls: int) -> bool:
        """Count one more call while a scan is open; return whether there were too many since one ended or answered."""
        with self._lock:
            self._call_count = self._call_count + 1 if self._open_count else 0
            return self._call_count > max_calls
