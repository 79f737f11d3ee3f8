"""Opens users' files so that reading them leaves no access time.

An access time after the last change tells that a program has loaded a checkpoint, and purges of scratch file systems go
by it. The owner of a file may use O_NOATIME, and ckptd reads as the owner.
"""

import errno
import os
from os import PathLike


def open_keeping_atime(path: str | PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """Open like `os.open` with O_NOATIME, or without it where the kernel does not permit that: another user's file.

    Raises:
        OSError: it cannot be opened either way.

    """
    try:
        return os.open(path, flags | os.O_NOATIME, mode, dir_fd=dir_fd)
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
    return os.open(path, flags, mode, dir_fd=dir_fd)
