"""The files of a checkpoint and their identities as few bytes, because rows of checkpoints are most of a database.

A sequence of variable-length numbers, with seven bits in each byte, least significant first:

    four times the number of identities, plus how the files are written: not, plainly, or compressed
    for each: device, inode, size and mtime, each minus that of the one before; then 0, or ctime minus mtime plus 1
    for each file: the characters that it shares with the one before, at its beginning, then at its end,
        the bytes between these as UTF-8: their number and themselves

Differences are signed: 2n for n >= 0, else -2n - 1. The first identity is compared with what the row's own columns say,
the first file with the name of the checkpoint. If its only file has this name, no files are written.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from ckptd.core.model import FileIdentity
from ckptd.core.rows.usual_texts import compress, decompress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CONTINUES = 0x80
_ABSENT, _PLAIN, _COMPRESSED = range(3)
_NUMBERS_OF_IDENTITY = 5


def pack_members(
    name: str, files: Sequence[str], identities: Sequence[FileIdentity], modified_at: datetime, size_bytes: int
) -> bytes:
    """Return the files and identities of a checkpoint of this name."""
    is_alone = len(files) == 1 and files[0] == name
    written = b"" if is_alone else _write_files(files, name)
    short = compress(written) if written else b""
    form = _ABSENT if is_alone else _COMPRESSED if len(short) < len(written) else _PLAIN
    numbers = [4 * len(identities) + form]
    before = _first(len(identities), modified_at, size_bytes)
    for each in identities:
        numbers += [_zigzag(mine - other) for mine, other in zip(each[:4], before[:4], strict=True)]
        numbers.append(_zigzag(each.changed_ns - each.modified_ns) + 1 if each.changed_ns else 0)
        before = each
    packed = bytearray()
    _write(packed, numbers)
    return bytes(packed) + (short if form == _COMPRESSED else written)


def unpack_members(
    packed: bytes, name: str, modified_at: datetime, size_bytes: int
) -> tuple[tuple[str, ...], tuple[FileIdentity, ...]]:
    """Return the files and identities that `pack_members` wrote."""
    [head], place = _read_numbers(packed, 0, 1)
    count, form = divmod(head, 4)
    numbers, place = _read_numbers(packed, place, _NUMBERS_OF_IDENTITY * count)
    before = _first(count, modified_at, size_bytes)
    identities = []
    for start in range(0, len(numbers), _NUMBERS_OF_IDENTITY):
        *differences, changed = numbers[start : start + _NUMBERS_OF_IDENTITY]
        device, inode, size, modified = map(_unzigzag, differences)
        modified_ns = before.modified_ns + modified
        before = FileIdentity(
            before.device + device,
            before.inode + inode,
            before.size_bytes + size,
            modified_ns,
            modified_ns + _unzigzag(changed - 1) if changed else 0,
        )
        identities.append(before)
    if form == _ABSENT:
        return (name,), tuple(identities)
    written = packed[place:]
    return tuple(_read_files(decompress(written) if form == _COMPRESSED else written, name)), tuple(identities)


def _write_files(files: Sequence[str], before: str) -> bytes:
    packed = bytearray()
    for file in files:
        start = _count_common(file, before)
        end = _count_common(file[start:][::-1], before[start:][::-1])
        middle = file[start : len(file) - end].encode("utf-8", "surrogatepass")
        _write(packed, (start, end, len(middle)))
        packed += middle
        before = file
    return bytes(packed)


def _read_files(packed: bytes, name: str) -> Iterator[str]:
    place = 0
    while place < len(packed):
        (start, end, size), place = _read_numbers(packed, place, 3)
        middle = packed[place : place + size].decode("utf-8", "surrogatepass")
        place += size
        name = name[:start] + middle + name[len(name) - end :]
        yield name


def _count_common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(bool, map(str.__eq__, one, other)))


def _first(file_count: int, modified_at: datetime, size_bytes: int) -> FileIdentity:
    modified_ns = (modified_at - _EPOCH) // _MICROSECOND * 1000
    return FileIdentity(0, 0, size_bytes // max(file_count, 1), modified_ns)


def _zigzag(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _unzigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _write(packed: bytearray, numbers: Iterable[int]) -> None:
    for number in numbers:
        left = number
        while left >= _CONTINUES:
            packed.append(left & 0x7F | _CONTINUES)
            left >>= 7
        packed.append(left)


def _read_numbers(packed: bytes, place: int, count: int) -> tuple[list[int], int]:
    """Return so many numbers from a place on, and the place behind them."""
    numbers: list[int] = []
    while len(numbers) < count:
        number = packed[place]
        place += 1
        if number >= _CONTINUES:
            number &= 0x7F
            shift = 7
            while (byte := packed[place]) >= _CONTINUES:
                number |= (byte & 0x7F) << shift
                shift += 7
                place += 1
            number |= byte << shift
            place += 1
        numbers.append(number)
    return numbers, place
