"""Reads the wire format of protocol buffers: fields by number, for the few messages whose layout is known here.

Source: https://protobuf.dev/programming-guides/encoding/. No schema is loaded and no message object is built.
"""

import io
from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats.interface import DamagedError

_ZERO_TAIL_BYTES = 512  # no message of a graph ends so: the end of its write was lost
_FIXED_SIZES = {1: 8, 5: 4}


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the base-128 number at a position and the position behind it.

    Raises:
        DamagedError: the data ends inside it, or it has more than 64 bits.

    """
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise DamagedError("ends inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DamagedError("has a number of more than 64 bits")


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message; fixed-size values are read as little-endian numbers.

    Raises:
        DamagedError: the bytes are no whole message.

    """
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise DamagedError("has a field without a number")
        if kind == 0:
            value, position = read_varint(message, position)
            yield number, value
            continue
        if kind == 2:
            size, position = read_varint(message, position)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise DamagedError(f"has a field of the unknown kind {kind}")
        if size > len(message) - position:
            raise DamagedError("ends inside a field")
        piece = message[position : position + size]
        position += size
        yield number, (piece if kind == 2 else int.from_bytes(piece, "little"))


def check_outline(file: BinaryIO, size_bytes: int) -> frozenset[int]:
    """Walk the outermost fields of a message of any size by seeking over them; return their numbers.

    Raises:
        DamagedError: the fields do not fill the file exactly.

    """
    position = 0
    numbers = set()
    while position < size_bytes:
        file.seek(position)
        head = file.read(20)
        tag, used = read_varint(head, 0)
        number, kind = tag >> 3, tag & 7
        if number == 0 or (kind not in (0, 2) and kind not in _FIXED_SIZES):
            raise DamagedError(f"is no message of fields at byte {position}")
        if kind in (0, 2):
            length, used = read_varint(head, used)
            length = length if kind == 2 else 0
        else:
            length = _FIXED_SIZES[kind]
        position += used + length
        numbers.add(number)
    if position != size_bytes:
        raise DamagedError("ends inside a field: it was cut off")
    if size_bytes >= _ZERO_TAIL_BYTES:
        file.seek(-_ZERO_TAIL_BYTES, io.SEEK_END)
        if not any(file.read(_ZERO_TAIL_BYTES)):
            raise DamagedError("ends in zeros: the end of the write was lost")
    return frozenset(numbers)
