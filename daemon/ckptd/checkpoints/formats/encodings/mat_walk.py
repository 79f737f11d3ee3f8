"""Walks the elements of a level 5 MAT-file and notes scalars with telling names.

The layout: "MAT-File Format", The MathWorks, chapter 1: a header of 128 bytes, then elements of type, size and data;
matrices and compressed matrices at the top, numbers and matrices inside them. The walk reads no element that its
parent has no room for, and keeps its own stack.
"""

import math
import struct
from dataclasses import dataclass, replace
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings.bounded_stream import Inflater, InflatesTooFarError
from ckptd.checkpoints.formats.encodings.cursor import Cursor
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.formats.scalars import Scalars

HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
_CODES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
_NUMERIC = range(6, 16)
_COMPLEX_FLAG = 0x800
_MOST_DIMENSIONS = 64
_LONGEST_NAME = 4096
_MOST_FIELDS = 1 << 16


class _StoppedWalk(Exception):  # noqa: N818 - no error
    """The rest of this element has a layout that is not published; its size is known."""


@dataclass(frozen=True, slots=True)
class _PendingMatrices:
    """Matrices to come inside one that began: as many as `count`, up to the offset `end`."""

    end: int
    count: int
    names: tuple[str, ...]  # of a structure's fields, in turn
    depth: int
    slack: int = 7  # how far before its end the content may end


class MatWalk:
    """One walk over all elements. `scalars` are the variables of one number, `is_compressed` whether all data are."""

    def __init__(self, file: BinaryIO, order: str, *, inflate_limit: int) -> None:
        self._file = file
        self._order = order
        self._limit = inflate_limit
        self.scalars = Scalars()
        self.is_compressed = True
        self.is_sampled = False

    def run(self) -> None:
        """Walk to the end of the file.

        Raises:
            DamagedError: the elements do not fill it, or one does not fill its size.

        """
        top = Cursor(self._file, order=self._order, start=HEADER_BYTES)
        while not top.is_at_end():
            kind, size = top.unsigned(), top.unsigned()
            start = top.position
            if kind not in {_MATRIX, _COMPRESSED}:
                raise DamagedError(f"an element of type {kind} at offset {start - 8} cannot be: its data are damaged")
            if kind == _COMPRESSED:
                top.skip(size)
                self._file.seek(start)
                self._inflate(size)
            else:
                self.is_compressed = False
                _Element(self, top, start + size).walk()
                self._to_next(top, start + size)
            self._file.seek(top.position)

    def _to_next(self, top: Cursor, end: int) -> None:
        """Go to the next element: where this one's size says, unless its content ended a few bytes before.

        Octave counts short texts four bytes too long.
        """
        here = top.position
        if end > (top.size or 0) or self._file.read(4) == struct.pack(self._order + "I", _MATRIX):
            self._file.seek(here)
        else:
            self._file.seek(here)
            top.skip(end - here)

    def _inflate(self, size: int) -> None:
        stream = Inflater(self._file, size, self._limit)
        cursor = Cursor(stream, order=self._order)
        try:
            kind, inner = cursor.unsigned(), cursor.unsigned()
            if kind != _MATRIX:
                raise DamagedError(f"a compressed element holds type {kind} in place of a matrix")
            _Element(self, cursor, 8 + inner).walk()
            cursor.drain()
        except InflatesTooFarError:
            self.is_sampled = True
        self._limit = stream.left


