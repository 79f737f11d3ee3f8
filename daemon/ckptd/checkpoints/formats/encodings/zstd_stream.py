"""Decompresses untrusted zstd and zlib data in blocks of at most 1 MiB, so that no data can exhaust the memory.

Sources: RFC 8878 (zstd), RFC 1950 and RFC 1952 (zlib, gzip).
"""

import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from ckptd.checkpoints.formats.interface import DamagedError

_BLOCK_BYTES = 1 << 20
_MAX_WINDOW_BYTES = 1 << 27


def decompress(data: bytes, limit: int) -> bytes:
    """Return the decompressed content of zstd data.

    Raises:
        DamagedError: these are no zstd data, or their content has more than `limit` bytes.

    """
    pieces = []
    size = 0
    for piece in stream_zstd(io.BytesIO(data)):
        size += len(piece)
        if size > limit:
            raise DamagedError(f"its compressed part holds more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def stream_zstd(source: BinaryIO) -> Iterator[bytes]:
    """Yield the decompressed content of zstd data in blocks.

    Raises:
        DamagedError: these are no zstd data, or they are damaged.

    """
    try:
        with zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(
            source, read_across_frames=True, closefd=False
        ) as reader:
            while piece := reader.read(_BLOCK_BYTES):
                yield piece
    except zstandard.ZstdError as error:
        raise DamagedError(f"cannot be decompressed: {error}") from error


def stream_zlib(source: BinaryIO) -> Iterator[bytes]:
    """Yield the decompressed content of zlib or gzip data in blocks, and check the checksum at their end.

    Raises:
        DamagedError: the data are cut off or damaged.

    """
    state = zlib.decompressobj(wbits=47)  # recognises either header
    try:
        while not state.eof:
            data = state.unconsumed_tail or source.read(_BLOCK_BYTES)
            if not data:
                raise DamagedError("its compressed data are cut off")
            if piece := state.decompress(data, _BLOCK_BYTES):
                yield piece
    except zlib.error as error:
        raise DamagedError(f"cannot be decompressed: {error}") from error
