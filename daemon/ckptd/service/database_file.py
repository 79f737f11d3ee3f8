"""Notices that the file of a SQLite database was deleted, moved or replaced while this process writes into it.

SQLite goes on without an error in a file that no longer has a name, and all that it records is lost with the process.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple


class _Identity(NamedTuple):
    device: int
    inode: int


class DatabaseFile:
    """The file at a path as it was at first; without a path, or where it cannot be seen, nothing ever changes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = None
        if path is not None:
            with contextlib.suppress(OSError):
                self._opened = _identify(path)

    def describe_change(self) -> str | None:
        """Return what happened to the file; None if it is the same, or if that cannot be found out now."""
        if self._path is None or self._opened is None:
            return None
        try:
            found = _identify(self._path)
        except OSError:  # the file system does not answer: what SQLite writes fails, too
            return None
        if found is None:
            return f"the database {self._path} was deleted or moved"
        return None if found == self._opened else f"the database {self._path} was replaced by another file"


def _identify(path: Path) -> _Identity | None:
    """Return which file is at a path; None if there is none.

    Raises:
        OSError: it cannot be found out.

    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _Identity(found.st_dev, found.st_ino)
