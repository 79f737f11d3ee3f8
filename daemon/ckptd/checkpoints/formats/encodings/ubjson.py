"""Reads Universal Binary JSON as XGBoost writes it, without building its numeric arrays.

Source: https://ubjson.org (draft 12), with big-endian numbers and typed containers `[$type#count`. An array of
numbers becomes a `Numbers` with its length, so that the memory needed depends on the trees, not on their nodes.
"""

import struct
from dataclasses import dataclass
from typing import Any

from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

_NUMBERS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_SIZES = {kind: struct.calcsize(code) for kind, code in _NUMBERS.items()}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_INTEGERS = frozenset("iUIlL")
_MAX_DEPTH = 64
_MAX_VALUES = 20_000_000


@dataclass(frozen=True, slots=True)
class Numbers:
    """The length of an array of numbers whose values were skipped."""

    count: int

    def __len__(self) -> int:
        return self.count


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.values = 0

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self.data) - self.position:
            raise DamagedError(f"cut off: what begins at byte {self.position} needs {count} bytes")
        self.position += count
        return self.data[self.position - count : self.position]

    def marker(self) -> str:
        return self.take(1).decode("latin-1")

    def peek(self) -> str:
        return chr(self.data[self.position]) if self.position < len(self.data) else ""

    def number(self, kind: str) -> Any:
        return struct.unpack(_NUMBERS[kind], self.take(_SIZES[kind]))[0]

    def length(self) -> int:
        kind = self.marker()
        if kind not in _INTEGERS:
            raise DamagedError(f"has {kind!r} in place of a length at byte {self.position - 1}")
        size = int(self.number(kind))
        if not 0 <= size <= len(self.data) - self.position:
            raise DamagedError(f"states a length of {size} at byte {self.position}, more than is left")
        return size

    def text(self) -> str:
        begin = self.position
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError as error:
            raise DamagedError(f"has a text at byte {begin} that is none") from error

    def value(self, kind: str, depth: int) -> Any:
        self.values += 1
        if self.values > _MAX_VALUES or depth > _MAX_DEPTH:
            raise TooLargeError(f"it has more than {_MAX_VALUES} values or {_MAX_DEPTH} levels")
        if kind in _NUMBERS:
            return self.number(kind)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == "S":
            return self.text()
        if kind == "C":
            return self.marker()
        if kind == "[":
            return self.array(depth)
        if kind == "{":
            return self.object(depth)
        raise DamagedError(f"has the unknown marker {kind!r} at byte {self.position - 1}")

    def header(self) -> tuple[str | None, int | None]:
        """Return the type and the count at the head of a container, each None if not stated."""
        kind = None
        if self.peek() == "$":
            self.take(1)
            kind = self.marker()
        if self.peek() != "#":
            if kind is not None:
                raise DamagedError(f"has a typed container without a count at byte {self.position}")
            return None, None
        self.take(1)
        return kind, self.length()

    def array(self, depth: int) -> Any:
        kind, count = self.header()
        if kind is not None and kind in _SIZES and count is not None:
            self.take(count * _SIZES[kind])
            return Numbers(count)
        found: list[Any] = []
        while len(found) != count if count is not None else self.peek() != "]":
            found.append(self.value(kind or self.marker(), depth + 1))
        if count is None:
            self.take(1)
        return found

    def object(self, depth: int) -> dict[str, Any]:
        kind, count = self.header()
        found: dict[str, Any] = {}
        read = 0
        while read != count if count is not None else self.peek() != "}":
            name = self.text()
            found[name] = self.value(kind or self.marker(), depth + 1)
            read += 1
        if count is None:
            self.take(1)
        return found


def parse(data: bytes) -> Any:
    """Parse a document; arrays of numbers of one type become `Numbers`.

    Raises:
        DamagedError: it is no UBJSON, is cut off, or bytes follow it.
        TooLargeError: it has more values than allowed.

    """
    decoder = _Decoder(data)
    found = decoder.value(decoder.marker(), 0)
    if decoder.position != len(data):
        raise DamagedError(f"its content ends at byte {decoder.position} of {len(data)}")
    return found
