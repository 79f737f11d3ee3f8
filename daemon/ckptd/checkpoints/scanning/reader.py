"""Opens files of a listed tree for the formats: regular files only, never through a link, never blocking."""

import errno
import os
import stat
from io import BufferedReader, BytesIO, FileIO
from pathlib import PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.tree import open_root
from ckptd.errors import CkptdError

BUFFER_BYTES = 16 << 10  # a file system may ask for reads of 4 MiB, and most headers are shorter than this
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_NAMES = frozenset({"", ".", ".."})


class NotRegularError(CkptdError):
    """The path is no longer a regular file."""


class _SmallFile(BytesIO):
    """A file that was read at once. As in any other, no place lies before its beginning; BytesIO would go there."""

    __slots__ = ()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: len(self.getbuffer())}[whence]
        if start + offset < 0:  # it became shorter than it was when it was listed
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return super().seek(offset, whence)


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
        """Open a file by its path relative to the root; a small one is read at once, and has no descriptor then.

        Raises:
            NotRegularError: it is a link, FIFO, device or socket now, or belongs to another user.
            OSError: it cannot be opened, or a small one not be read.

        """
        found, size_bytes = self._open(path)
        if size_bytes <= BUFFER_BYTES:
            try:
                data = os.read(found, BUFFER_BYTES + 1)
                if len(data) == size_bytes:
                    os.close(found)
                    return _SmallFile(data)
                os.lseek(found, 0, os.SEEK_SET)  # it grows, or the file system returns less than it has
            except OSError:
                os.close(found)
                raise
        return BufferedReader(FileIO(found, "rb"), BUFFER_BYTES)

    def open_descriptor(self, path: str) -> BinaryIO:
        """Open a file like `open`, for callers that need its descriptor.

        Raises:
            NotRegularError, OSError: as `open`.

        """
        return BufferedReader(FileIO(self._open(path)[0], "rb"), BUFFER_BYTES)

    def _open(self, path: str) -> tuple[int, int]:
        """Return a descriptor of a file, and its size in bytes."""
        above, slash, name = path.rpartition("/")
        if name in _NO_NAMES or (slash and ".." in above.split("/")):
            raise NotRegularError(f"{path!r} does not name a file below the directory")
        found = self._open_below(above, name) if slash else open_keeping_atime(name, _FILE, dir_fd=self._root)
        status = os.fstat(found)
        is_regular, is_strange = stat.S_ISREG(status.st_mode), self._only_uid not in {None, status.st_uid}
        if is_strange or not is_regular:
            os.close(found)
            raise NotRegularError(f"{path!r} {'belongs to another user' if is_regular else 'is not a regular file'}")
        return found, status.st_size

    def _open_below(self, above: str, name: str) -> int:
        descriptors: list[int] = []
        here = self._root
        try:
            for parent in above.split("/"):
                here = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                descriptors.append(here)
            return open_keeping_atime(name, _FILE, dir_fd=here)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

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
