"""Opens files of a listed tree for the formats: regular files only, never through a link, never blocking."""

import os
import stat
from io import BufferedReader, FileIO
from pathlib import PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.tree import open_root
from ckptd.errors import CkptdError

BUFFER_BYTES = 16 << 10  # a file system may ask for reads of 4 MiB, and most headers are shorter than this


class NotRegularError(CkptdError):
    """The path is no longer a regular file."""


class Reader:
    """Reads files below one directory, given by its path or descriptor. Close it, or use it as a context.

    With `only_uid`, it opens the files of one user only.
    """

    def __init__(self, root: PurePosixPath | str | int, *, only_uid: int | None = None) -> None:
        self._root = open_root(root)
        self._only_uid = only_uid

    @property
    def descriptor(self) -> int:
        """The directory's descriptor, open until the reader is closed."""
        return self._root

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def open(self, path: str) -> BinaryIO:
        """Open a file by its path relative to the root.

        Raises:
            NotRegularError: it is a link, FIFO, device or socket now, or belongs to another user.
            OSError: it cannot be opened.

        """
        *parents, name = path.split("/")
        if ".." in parents or name in {"", ".", ".."}:
            raise NotRegularError(f"{path!r} does not name a file below the directory")
        descriptors: list[int] = []
        here = self._root
        try:
            for parent in parents:
                here = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                descriptors.append(here)
            found = open_keeping_atime(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        status = os.fstat(found)
        is_regular, is_strange = stat.S_ISREG(status.st_mode), self._only_uid not in {None, status.st_uid}
        if is_strange or not is_regular:
            os.close(found)
            raise NotRegularError(f"{path!r} {'belongs to another user' if is_regular else 'is not a regular file'}")
        return BufferedReader(FileIO(found, "rb"), BUFFER_BYTES)

    def is_there(self, path: str) -> bool:
        """Return whether something has this path now, be it a link; false also where nobody can tell."""
        above, _, name = path.rpartition("/")
        try:
            here = self._root if not above else os.open(above, os.O_PATH | os.O_DIRECTORY, dir_fd=self._root)
        except OSError:
            return False
        try:
            os.lstat(name, dir_fd=here)
        except OSError:
            return False
        finally:
            if here != self._root:
                os.close(here)
        return True

    def read_head(self, path: str, size: int = 512) -> bytes:
        """Return the first bytes of a file, fewer where it is shorter."""
        with self.open(path) as file:
            return file.read(size)

    def read_whole(self, path: str, limit: int) -> bytes:
        """Return a small file whole.

        Raises:
            ValueError: it is larger than `limit` bytes.

        """
        with self.open(path) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ValueError(f"{path!r} is larger than {limit} bytes")
        return data
