"""Walks the matrices of a level 4 MAT-file (`-v4`), which has no magic: every matrix has a head of 20 bytes.

The layout: "MAT-File Format", The MathWorks, chapter 2.
"""

import struct
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.formats.scalars import Scalars

_CODES = {0: "d", 1: "f", 2: "i", 3: "h", 4: "H", 5: "B"}
_ORDERS = {0: "<", 1: ">"}
_LONGEST_NAME = 256
_HEAD_BYTES = 20


def order_of(head: bytes) -> str | None:
    """Return the byte order that the first matrix's head announces, None where there is no such head."""
    for order in _ORDERS.values():
        if len(head) >= _HEAD_BYTES + 1:
            kind, rows, columns, is_complex, length = struct.unpack(order + "5i", head[:_HEAD_BYTES])
            machine, rest = divmod(kind, 1000)
            is_head = _ORDERS.get(machine) == order and rest % 10 <= 2 and rest // 100 == 0 and rest // 10 in _CODES
            name = head[_HEAD_BYTES : _HEAD_BYTES + max(0, length - 1)]
            if is_head and is_complex in {0, 1} and min(rows, columns) >= 0 and 1 < length <= _LONGEST_NAME:
                return order if name.isascii() and name[:1].isalpha() and b"\0" not in name else None
    return None


def walk(file: BinaryIO, order: str) -> Scalars:
    """Walk over all matrices and return those of one number.

    Raises:
        DamagedError: one of them is none, or larger than the file.

    """
    cursor = Cursor(file, order=order)
    scalars = Scalars()
    while not cursor.is_at_end():
        kind, rows, columns = cursor.integer(), cursor.integer(), cursor.integer()
        is_complex, length = cursor.integer(), cursor.integer()
        code = _CODES.get(kind % 1000 // 10)
        if _ORDERS.get(kind // 1000) != order or code is None or min(rows, columns) < 0 or is_complex not in {0, 1}:
            raise DamagedError(f"no matrix begins at offset {cursor.position - _HEAD_BYTES}, where one should")
        if not 0 < length <= _LONGEST_NAME:
            raise DamagedError(f"a name of {length} bytes at offset {cursor.position} cannot be")
        name = cursor.take(length).rstrip(b"\0").decode("latin-1")
        if (rows, columns, is_complex) == (1, 1, 0):
            scalars.add(name, float(struct.unpack(order + code, cursor.take(struct.calcsize(code)))[0]), 0)
        else:
            cursor.skip(rows * columns * (1 + is_complex) * struct.calcsize(code))
    return scalars
