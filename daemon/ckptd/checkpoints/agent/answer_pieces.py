"""Keeps the checkpoints that scans found as they came until the main process records them.

An answer about 100,000 checkpoints has 10 MiB of JSON and takes 43 MiB once it is parsed, five times as much where they
are not alike. Several directories may have answered before the first of them is recorded. So a list of checkpoints
comes in lines of its own, which the agent does not parse. Long ones are kept compressed: names and numbers repeat, so
that they take less than a fifth. A child may be subverted by what it reads, so each piece is checked when it is
unpacked.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from ckptd.core.text.nesting import is_nested_deeper

MARK = b"+"  # of a line with a piece of the next answer; a line of JSON begins with another character
SPLIT = "checkpoints"  # the list of an answer that may be long
LEAST_SPLIT = 20  # items; fewer stay in the answer
PIECE_COUNT = 1000  # items of one piece, or of rows of tables among them
MAX_DEPTH = 40  # of containers in an answer: a user's own settings take up to 21, a scan 7
_FAST = 1  # level of zlib: the higher ones take five times as long for half the size
_LEAST_COMPRESSED = 64 << 10  # bytes: that of a shorter list is worth less than the processor time
_COMPRESSED, _PLAIN = b"z", b"p"


def write_answer(out: BinaryIO, index: int, result: dict[str, Any]) -> None:
    """Write the answer to one item; if its list is not short, first the pieces of the list, and then their length."""
    items = result.get(SPLIT)
    if isinstance(items, list) and (count := count_items(items)) >= LEAST_SPLIT:
        out.writelines(b"%b%b\n" % (MARK, json.dumps(piece).encode()) for piece in _list_pieces(items))
        result = {**result, SPLIT: count}
    out.write(json.dumps({"index": index, "result": result}).encode() + b"\n")
    out.flush()


def count_items(items: object) -> int:
    """Return how many items a list has, with the rows of tables in place of these; a packed list says it."""
    if isinstance(items, PackedItems):
        return items.expected_count
    return sum(map(_count_rows, items)) if isinstance(items, list) else 0


def _count_rows(item: Any) -> int:
    """Return how many rows a table has, a list of columns of which the first has them all; 1 for any other item."""
    return len(item[0]) if isinstance(item, list) and item and isinstance(item[0], list) else 1


def _list_pieces(items: Iterable[Any]) -> Iterator[list[Any]]:
    piece: list[Any] = []
    count = 0
    for item in items:
        rows = _count_rows(item)
        if piece and count + rows > PIECE_COUNT:
            yield piece
            piece, count = [], 0
        piece.append(item)
        count += rows
    yield piece


def address(line: bytes, request_id: int) -> bytes:
    """Return a child's line as the agent passes it on: with the request that it answers."""
    return b"%b%d %b\n" % (MARK, request_id, line[len(MARK) :])


def read_address(line: bytes) -> tuple[int, bytes]:
    """Return the request that a line of `address` belongs to, and the piece.

    Raises:
        ValueError: it is no such line.

    """
    number, _, piece = line[len(MARK) :].partition(b" ")
    return int(number), piece


class PackedItems:
    """The items of a list as JSON, compressed if there are many. Each iteration parses them again."""

    __slots__ = ("_pieces", "expected_count")

    def __init__(self, pieces: Sequence[bytes], count: object) -> None:
        """Take pieces that `pack` returned, and how many items they have, with the rows of tables in place of these.

        A count that cannot be is replaced by a bound.
        """
        self._pieces = pieces
        most = len(pieces) * PIECE_COUNT
        self.expected_count = count if isinstance(count, int) and 0 <= count <= most else most

    @classmethod
    def of(cls, items: Iterable[Any]) -> "PackedItems":
        """Pack some items, without having all of them in memory."""
        pieces: list[bytes] = []
        count, left = 0, iter(items)
        while some := list(islice(left, PIECE_COUNT)):
            pieces.append(pack(json.dumps(some).encode()))
            count += len(some)
        return cls(pieces, count)

    def __iter__(self) -> Iterator[Any]:
        """Yield the items in their order.

        Raises:
            ValueError: a piece is no list of JSON, or nested too deep, or there are more items than were expected.

        """
        left = self.expected_count
        for piece in self._pieces:
            items = _unpack(piece)
            left -= len(items)
            if left < 0:
                raise ValueError(f"there are more than {self.expected_count} items")
            yield from items


def pack(piece: bytes) -> bytes:
    """Compress a piece, unless it is short."""
    return _COMPRESSED + zlib.compress(piece, _FAST) if len(piece) >= _LEAST_COMPRESSED else _PLAIN + piece


def _unpack(packed: bytes) -> list[Any]:
    try:
        items = json.loads(zlib.decompress(packed[1:]) if packed.startswith(_COMPRESSED) else packed[1:])
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(items, list):
        raise ValueError("a piece is no list")  # noqa: TRY004 - of a child's answer, as everything wrong in it
    if is_nested_deeper(items, MAX_DEPTH):
        raise ValueError("it is nested too deep")
    return items
