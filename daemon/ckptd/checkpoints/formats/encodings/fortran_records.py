"""Walks the records of a Fortran unformatted sequential file.

Each record lies between two copies of its length, four bytes each; gfortran and Intel split records of 2 GiB and more
into pieces, whose leading length is negative while another piece follows (gfortran manual, "File format of
unformatted sequential files"). The file must end with a record.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ckptd.checkpoints.formats.encodings.cursor import Cursor, EndedError
from ckptd.checkpoints.formats.interface import DamagedError

_KEPT = 256
_MOST_EMPTY = 2  # in a row: programs write an empty record at times, and a lost write reads as many


class FortranRecord(NamedTuple):
    """One record: how long it is, and its first bytes."""

    size_bytes: int
    head: bytes
    order: str

    def integers(self) -> list[int]:
        """Return the record's beginning as integers of four bytes."""
        byteorder = "little" if self.order == "<" else "big"
        whole = self.head[: len(self.head) // 4 * 4]
        return [
            int.from_bytes(whole[at : at + 4], byteorder, signed=True)  # type: ignore[arg-type]
            for at in range(0, len(whole), 4)
        ]


def walk(file: BinaryIO) -> Iterator[FortranRecord]:
    """Yield the records of a file in turn.

    Raises:
        DamagedError: two lengths disagree, or the file ends inside a record.

    """
    cursor = Cursor(file, order="<")
    if not cursor.size:
        raise DamagedError("the file is empty")
    first = cursor.take(min(4, cursor.size))
    file.seek(0)
    # the first record is short, so the byte order is the one that makes it so
    order = "<" if int.from_bytes(first, "little") <= int.from_bytes(first, "big") else ">"
    cursor = Cursor(file, order=order)
    empty = 0
    while not cursor.is_at_end():
        try:
            record = _read_record(cursor)
        except EndedError as error:
            raise DamagedError(f"the file ends inside a record: {error}") from error
        empty = 0 if record.size_bytes else empty + 1
        if empty > _MOST_EMPTY:
            raise DamagedError(f"zeros are at byte {cursor.position}, where a record is due: the write was lost")
        yield record


def _read_record(cursor: Cursor) -> FortranRecord:
    total, head, start = 0, b"", cursor.position
    while True:
        length = cursor.integer()
        size = abs(length)
        kept = cursor.take(min(size, _KEPT - len(head)) if len(head) < _KEPT else 0)
        cursor.skip(size - len(kept))
        if abs(closing := cursor.integer()) != size:
            raise DamagedError(f"the record at offset {start} has length {size} before it and {closing} after it")
        head += kept
        total += size
        if length >= 0:
            return FortranRecord(total, head, cursor.order)
