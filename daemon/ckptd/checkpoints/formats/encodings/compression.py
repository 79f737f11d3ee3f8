"""Recognises and opens gzip, bzip2, xz and zlib streams, and raises DamagedError where their data are damaged.

The decompressed size is known only afterwards, so a caller must bound how much it reads, or use `bounded_stream`.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

_CHUNK = 1 << 18
SUFFIXES = {"gz": "gzip", "gzip": "gzip", "bz2": "bzip2", "xz": "xz", "lzma": "lzma", "z": "zlib"}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x5d\x00\x00": "lzma"}


def kind_of(head: bytes) -> str | None:
    """Return the kind of compression by a file's first 6 bytes, None where there is none."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if len(head) >= 2 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib"
    return None


class _ZlibStream(io.RawIOBase):
    """Decompresses one zlib stream forward."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._stream = zlib.decompressobj()
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._stream.eof:
            self._pending = self._pending or self._file.read(_CHUNK)
            if not self._pending:
                raise EOFError
            data = self._stream.decompress(self._pending, len(buffer))
            self._pending = self._stream.unconsumed_tail
            if data:
                buffer[: len(data)] = data
                return len(data)
        return 0


def open_file(file: BinaryIO, kind: str) -> BinaryIO:
    """Return what a file holds decompressed; its data are damaged where reading raises what `as_damage` converts."""
    match kind:
        case "gzip":
            return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
        case "bzip2":
            return bz2.BZ2File(file)  # type: ignore[return-value]
        case "xz" | "lzma":
            return lzma.LZMAFile(file)  # type: ignore[return-value]
        case _:
            return io.BufferedReader(_ZlibStream(file), _CHUNK)


@contextmanager
def open_stream(content: FileSlice, kind: str) -> Iterator[BinaryIO]:
    """Decompress a slice from its start; damage that reading it shows is raised as such.

    Raises:
        DamagedError: it is cut off, garbled or does not match its checksum.

    """
    with as_damage(), open_file(content.stream(), kind) as stream:
        yield stream


@contextmanager
def as_damage() -> Iterator[None]:
    """Raise what the decompressors of the standard library raise for damaged data as DamagedError."""
    try:
        yield
    except EOFError as error:
        raise DamagedError("the compressed data are cut off") from error
    except (zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file could not be read; gzip and bz2 report damage without a number
        raise DamagedError(f"the compressed data are damaged: {error}") from error


def drain(stream: BinaryIO, limit: int) -> int:
    """Read a stream to its end, where its checksum is; return how much came.

    Raises:
        DamagedError: it does not reach its end whole.
        TooLargeError: more than `limit` bytes came.

    """
    count = 0
    while data := stream.read(_CHUNK):
        count += len(data)
        if count > limit:
            raise TooLargeError("it decompresses to more than its reader may take")
    return count
