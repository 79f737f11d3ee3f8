"""CRC-32C of whole files' parts, and the masked form that LevelDB tables and TensorFlow store."""

from typing import BinaryIO

import google_crc32c

from ckptd.checkpoints.formats.interface import DamagedError

_BLOCK_BYTES = 1 << 20


def compute(data: bytes) -> int:
    return int(google_crc32c.value(data))


def extend(crc: int, data: bytes) -> int:
    """Return the checksum of what `crc` is of, followed by data."""
    return int(google_crc32c.extend(crc, data))


def mask(crc: int) -> int:
    """Return the stored form: rotated right by 15 bits plus 0xa282ead8 (LevelDB util/crc32c.h)."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def compute_range(file: BinaryIO, offset: int, size_bytes: int) -> int:
    """Return the checksum of a part of a file, reading a block at a time.

    Raises:
        DamagedError: the file ends before the part does.

    """
    file.seek(offset)
    crc = 0
    while size_bytes:
        block = file.read(min(size_bytes, _BLOCK_BYTES))
        if not block:
            raise DamagedError("ends before its index says")
        crc = extend(crc, block)
        size_bytes -= len(block)
    return crc
