"""Walks the records of Octave's text format and notes scalars with telling names.

A record is `# name:`, `# type:`, further `# key: value` lines, and lines of data. Containers hold records, so the walk
counts how many are still to come. At level full every number is read.
"""

import math
import re
from collections.abc import Iterator

from ckptd.checkpoints.formats.encodings.cursor import Source
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.formats.scalars import Scalars

_PIECE = 1 << 20
_LONGEST_LINE = 256 << 20
_SPACED = re.compile(rb"# Created by Octave (?:[4-9]|\d\d)")  # these write two empty lines behind each variable
_MOST_LINES = 1 << 34
_INTEGER_TYPES = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_REAL_TYPES = _INTEGER_TYPES | {"", "float"}
_COMPLEX_TYPES = frozenset(["complex", "float complex"])
_MATRIX_TYPES = _REAL_TYPES | _COMPLEX_TYPES | {"bool"}
_OTHERS = frozenset(
    ["string", "sq_string", "range", "double_range", "sparse matrix", "scalar struct", "struct", "cell"]
)


class _Lines:
    """Lines of a source, and raw bytes for texts that hold line ends themselves."""

    def __init__(self, head: bytes, source: Source) -> None:
        self._source = source
        self._data = head
        self._at = 0
        self.number = 0

    def next(self) -> bytes | None:
        """Return the next line without its end, None at the end of the source."""
        while (end := self._data.find(b"\n", self._at)) < 0:
            if not self._more():
                if self._at < len(self._data):
                    raise DamagedError(f"the file ends in the middle of line {self.number + 1}")
                return None
        line = self._data[self._at : end]
        self._at = end + 1
        self.number += 1
        return line

    def skip(self, count: int) -> None:
        """Pass over raw bytes."""
        while len(self._data) - self._at < count:
            count -= len(self._data) - self._at
            self._at = len(self._data)
            if not self._more():
                raise DamagedError(f"the file ends in a text after line {self.number}")
        self._at += count

    def _more(self) -> bool:
        piece = self._source.read(_PIECE)
        self._data = self._data[self._at :] + piece
        self._at = 0
        if len(self._data) > _LONGEST_LINE:
            raise DamagedError(f"line {self.number + 1} is longer than any line can be")
        return bool(piece)


