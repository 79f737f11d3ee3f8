"""Detects a lost write in an HDF5 file without checksums: a file whose end was never written reads as zeros.

Zeros alone prove nothing, because zeros are data too. A proof is a little-endian floating-point number that is cut in
two: its last byte holds sign and exponent and is not zero unless the number is. A run of zeros that starts inside
dense data and covers whole data sets behind it is weaker evidence; it is reported as uncertain.
"""

from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from ckptd.checkpoints.formats.interface import DamagedError

_BLOCK_BYTES = 1 << 20
_LEAST_RUN_BYTES = 2048
_DENSE_BYTES = 512


class Extent(NamedTuple):
    """Where the bytes of one contiguous data set lie. `kind` is numpy's letter, "?" where the bytes are big-endian."""

    name: str
    offset: int
    size_bytes: int
    item_bytes: int
    kind: str


def find_doubt(file: BinaryIO, size_bytes: int, extents: Sequence[Extent]) -> str | None:
    """Return why the end of the file may be a lost write, None where nothing suggests it.

    Raises:
        DamagedError: the end was surely not written.

    """
    start = _find_tail(file, size_bytes)
    cut = next((extent for extent in extents if extent.offset < start < extent.offset + extent.size_bytes), None)
    if size_bytes - start < _LEAST_RUN_BYTES or cut is None:
        return None
    within = (start - cut.offset) % cut.item_bytes
    if cut.kind == "f" and within:
        raise DamagedError(f"it is zeros from byte {start} to its end, which cuts a number of {cut.name!r} in two")
    swallowed = [extent for extent in extents if extent.offset >= start and extent.size_bytes > cut.item_bytes]
    # zeros that are data begin at the edge of a block of the file system by chance only
    is_suspect = bool(swallowed) or start % 512 == 0 or (len(extents) == 1 and cut.kind == "f")
    if is_suspect and size_bytes - start > size_bytes // 4 and _is_dense(file, cut, start):
        return (
            f"it is zeros from inside {cut.name!r} at byte {start} to its end: "
            "a lost write or data, no checksum in this format can tell"
        )
    return None


def _find_tail(file: BinaryIO, size_bytes: int) -> int:
    """Return where the zeros at the end of a file begin."""
    end = size_bytes
    while end:
        start = max(0, end - _BLOCK_BYTES)
        file.seek(start)
        held = file.read(end - start).rstrip(b"\0")
        if held:
            return start + len(held)
        end = start
    return 0


def _is_dense(file: BinaryIO, cut: Extent, start: int) -> bool:
    """Tell whether the numbers just before the zeros are none themselves."""
    first = max(cut.offset, start - _DENSE_BYTES)
    first += (cut.offset - first) % cut.item_bytes
    file.seek(first)
    data = file.read(start - first)
    items = [data[at : at + cut.item_bytes] for at in range(0, len(data), cut.item_bytes)]
    return len(items) >= 8 and all(item.strip(b"\0") for item in items)
