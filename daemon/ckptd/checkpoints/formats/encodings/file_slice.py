"""A part of a file, read by offset, that refuses to read beyond its own end."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ckptd.checkpoints.formats.interface import DamagedError

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size_bytes` bytes of an open file from `start` on."""

    file: BinaryIO
    start: int
    size_bytes: int

    @classmethod
    def whole(cls, file: BinaryIO) -> "FileSlice":
        """Return the whole of a file, by the size that it has now."""
        if isinstance(file, io.BytesIO):
            return cls(file, 0, len(file.getbuffer()))
        return cls(file, 0, os.fstat(file.fileno()).st_size)

    def part(self, offset: int, size_bytes: int) -> "FileSlice":
        """Return a part of it.

        Raises:
            DamagedError: the part does not lie within.

        """
        if offset < 0 or size_bytes < 0 or offset + size_bytes > self.size_bytes:
            raise DamagedError(f"cut off: {size_bytes} bytes at {offset} are beyond its {self.size_bytes} bytes")
        return FileSlice(self.file, self.start + offset, size_bytes)

    def read(self, offset: int, count: int) -> bytes:
        """Return exactly so many bytes.

        Raises:
            DamagedError: they do not lie within, or the file became shorter.

        """
        part = self.part(offset, count)
        data = part._read_some(0, count)  # noqa: SLF001 - its own class
        while len(data) < count:
            more = part._read_some(len(data), count - len(data))  # noqa: SLF001
            if not more:
                raise DamagedError(f"became shorter while it was read, at byte {part.start + len(data)}")
            data += more
        return data

    def stream(self) -> BinaryIO:
        """Return the underlying file, standing at the start of this part."""
        self.file.seek(self.start)
        return self.file

    def blocks(self) -> Iterator[memoryview]:
        """Yield the content in large blocks; a block is valid until the next is asked for.

        Raises:
            DamagedError: the file became shorter while it was read.

        """
        buffer = memoryview(bytearray(min(_BLOCK, max(1, self.size_bytes))))
        done = 0
        while done < self.size_bytes:
            count = self._read_into(done, buffer[: min(len(buffer), self.size_bytes - done)])
            if not count:
                raise DamagedError(f"became shorter while it was read, at byte {self.start + done}")
            yield buffer[:count]
            done += count

    def _read_some(self, offset: int, count: int) -> bytes:
        if isinstance(self.file, io.BytesIO):
            return bytes(self.file.getbuffer()[self.start + offset : self.start + offset + count])
        return os.pread(self.file.fileno(), count, self.start + offset)

    def _read_into(self, offset: int, buffer: memoryview) -> int:
        if isinstance(self.file, io.BytesIO):
            data = self._read_some(offset, len(buffer))
            buffer[: len(data)] = data
            return len(data)
        return os.preadv(self.file.fileno(), [buffer], self.start + offset)
