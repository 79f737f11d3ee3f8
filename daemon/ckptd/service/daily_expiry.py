"""Lets single cycles from cron let go of what ended long ago, as the daemon does once a day.

The daemon waits after its start and after the clock was set, for the calendar decides what is deleted. A single cycle
knows neither, so a file in the state directory keeps when the clock was last believed.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ckptd import steps
from ckptd.core.model.records import Expired
from ckptd.service.password_file import StateError
from ckptd.steps import Parts, State

MARK = "expired"  # the file: its time of change is what counts
INTERVAL = timedelta(days=1)
LONGEST_PAUSE = timedelta(days=40)  # between two cycles; after a longer one the clock may have been set


def expire_daily(directory: Path, parts: Parts, state: State, keep: timedelta, now: datetime) -> Expired:
    """Delete what ended longer ago than `keep`, where that was last done, or first thought of, a day ago.

    Raises:
        StateError: the file in the state directory cannot be written; then nothing is deleted.

    """
    mark = directory / MARK
    marked_at = _read_mark(mark)
    if marked_at is not None and timedelta(0) <= now - marked_at < INTERVAL:
        return Expired()
    _write_mark(mark, now)
    if marked_at is None or not INTERVAL <= now - marked_at <= LONGEST_PAUSE:
        return Expired()
    return steps.expire(parts, state, keep, now)


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
