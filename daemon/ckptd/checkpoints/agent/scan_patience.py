"""Gives a scan that still computes at its deadline more time, because an answer that comes too late is lost.

The deadline is there for file systems that hang: a child that waits for one uses no processor time. On a busy host, a
directory of 100,000 files may take many times as long as on an idle one, and so would each further try. A child that
waits for the parser that it has started looks after it several times a second: the parser has limits of its own.
"""

import time

STRETCHED = "scan"  # the operation whose deadline is put off
MOST = 10  # times its deadline that a scan may take
_PART = 0.1  # of the deadline, in each of which it must use processor time


class ScanPatience:
    """How long one scan may take."""

    def __init__(self, process_id: int, seconds: float, begun_at: float) -> None:
        """Take the process that scans, its deadline in seconds, and when it began, by the monotonic clock."""
        self._process_id = process_id
        self._part = seconds * _PART
        self._deadline = begun_at + seconds
        self._over_at = begun_at + seconds * MOST
        self._used: float | None = None
        self.first_at = self._deadline - self._part  # when to ask for the first time

    def find_next(self, now: float) -> float | None:
        """Return until when the process may go on before this is to be asked again; None if its time is over."""
        used = _read_processor_seconds(self._process_id)
        is_at_work = self._used is None or used > self._used
        self._used = used
        next_at = max(now + self._part, self._deadline)
        return next_at if is_at_work and next_at <= self._over_at else None


def _read_processor_seconds(process_id: int) -> float:
    """Return how much processor time a process has used; 0 if it has ended.

    This is the clock of `clock_getcpuclockid(3)`, which needs no right to read /proc: systemd hides it.
    """
    try:
        return time.clock_gettime((~process_id << 3) | 2)
    except OSError:
        return 0.0
