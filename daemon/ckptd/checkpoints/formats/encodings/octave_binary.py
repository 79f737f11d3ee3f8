"""Walks the records of Octave's binary format and notes scalars with telling names."""

import math
import struct

from ckptd.checkpoints.formats.encodings.cursor import Cursor, EndedError
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.formats.scalars import Scalars

_NAMED_TYPE = 255
_OLD_TYPES = {1: b"scalar", 2: b"matrix", 3: b"complex scalar", 4: b"complex matrix", 6: b"range", 7: b"string"}
_STORED = {0: "B", 1: "H", 2: "I", 3: "b", 4: "h", 5: "i", 6: "f", 7: "d", 8: "Q", 9: "q"}
_FIXED = {b"int8": "b", b"int16": "h", b"int32": "i", b"int64": "q"}
_FIXED |= {b"u" + name: code.upper() for name, code in _FIXED.items()}
_REAL = frozenset([b"", b"float", b"complex", b"float complex", b"diagonal", b"float diagonal", b"complex diagonal"])
_RANGES = frozenset([b"range", b"double_range"])
_SPARSE = frozenset([b"sparse matrix", b"sparse complex matrix", b"sparse bool matrix"])
_TEXTS = frozenset([b"string", b"sq_string"])
_DOUBLE_TYPE = b"\x07"
_LONGEST_NAME = 1 << 16
_MOST_DIMENSIONS = 64
_MOST_RECORDS = 1 << 22


class BinaryWalk:
    """One walk from behind the magic to the end. A type that is not known here ends it: records have no size."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.scalars = Scalars()
        self.is_lost = False  # in a type whose layout is not known here
        self._after_empty = False
        self._open: list[int] = []  # how many records are still to come, in each container

    def run(self) -> None:
        """Walk over all records.

        Raises:
            DamagedError: a record does not fit, or a container lacks some of its own.

        """
        self._cursor.skip(1)  # the float format; every machine of today writes IEEE
        for number in range(_MOST_RECORDS):
            while self._open and not self._open[-1]:
                self._open.pop()
            length = self._next_length()
            if not length and not number:
                raise DamagedError("it holds no variable")
            if not length:
                break
            if self._open:
                self._open[-1] -= 1
            if not self._record(length):
                self.is_lost = True
                return
        if self._open:
            raise DamagedError(f"{sum(self._open)} parts of a structure or cell array are missing")

    def _next_length(self) -> bytes:
        """Take the length of the next record's name, or nothing at the end of the data.

        Octave leaves out the type of the numbers of an empty matrix where it saves as floats, and writes it otherwise.
        """
        after_empty, self._after_empty = self._after_empty, False
        first = self._take_first()
        if not first or not after_empty or first != _DOUBLE_TYPE:
            return first and first + self._cursor.take(3)
        second = self._take_first()
        if not second:
            return b""
        rest = second + self._cursor.take(2)
        return first + rest if rest == b"\0\0\0" else rest + self._cursor.take(1)

    def _take_first(self) -> bytes:
        """Take one byte, or nothing at the end; a stream tells its end only by reading."""
        if self._cursor.size is not None and self._cursor.is_at_end():
            return b""
        try:
            return self._cursor.take(1)
        except EndedError:
            return b""

    def _record(self, length: bytes) -> bool:
        """Read one record from behind its length; return whether its type was known."""
        depth = len(self._open)
        name = self._text(length)
        self._text(self._cursor.take(4))  # a comment
        self._cursor.skip(1)  # whether it is global
        code = self._cursor.take(1)[0]
        kind = self._text(self._cursor.take(4)) if code == _NAMED_TYPE else _OLD_TYPES.get(code, b"")
        value, is_known = self._value(kind)
        if value is not None:
            self.scalars.add(name.decode("latin-1"), value, depth)
        return is_known

    def _text(self, length_bytes: bytes) -> bytes:
        length = struct.unpack(self._cursor.order + "i", length_bytes)[0]
        if not 0 <= length <= _LONGEST_NAME:
            raise DamagedError(f"a name of {length} bytes at offset {self._cursor.position} cannot be")
        return self._cursor.take(length)

    def _value(self, kind: bytes) -> tuple[float | None, bool]:
        """Read or pass over what follows a record's head; the flag is whether this type's layout is known."""
        base, _, shape = kind.rpartition(b" ")
        if base in _FIXED and shape == b"scalar":
            return self._number(_FIXED[base]), True
        if base in _FIXED and shape == b"matrix":
            self._cursor.skip(self._count() * struct.calcsize(_FIXED[base]))
        elif base in _REAL and shape in {b"scalar", b"matrix"}:
            return self._real(base, shape), True
        elif kind == b"bool":
            self._cursor.skip(1)
        elif kind in _TEXTS or kind == b"bool matrix":
            self._cursor.skip(self._count())
        elif kind in _RANGES:
            self._cursor.skip(3 * self._stored_width())
        elif kind in _SPARSE:
            self._sparse(kind)
        elif kind in {b"scalar struct", b"struct", b"cell"}:
            self._container(kind)
        else:
            return None, False
        return None, True

    def _real(self, base: bytes, shape: bytes) -> float | None:
        """Pass over numbers that are stored in the type that their values need, which a byte names."""
        if base.endswith(b"diagonal"):
            count = max(0, min(self._cursor.integer(), self._cursor.integer()))
        else:
            count = 1 if shape == b"scalar" else self._count()
        self._after_empty = not count
        if not count:
            return None
        if shape == b"scalar" and b"complex" not in base:
            return self._number(self._stored_code())
        self._cursor.skip(count * self._stored_width() * (2 if b"complex" in base else 1))
        return None

    def _sparse(self, kind: bytes) -> None:
        """Pass over a mark, rows, columns, how many are not zero, the indices of columns and rows, and the values."""
        _, _, columns, count = (self._cursor.integer() for _ in range(4))
        if columns < 0 or count < 0:
            raise DamagedError(f"{count} numbers in {columns} columns at offset {self._cursor.position} cannot be")
        self._cursor.skip(4 * (columns + 1 + count))
        width = 1 if b"bool" in kind else self._stored_width() * (2 if b"complex" in kind else 1)
        self._cursor.skip(count * width)

    def _container(self, kind: bytes) -> None:
        count = self._count() if kind != b"scalar struct" else 0
        if kind != b"cell":
            count = self._cursor.integer()
        if count < 0 or (self._cursor.size is not None and count > self._cursor.size // 10):
            raise DamagedError(f"{count} parts at offset {self._cursor.position} cannot be")
        self._open.append(count)

    def _count(self) -> int:
        """Read the dimensions: their negative number, then each; in old files rows and columns alone."""
        first = self._cursor.integer()
        if first >= 0:
            dimensions = [first, self._cursor.integer()]
        elif -first <= _MOST_DIMENSIONS:
            dimensions = [self._cursor.integer() for _ in range(-first)]
        else:
            raise DamagedError(f"{-first} dimensions at offset {self._cursor.position} cannot be")
        if min(dimensions) < 0:
            raise DamagedError(f"dimensions {dimensions} at offset {self._cursor.position} cannot be")
        return math.prod(dimensions)

    def _stored_code(self) -> str:
        code = self._cursor.take(1)[0]
        if code not in _STORED:
            raise DamagedError(f"numbers of type {code} at offset {self._cursor.position} do not exist")
        return _STORED[code]

    def _stored_width(self) -> int:
        return struct.calcsize(self._stored_code())

    def _number(self, code: str) -> float:
        return float(struct.unpack(self._cursor.order + code, self._cursor.take(struct.calcsize(code)))[0])
