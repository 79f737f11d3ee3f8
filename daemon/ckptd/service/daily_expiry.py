"""Lets `ckptd once` from cron delete old records once a day, as the daemon does.

The daemon waits after its start and after the clock was set, because a wrong clock would delete too much. A single
cycle knows of neither, so the modification time of a file in the state directory marks when the day began.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptd.service.password_file import StateError

MARK = "expired"  # the file; its modification time counts
INTERVAL = timedelta(days=1)
LONGEST_PAUSE = timedelta(days=40)  # between two cycles; after a longer one the clock may have been set


def claim_day(directory: Path, now: datetime) -> bool:
    """Return whether a day has passed since the last time that this was true, or since the first call.

    Raises:
        StateError: the file in the state directory cannot be written; then nothing may be deleted.

    """
    mark = directory / MARK
    marked_at = _read_mark(mark)
    if marked_at is not None and timedelta(0) <= now - marked_at < INTERVAL:
        return False
    _write_mark(mark, now)
    return marked_at is not None and INTERVAL <= now - marked_at <= LONGEST_PAUSE


def _read_mark(mark: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(mark.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None


def _write_mark(mark: Path, now: datetime) -> None:
    try:
        mark.touch(mode=0o640)
        os.utime(mark, (now.timestamp(), now.timestamp()))
    except OSError as error:
        raise StateError(f"{str(mark)!r} cannot be written: {error.strerror}: set service.state_directory") from error
