"""Shows a part of an open file as a file, for readers that need to seek in a member of an archive."""

import io
from typing import BinaryIO


class FilePart(io.RawIOBase):
    """Shows `size_bytes` of a file from `offset`. The file stays open when the part is closed.

    `error` keeps the failure of the file beneath, which a reader in C may turn into one of its own.
    """

    def __init__(self, file: BinaryIO, offset: int, size_bytes: int) -> None:
        super().__init__()
        self._file = file
        self._offset = offset
        self._size_bytes = size_bytes
        self._position = 0
        self.error: OSError | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size_bytes - self._position)
        wanted = left if size < 0 else min(size, left)
        try:
            self._file.seek(self._offset + self._position)
            data = self._file.read(wanted)
        except OSError as error:
            self.error = error
            raise
        self._position += len(data)
        return data

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
