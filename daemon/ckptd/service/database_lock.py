"""A lock beside a SQLite database, of the process that acts for a cluster; the kernel ends it with the process."""

import fcntl
import glob
import os
from pathlib import Path
from urllib.parse import quote

from ckptd.errors import CkptdError

_MODE = 0o660
_NAME_LENGTH = 100


class DatabaseLockError(CkptdError):
    """The lock beside the database cannot be used."""


class DatabaseLockDeniedError(DatabaseLockError):
    """The user of this process may not open the file of the lock."""


def find_locked(database: Path) -> Path | None:
    """Return a lock beside a SQLite database that a process has; None if there is none.

    Raises:
        DatabaseLockError: a file of a lock cannot be opened or locked.

    """
    for path in map(Path, sorted(glob.glob(f"{glob.escape(str(database))}.*.lock"))):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise DatabaseLockError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # others that look may have the same for a moment
        except BlockingIOError:
            return path
        except OSError as error:
            raise DatabaseLockError(f"{path} cannot be locked: {error.strerror}") from error
        finally:
            os.close(descriptor)
    return None


class DatabaseLock:
    """The lock of one cluster in one database. A process that is stopped keeps it."""

    def __init__(self, database: Path, cluster: str) -> None:
        name = quote(cluster, safe="")[:_NAME_LENGTH]
        self._path = database.with_name(f"{database.name}.{name}.lock")
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock; return whether this process has it.

        Raises:
            DatabaseLockDeniedError: this user may not open its file.
            DatabaseLockError: its file cannot be opened.

        """
        if self._descriptor is None:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return False
                raise DatabaseLockError(f"{self._path} cannot be locked: {error.strerror}") from error
            self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        """Open the file; one that root creates belongs to the owner of its directory, as the database does."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            try:
                descriptor = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, _MODE)
            except FileExistsError:
                return os.open(self._path, flags)
            if os.geteuid() == 0:
                owner = os.stat(self._path.parent)
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        except OSError as error:
            kind = DatabaseLockDeniedError if isinstance(error, PermissionError) else DatabaseLockError
            raise kind(f"{self._path} cannot be opened: {error.strerror}") from error
        return descriptor
