"""Reads numbers and bytes one after another out of a file or a stream, and never past its end.

Every format that is a sequence of fixed fields walks through one of these, so that a size or count that a file
states is compared with what is there before anything is read or allocated for it.
"""

import os
import struct
from typing import Protocol

from ckptd.checkpoints.formats.interface import DamagedError

LARGEST_TAKE = 64 << 20
_CHUNK = 1 << 20


class EndedError(DamagedError):
    """The data end before the value that should follow."""


class Source(Protocol):
    """What a cursor reads from: a file, or a stream that decompresses."""

    def read(self, size: int = -1, /) -> bytes: ...

    def seekable(self) -> bool: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


class Cursor:
    """A position in a source. `order` is struct's sign for the byte order, "<" or ">".

    `size` is where the source ends, None where only reading tells (a stream that decompresses).
    """

    def __init__(self, source: Source, *, order: str, start: int = 0) -> None:
        self._source = source
        self.order = order
        self.position = start
        self.size: int | None = None
        if source.seekable():
            self.size = source.seek(0, os.SEEK_END)
            source.seek(start)

    def take(self, count: int) -> bytes:
        """Return exactly the next `count` bytes.

        Raises:
            DamagedError: fewer are left, or the count cannot be meant.

        """
        if count < 0 or count > LARGEST_TAKE:
            raise DamagedError(f"a size of {count} bytes at offset {self.position} cannot be")
        self._require(count)
        data = self._source.read(count)
        self.position += len(data)
        if len(data) != count:
            raise EndedError(f"the data end at offset {self.position}, in the middle of a value")
        return data

    def skip(self, count: int) -> None:
        """Pass over bytes: by seeking in a file, by reading in pieces from a stream."""
        if count < 0:
            raise DamagedError(f"a negative size at offset {self.position}")
        self._require(count)
        if self.size is not None:
            self.position = self._source.seek(self.position + count)
            return
        left = count
        while left:
            piece = len(self._source.read(min(left, _CHUNK)))
            if not piece:
                raise EndedError(f"the data end at offset {self.position}, {left} bytes early")
            left -= piece
            self.position += piece

    def integer(self) -> int:
        """Return a signed number of four bytes."""
        return self._number("i", 4)

    def unsigned(self) -> int:
        return self._number("I", 4)

    def long(self) -> int:
        return self._number("q", 8)

    def double(self) -> float:
        return float(struct.unpack(self.order + "d", self.take(8))[0])

    def is_at_end(self) -> bool:
        """Whether nothing is left; on a stream this reads, so that its checksum is compared."""
        if self.size is not None:
            return self.position >= self.size
        data = self._source.read(1)
        self.position += len(data)
        return not data

    def drain(self) -> None:
        """Read a stream to its end, so that its checksum is compared."""
        while self.size is None and self._source.read(_CHUNK):
            pass

    def _number(self, code: str, width: int) -> int:
        return int(struct.unpack(self.order + code, self.take(width))[0])

    def _require(self, count: int) -> None:
        if self.size is not None and count > self.size - self.position:
            raise EndedError(
                f"{count} bytes are declared at offset {self.position}, but only {self.size - self.position} are left"
            )