class TextWalk:
    """One walk over a file whose first bytes are `head`."""

    def __init__(self, head: bytes, source: Source, *, reads_numbers: bool) -> None:
        self._lines = _Lines(head, source)
        self._reads_numbers = reads_numbers
        self.scalars = Scalars()
        self._open: list[int] = []
        self._is_strict = True  # not in the lines of a type whose layout is not known here

    def run(self) -> None:
        """Walk to the end.

        Raises:
            DamagedError: a record does not hold what its head declares.

        """
        record_count, blank_count = 0, 0
        is_spaced = False
        while (line := self._lines.next()) is not None:
            is_spaced |= bool(_SPACED.match(line))
            blank_count = 0 if line else blank_count + 1
            if line.startswith(b"# name: "):
                record_count += 1
                blank_count = 0
                self._record(_text(line[8:]))
            elif self._is_strict and line.strip() and not line.startswith((b"#", b"%")):
                raise DamagedError(f"line {self._lines.number} belongs to no variable")
        while self._open and not self._open[-1]:
            self._open.pop()
        if self._open:
            raise DamagedError(f"{sum(self._open)} parts of a structure or cell array are missing")
        if is_spaced and blank_count < 2:
            raise DamagedError("the empty lines behind the last variable are missing: the file is cut off")
        if not record_count:
            raise DamagedError("it holds no variable")

    def _record(self, name: str) -> None:
        while self._open and not self._open[-1]:
            self._open.pop()
        if self._open:
            self._open[-1] -= 1
        kind = self._key("type").removeprefix("global ")
        base, _, shape = kind.rpartition(" ")
        self._is_strict = True
        if kind == "bool" or (shape == "scalar" and base in _REAL_TYPES):
            self._scalar(name)
        elif shape == "scalar" and base in _COMPLEX_TYPES:
            self._numbers(self._data_line(), 1)
        elif shape == "matrix" and base in _MATRIX_TYPES:
            self._matrix()
        elif kind in _OTHERS:
            self._other(kind)
        else:  # objects, handles, diagonal and permutation matrices
            self._is_strict = False

    def _other(self, kind: str) -> None:
        if kind in {"string", "sq_string"}:
            self._string()
        elif kind in {"range", "double_range"}:
            self._data_line()
            self._numbers(self._data_line(), 3)
        elif kind == "sparse matrix":
            self._sparse()
        else:
            self._container(kind)

    def _scalar(self, name: str) -> None:
        line = self._data_line()
        try:
            value = float("nan") if line.strip() == b"NA" else float(line)
        except ValueError as error:
            raise DamagedError(f"line {self._lines.number} is no number") from error
        self.scalars.add(name, value, len(self._open))

    def _matrix(self) -> None:
        key, value = self._any_key()
        if key == "ndims":
            row_count, column_count = math.prod(self._dimensions(_whole(value, self._lines.number))), 1
        elif key == "rows":
            row_count, column_count = (
                _whole(value, self._lines.number),
                _whole(self._key("columns"), self._lines.number),
            )
        else:
            raise DamagedError(f"line {self._lines.number} should give the size of a matrix")
        self._rows(row_count if column_count else 0, column_count)

    def _sparse(self) -> None:
        count = _whole(self._key("nnz"), self._lines.number)
        self._key("rows")
        self._key("columns")
        self._rows(count, 3)

    def _rows(self, row_count: int, column_count: int) -> None:
        for row in _up_to(row_count):
            line = self._lines.next()
            if line is None or line.startswith(b"# "):
                raise DamagedError(f"a matrix has {row} of {row_count} rows, then line {self._lines.number} ends it")
            self._numbers(line, column_count)

    def _numbers(self, line: bytes, count: int) -> None:
        if not self._reads_numbers:
            return
        tokens = line.split()
        if len(tokens) != count:
            raise DamagedError(f"line {self._lines.number} has {len(tokens)} of {count} numbers")
        try:
            for token in tokens:
                for part in token.strip(b"()").split(b","):
                    if part != b"NA":
                        float(part)
        except ValueError as error:
            raise DamagedError(f"line {self._lines.number} holds what is no number") from error

    def _string(self) -> None:
        key, value = self._any_key()
        if key == "ndims":
            self._lines.skip(math.prod(self._dimensions(_whole(value, self._lines.number))))
        elif key == "elements":
            for _ in _up_to(_whole(value, self._lines.number)):
                self._lines.skip(_whole(self._key("length"), self._lines.number))
                self._lines.next()
        elif key == "length":
            self._lines.skip(_whole(value, self._lines.number))
        else:
            raise DamagedError(f"line {self._lines.number} should give the size of a text")

    def _container(self, kind: str) -> None:
        key, value = self._any_key()
        if kind == "cell" and key == "rows":
            count = _whole(value, self._lines.number) * _whole(self._key("columns"), self._lines.number)
        elif key == "ndims":
            count = math.prod(self._dimensions(_whole(value, self._lines.number)))
            if kind != "cell":
                count = _whole(self._key("length"), self._lines.number)
        else:
            count = _whole(value, self._lines.number)
        self._open.append(count)

    def _dimensions(self, count: int) -> list[int]:
        words = self._data_line().split()
        if len(words) != count:
            raise DamagedError(f"line {self._lines.number} has {len(words)} of {count} dimensions")
        return [_whole(_text(word), self._lines.number) for word in words]

    def _data_line(self) -> bytes:
        line = self._lines.next()
        if line is None:
            raise DamagedError("the file ends where a value should be")
        return line

    def _any_key(self) -> tuple[str, str]:
        line = _text(self._data_line())
        key, colon, value = line.removeprefix("# ").partition(": ")
        if not line.startswith("# ") or not colon:
            raise DamagedError(f"line {self._lines.number} should describe a variable")
        return key, value

    def _key(self, wanted: str) -> str:
        key, value = self._any_key()
        if key != wanted:
            raise DamagedError(f"line {self._lines.number} should give the {wanted} of a variable")
        return value


def _text(raw: bytes) -> str:
    return raw.decode("latin-1").strip("\r")


def _whole(value: str, line_number: int) -> int:
    if not value.strip().isascii() or not value.strip().isdigit() or len(value) > 18:
        raise DamagedError(f"line {line_number} should hold a whole number")
    return int(value)


def _up_to(count: int) -> Iterator[int]:
    """Iterate up to a declared count without allocating for it: a false count fails when the lines end."""
    return iter(range(min(count, _MOST_LINES)))
