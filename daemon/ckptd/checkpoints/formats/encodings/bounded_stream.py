"""Decompresses gzip, bzip2, xz and zlib data up to a bound.

The bound of level structure keeps a scan cheap; the bound of level full stops a decompression bomb.
"""

import zlib
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings import compression
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.core.model import Level
from ckptd.errors import CkptdError

STRUCTURE_BYTES = 64 << 20
FULL_BYTES = 256 << 30
_LARGEST_RATIO = 1000  # beyond what numbers that were computed compress to; only constants go further
_PIECE = 1 << 16
_BZIP2_END = 0x177245385090
_GZIP_OVERHEAD = 18


class InflatesTooFarError(CkptdError):
    """It inflates to more than this level reads."""


class BoundedStream:
    """A stream that decompresses, reads forward only and stops at a bound."""

    def __init__(self, inner: BinaryIO, limit: int) -> None:
        self._inner = inner
        self._left = limit

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        raise OSError(f"cannot seek to {offset} ({whence}) in compressed data")

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; fewer only at the end of the data."""
        with compression.as_damage():
            data = self._inner.read(size if 0 <= size <= self._left else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise InflatesTooFarError("it inflates to more than this level reads")
        return data


class Inflater:
    """One zlib stream that takes `size` bytes of a file, read as a stream; compares the Adler-32 at its end."""

    def __init__(self, file: BinaryIO, size: int, limit: int) -> None:
        self._file = file
        self._left_in = size
        self.left = limit  # what may still come out
        self._engine = zlib.decompressobj()
        self._ready = b""

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        raise OSError(f"cannot seek to {offset} ({whence}) in compressed data")

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; fewer only at the end of the data."""
        wanted = size if 0 <= size <= self.left else max(0, self.left) + 1
        while len(self._ready) < wanted and not self._engine.eof:
            self._ready += self._inflate()
        data, self._ready = self._ready[:wanted], self._ready[wanted:]
        self.left -= len(data)
        if self.left < 0:
            raise InflatesTooFarError("it inflates to more than this level reads")
        return data

    def _inflate(self) -> bytes:
        source = self._engine.unconsumed_tail
        if not source:
            source = self._file.read(min(_PIECE, self._left_in))
            self._left_in -= len(source)
        if not source:
            raise DamagedError("a compressed element ends before its data do")
        with compression.as_damage():
            return self._engine.decompress(source, _PIECE)


def output_limit(level: Level, size_bytes: int) -> int:
    """Return how many bytes may be inflated from a file of this size at a level."""
    if level is Level.FULL:
        return min(FULL_BYTES, max(STRUCTURE_BYTES, size_bytes * _LARGEST_RATIO * 8))
    return STRUCTURE_BYTES


def open_stream(file: BinaryIO, kind: str, limit: int) -> BoundedStream:
    """Return what a compressed file holds, at most `limit` bytes of it."""
    return BoundedStream(compression.open_file(file, kind), limit)


def check_trailer(file: BinaryIO, kind: str, size_bytes: int) -> None:
    """Check the end of a compressed file that is too large to inflate at this level.

    gzip (RFC 1952) ends in CRC-32 and the length modulo 2^32; bzip2 in a 48-bit mark and a CRC-32 at any bit;
    xz in "YZ"; lzma and zlib in nothing that differs from data.

    Raises:
        DamagedError: the end is not one.

    """
    if kind in {"lzma", "zlib"}:
        return
    file.seek(max(0, size_bytes - 16))
    tail = file.read(16)
    if kind == "xz":
        good = tail.rstrip(b"\0").endswith(b"YZ")
    elif kind == "bzip2":
        bits = int.from_bytes(tail, "big")
        good = any((bits >> shift) & ((1 << 48) - 1) == _BZIP2_END for shift in range(32, 40))
    else:
        length = int.from_bytes(tail[-4:], "little")
        # deflate cannot make data longer by more than 5 bytes in 16,000; past 4 GiB the length has wrapped
        good = any(tail[-8:]) and (size_bytes > 1 << 31 or length * 1.001 + 1024 >= size_bytes - _GZIP_OVERHEAD)
    if not good:
        raise DamagedError(f"the {kind} data do not end as {kind} data do")
