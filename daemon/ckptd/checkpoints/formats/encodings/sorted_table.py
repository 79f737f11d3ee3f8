"""Reads LevelDB-style tables, which TensorFlow uses for bundle indexes and for its V1 checkpoints.

Layout (LevelDB doc/table_format.md): data blocks, a metaindex and an index block, and a 48-byte footer with the
handles of the last two and a magic number. Each block is followed by one byte of compression type and its masked
CRC-32C; inside, keys share prefixes with the one before.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings import crc32c
from ckptd.checkpoints.formats.encodings.protobuf import read_varint
from ckptd.checkpoints.formats.interface import DamagedError

FOOTER_BYTES = 48
MAGIC = bytes.fromhex("57fb808b247547db")
_TRAILER_BYTES = 5


class CompressedError(Exception):
    """A block of the table is compressed by a method that is not read here."""


def read_entries(
    file: BinaryIO, size_bytes: int, *, max_block_bytes: int, check: bool = True
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table in their order.

    Raises:
        DamagedError: footer, index, a block or a checksum is wrong, or a block is larger than allowed.
        CompressedError: a block is compressed.

    """
    for offset, size in read_handles(file, size_bytes, max_block_bytes=max_block_bytes):
        yield from _parse_block(_read_block(file, offset, size, size_bytes, max_block_bytes, check=check))


def read_handles(file: BinaryIO, size_bytes: int, *, max_block_bytes: int) -> list[tuple[int, int]]:
    """Return offset and size of every data block, each within the file.

    Raises:
        DamagedError: footer or index is wrong.

    """
    if size_bytes < FOOTER_BYTES:
        raise DamagedError(f"is too short for a table: {size_bytes} bytes")
    file.seek(size_bytes - FOOTER_BYTES)
    footer = file.read(FOOTER_BYTES)
    if footer[-8:] != MAGIC:
        raise DamagedError("does not end with a table's magic number")
    position = 0
    for _ in range(2):  # the metaindex, which TensorFlow leaves empty
        _, position = read_varint(footer, position)
    offset, position = read_varint(footer, position)
    size, _ = read_varint(footer, position)
    handles = []
    for _, value in _parse_block(_read_block(file, offset, size, size_bytes, max_block_bytes, check=True)):
        block_offset, position = read_varint(value, 0)
        block_size, _ = read_varint(value, position)
        if block_offset + block_size + _TRAILER_BYTES > size_bytes - FOOTER_BYTES:
            raise DamagedError("names a block behind its end")
        handles.append((block_offset, block_size))
    return handles


def _read_block(file: BinaryIO, offset: int, size: int, size_bytes: int, max_block_bytes: int, *, check: bool) -> bytes:
    if offset + size + _TRAILER_BYTES > size_bytes:
        raise DamagedError("names a block behind its end")
    if size > max_block_bytes:
        raise DamagedError(f"names a block of {size} bytes, more than any writer makes")
    file.seek(offset)
    data = file.read(size + _TRAILER_BYTES)
    if len(data) < size + _TRAILER_BYTES:
        raise DamagedError("ends inside a block")
    (stored,) = struct.unpack_from("<I", data, size + 1)
    if check and stored != crc32c.mask(crc32c.compute(data[: size + 1])):
        raise DamagedError(f"fails the checksum of its block at byte {offset}")
    if data[size] != 0:
        raise CompressedError(f"a block is compressed by method {data[size]}, which is not read here")
    return data[:size]


def _parse_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise DamagedError("has a block without its restart points")
    (restart_count,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * restart_count
    if end < 0:
        raise DamagedError("has more restart points than its block can hold")
    position = 0
    key = b""
    while position < end:
        shared, position = read_varint(block, position)
        unshared, position = read_varint(block, position)
        value_size, position = read_varint(block, position)
        if shared > len(key) or position + unshared + value_size > end:
            raise DamagedError("has an entry that runs out of its block")
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + value_size]
        position += value_size
