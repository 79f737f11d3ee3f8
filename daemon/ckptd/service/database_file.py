"""Notices that a file of a SQLite database was deleted, moved or replaced while this process writes into it.

SQLite goes on without an error in a file that no longer has a name, and all that it records is lost with the process.
A process that ends in order keeps what is only in a deleted `-wal`, but nobody else sees it until then.
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
        self._beside: dict[str, _Identity | None] = {}  # the files that SQLite makes beside it, as they were last
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
        if found != self._opened:
            return f"the database {self._path} was replaced by another file"
        if lost := self._find_deleted(os.path.realpath(self._path)):
            return f"the file {lost} of the database was deleted"
        return None

    def _find_deleted(self, database: str) -> str | None:
        """Return a file beside the database that was deleted while this process has it open; None if there is none."""
        for path in (f"{database}-wal", f"{database}-shm"):
            with contextlib.suppress(OSError):
                if (found := _identify(path)) == self._beside.get(path):
                    continue
                if _is_deleted(path):  # otherwise SQLite itself deleted it with the last connection
                    return path
                self._beside[path] = found
        return None


def _is_deleted(path: str) -> bool:
    """Return whether this process has a file open that was deleted at this path."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
            if os.readlink(f"/proc/self/fd/{number}") == f"{path} (deleted)":
                return True
    return False


def _identify(path: str | Path) -> _Identity | None:
    """Return which file is at a path; None if there is none.

    Raises:
        OSError: it cannot be found out.

    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _Identity(found.st_dev, found.st_ino)
