"""Lets single cycles from cron let go of what ended long ago, as the daemon does once a day.

The daemon waits after its start and after the clock was set, for the calendar decides what is deleted. A single cycle
knows neither, so a file in the state directory keeps when the clock was last believed.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptd.service.password_file import StateError

MARK = "expired"  # the file: its time of change is what counts
INTERVAL = timedelta(days=1)
LONGEST_PAUSE = timedelta(days=40)  # between two cycles; after a longer one the clock may have been set


def claim_day(directory: Path, now: datetime) -> bool:
    """Whether a day is over since the last turn, or since it was first thought of; then that was the turn.

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
