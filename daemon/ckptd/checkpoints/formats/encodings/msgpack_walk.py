"""Walks a msgpack file without holding its arrays: Flax's checkpoints are dictionaries of numbers and arrays.

Sources: https://github.com/msgpack/msgpack/blob/master/spec.md and flax/serialization.py, whose arrays are an
extension 1 of (shape, type name, bytes), whose complex numbers are 2 and whose numpy scalars are 3.
"""

import math
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from ckptd.checkpoints.formats.encodings.byte_source import ByteSource
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

_MAX_ITEMS = 5_000_000
_MAX_DEPTH = 200
_MAX_TEXT = 1 << 16
_MAX_HELD = 64
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_NUMBERS |= {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_ARRAY, _SCALAR = 1, 3
_SCALAR_KINDS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I"}
_SCALAR_KINDS |= {"uint64": "Q", "float32": "f", "float64": "d"}
_ITEM_BYTES = {name: struct.calcsize(f"<{kind}") for name, kind in _SCALAR_KINDS.items()}
_ITEM_BYTES |= {"bool": 1, "int4": 1, "uint4": 1, "bfloat16": 2, "float16": 2, "complex64": 8, "complex128": 16}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value that was stepped over."""

    size_bytes: int


class _Walker:
    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self.source = ByteSource(file, size_bytes)
        self.items = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.source.take(size), "big")

    def value(self, depth: int = 0) -> Any:
        self.items += 1
        if self.items > _MAX_ITEMS or depth > _MAX_DEPTH:
            raise TooLargeError(f"it has more than {_MAX_ITEMS} values or {_MAX_DEPTH} levels")
        tag = self.source.take(1)[0]
        if tag < 0x80 or tag >= 0xE0:
            return tag if tag < 0x80 else tag - 256
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if kind := _NUMBERS.get(tag):
            return struct.unpack(kind, self.source.take(struct.calcsize(kind)))[0]
        if (size := self._text_size(tag)) is not None:
            return self._text(size)
        return self._compound(tag, depth)

    def _compound(self, tag: int, depth: int) -> Any:
        if 0xC4 <= tag <= 0xC6:
            return self._bytes(self.number(1 << (tag - 0xC4)))
        if tag & 0xF0 == 0x80 or tag in (0xDE, 0xDF):
            return self._map(tag & 0x0F if tag < 0x90 else self.number(2 << (tag - 0xDE)), depth)
        if tag & 0xF0 == 0x90 or tag in (0xDC, 0xDD):
            return self._list(tag & 0x0F if tag < 0xA0 else self.number(2 << (tag - 0xDC)), depth)
        if tag in _FIXED_EXTENSIONS:
            return self._extension(_FIXED_EXTENSIONS[tag])
        if 0xC7 <= tag <= 0xC9:
            return self._extension(self.number(1 << (tag - 0xC7)))
        raise DamagedError(f"has the unused tag {tag:#x} at byte {self.source.position - 1}")

    def _text_size(self, tag: int) -> int | None:
        if tag & 0xE0 == 0xA0:
            return tag & 0x1F
        return self.number(1 << (tag - 0xD9)) if tag in (0xD9, 0xDA, 0xDB) else None

    def _text(self, size: int) -> Any:
        if size > _MAX_TEXT:
            return self._skip(size)
        try:
            return self.source.take(size).decode()
        except UnicodeDecodeError as error:
            raise DamagedError(f"has a text at byte {self.source.position - size} that is none") from error

    def _bytes(self, size: int) -> Any:
        return self.source.take(size) if size <= _MAX_HELD else self._skip(size)

    def _skip(self, size: int) -> Skipped:
        self.source.skip(size)
        return Skipped(size)

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        self.source.require(2 * count)
        found = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise DamagedError(f"has a key that is no text before byte {self.source.position}")
            found[key] = self.value(depth + 1)
        return found

    def _list(self, count: int, depth: int) -> list[Any]:
        self.source.require(count)
        return [self.value(depth + 1) for _ in range(count)]

    def _extension(self, size: int) -> Any:
        code = self.number(1)
        end = self.source.position + size
        self.source.require(size)
        if code not in (_ARRAY, _SCALAR):
            return self._skip(size)
        parts = self.value()
        if self.source.position != end or not isinstance(parts, list) or len(parts) != 3:
            raise DamagedError(f"has an array that does not fill its place before byte {end}")
        return _array(parts, end)

    def finish(self, size_bytes: int) -> None:
        if self.source.position != size_bytes:
            raise DamagedError(f"its content ends at byte {self.source.position} of {size_bytes}")


def _array(parts: list[Any], end: int) -> Any:
    """Compare an array's bytes with its shape; return its number where it is of one."""
    shape, dtype, data = parts
    if not isinstance(shape, list) or not all(isinstance(each, int) and each >= 0 for each in shape):
        raise DamagedError(f"has an array without a shape before byte {end}")
    if not isinstance(dtype, str) or not isinstance(data, (bytes, Skipped)):
        raise DamagedError(f"has an array without a type or data before byte {end}")
    size = len(data) if isinstance(data, bytes) else data.size_bytes
    item_bytes = 1 if dtype.startswith("float8") else _ITEM_BYTES.get(dtype)
    if item_bytes is not None and math.prod(shape) * item_bytes != size:
        raise DamagedError(f"has an array of {size} bytes before byte {end} that its shape does not fit")
    kind = _SCALAR_KINDS.get(dtype)
    if isinstance(data, bytes) and kind is not None and len(data) == struct.calcsize(f"<{kind}"):
        return struct.unpack(f"<{kind}", data)[0]
    return Skipped(size)


def walk(file: BinaryIO, size_bytes: int) -> Any:
    """Return the content of a file with its arrays stepped over; arrays of one number become that number.

    Raises:
        DamagedError: it is no msgpack, or does not end where the file does.
        TooLargeError: it has more values than are read here.

    """
    walker = _Walker(file, size_bytes)
    found = walker.value()
    walker.finish(size_bytes)
    return found