class _Element:
    """One matrix of the top level with everything inside it."""

    def __init__(self, walk: MatWalk, cursor: Cursor, end: int) -> None:
        self._walk = walk
        self._cursor = cursor
        self._end = end
        self._stack: list[_PendingMatrices] = []
        self._single: float | None = None  # the value of the matrix read last, where it is one real number

    def walk(self) -> None:
        try:
            self._matrix(self._end, "", 0)
            while self._stack:
                self._next(self._stack.pop())
        except _StoppedWalk:
            self._cursor.skip(self._end - self._cursor.position)

    def _next(self, pending: _PendingMatrices) -> None:
        if not pending.count:
            if not 0 <= pending.end - self._cursor.position <= pending.slack:
                raise DamagedError(f"a matrix ends at offset {self._cursor.position}, its size says {pending.end}")
            return
        self._stack.append(replace(pending, count=pending.count - 1))
        kind, size = self._tag(pending.end)
        if kind != _MATRIX:
            raise DamagedError(f"an element of type {kind} stands where a matrix should")
        name = pending.names[-pending.count % len(pending.names)] if pending.names else ""
        if size:
            self._matrix(self._cursor.position + size, name, pending.depth)

    def _tag(self, end: int) -> tuple[int, int]:
        """Read the tag of a long element."""
        kind, size = self._cursor.unsigned(), self._cursor.unsigned()
        if size > end - self._cursor.position:
            raise DamagedError(
                f"an element of {size} bytes at offset {self._cursor.position} is larger than its parent"
            )
        return kind, size

    def _small(self, end: int, limit: int) -> tuple[int, bytes]:
        """Read an element that is meant to be short, in its long or its packed form."""
        kind = self._cursor.unsigned()
        if kind >> 16:
            size, kind = kind >> 16, kind & 0xFFFF
            if size > 4:
                raise DamagedError(f"a packed element of {size} bytes at offset {self._cursor.position} cannot be")
            return kind, self._cursor.take(4)[:size]
        size = self._cursor.unsigned()
        if size > min(limit, end - self._cursor.position):
            raise DamagedError(f"an element of {size} bytes at offset {self._cursor.position} is too large")
        data = self._cursor.take(size)
        self._pad(size, end)
        return kind, data

    def _pad(self, size: int, end: int) -> None:
        self._cursor.skip(min(-size % 8, max(0, end - self._cursor.position)))

    def _matrix(self, end: int, name: str, depth: int) -> None:
        _, flags = self._small(end, 64)
        if len(flags) < 8:
            raise DamagedError(f"the flags of a matrix at offset {self._cursor.position} are too short")
        word = struct.unpack(self._cursor.order + "I", flags[:4])[0]
        kind = word & 0xFF
        if kind == _OPAQUE:
            raise _StoppedWalk
        _, raw = self._small(end, 4 * _MOST_DIMENSIONS)
        dimensions = struct.unpack(f"{self._cursor.order}{len(raw) // 4}i", raw[: len(raw) // 4 * 4])
        if len(dimensions) < 2 or min(dimensions) < 0:
            raise DamagedError(f"a matrix of dimensions {list(dimensions)} cannot be")
        _, own_name = self._small(end, _LONGEST_NAME)
        name = own_name.rstrip(b"\0").decode("latin-1") or name
        if kind in _NUMERIC or kind in {_CHAR, _SPARSE}:
            self._stack.append(_PendingMatrices(end, 0, (), depth))
            self._values(kind, math.prod(dimensions), end, is_complex=bool(word & _COMPLEX_FLAG))
            if self._single is not None:
                self._walk.scalars.add(name, self._single, depth)
        else:
            self._container(kind, math.prod(dimensions), end, depth + 1)

    def _values(self, kind: int, count: int, end: int, *, is_complex: bool) -> None:
        self._single = None
        if kind == _SPARSE:
            for _ in range(4 if is_complex else 3):
                self._numbers(end, None)
        elif kind == _CHAR:
            self._numbers(end, None)
        else:
            value = self._numbers(end, count)
            if is_complex:
                self._numbers(end, count)
            elif count == 1:
                self._single = value

    def _container(self, kind: int, count: int, end: int, depth: int) -> None:
        names: tuple[str, ...] = ()
        if kind in {_STRUCT, _OBJECT}:
            if kind == _OBJECT:
                self._small(end, _LONGEST_NAME)
            names = self._field_names(end)
            count *= len(names)
        elif kind == _FUNCTION:
            count = 1
        elif kind != _CELL:
            raise DamagedError(f"a matrix of class {kind} does not exist")
        if count * 8 > end - self._cursor.position:
            raise DamagedError(f"{count} parts are declared where {end - self._cursor.position} bytes are left")
        self._stack.append(_PendingMatrices(end, count, names, depth, slack=8 * count + 7))

    def _field_names(self, end: int) -> tuple[str, ...]:
        _, raw = self._small(end, 8)
        width = struct.unpack(self._cursor.order + "i", raw.ljust(4, b"\0")[:4])[0]
        _, names = self._small(end, _MOST_FIELDS * 64)
        if names and not 0 < width <= _LONGEST_NAME:
            raise DamagedError(f"field names of {width} bytes cannot be")
        return tuple(
            names[at : at + width].partition(b"\0")[0].decode("latin-1") for at in range(0, len(names), width or 1)
        )

    def _numbers(self, end: int, count: int | None) -> float | None:
        """Pass over numbers, which may be stored in a narrower type; return the value of a single one."""
        kind = self._cursor.unsigned()
        if packed := kind >> 16:
            size, kind = packed, kind & 0xFFFF
        else:
            size = self._cursor.unsigned()
        if kind not in _WIDTHS or (packed and size > 4):
            raise DamagedError(f"numbers of type {kind} at offset {self._cursor.position} do not exist")
        if not packed and size > end - self._cursor.position:
            raise DamagedError(
                f"numbers of {size} bytes at offset {self._cursor.position} are larger than their matrix"
            )
        if count is not None and size != count * _WIDTHS[kind]:
            raise DamagedError(f"{size} bytes are stored for {count} numbers of {_WIDTHS[kind]} bytes")
        single = size == _WIDTHS[kind] and kind in _CODES
        raw = self._cursor.take(size) if single else b""
        if not single:
            self._cursor.skip(size)
        if packed:
            self._cursor.skip(4 - size)
        else:
            self._pad(size, end)
        return float(struct.unpack(self._cursor.order + _CODES[kind], raw)[0]) if single else None
