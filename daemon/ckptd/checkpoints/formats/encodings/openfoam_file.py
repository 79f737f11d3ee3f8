"""Checks one file of OpenFOAM: a header in a dictionary, entries, and a closing line; text or binary, plain or gzip.

The layout: IOobjectWriteHeader.C, List/ListIO.C and fileFormats of OpenFOAM. What OpenFOAM writes closes with a
comment line of stars; what people write by hand need not. Files of `processorsN/` hold such a file as a list of bytes
for each processor (decomposedBlockData.C), and close with the last list.
"""

import contextlib
import io
import re
import zlib
from typing import BinaryIO, NamedTuple

from ckptd.checkpoints.formats.encodings import bounded_stream
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.core.model import Level

HEAD_BYTES = 4096
_TAIL_BYTES = 4096
_MOST_BYTES = 512 << 20
_STRUCTURE_BYTES = 4 << 20
_HEADER = re.compile(rb"FoamFile\s*\{[^{}]*\}")
_WRITTEN = re.compile(rb"// (?:\* ){10,}//|\\\*-{10,}")
_CLOSING = re.compile(rb"// \*{20,} //\s*$")
_HAND_CLOSING = re.compile(rb"(?:[;})]|\*/|//[^\n]*)\s*$")
_INDEX = re.compile(rb"^\s*index\s+(\d{1,18})\s*;", re.MULTILINE)
_VALUE = re.compile(rb"^\s*value\s+([-+0-9.eE]{1,40})\s*;", re.MULTILINE)
_SCALAR_BYTES = re.compile(rb"scalar=(32|64)")
_LABEL_BYTES = re.compile(rb"label=(32|64)")
_LIST = re.compile(rb"List<(\w+)>\s+(\d{1,15})\s*(\(|\{)")
_COMPONENTS = {b"scalar": 1, b"vector": 3, b"sphericalTensor": 1, b"symmTensor": 6, b"tensor": 9}
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_BLOCKS = re.compile(rb"class\s+decomposedBlockData\s*;")
_BLOCK = re.compile(rb"\s*(?://[^\n]*\n\s*)*(\d{1,15})\s*\(")
_BLOCK_HEAD_BYTES = 1024
_TUPLE = re.compile(rb"\s*\(([^()]*)\)")


class UniformTime(NamedTuple):
    """What `uniform/time` says; None in every other file."""

    step: int | None = None
    time: float | None = None


def begins_as_one(head: bytes, name: str) -> bool:
    """Whether a file begins as OpenFOAM's do, compressed or not."""
    if name.endswith(".gz"):
        with contextlib.suppress(zlib.error):
            head = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, HEAD_BYTES)
    return b"FoamFile" in head


def check(file: BinaryIO, name: str, size_bytes: int, level: Level) -> UniformTime:
    """Check one file.

    Raises:
        DamagedError: it is damaged.

    """
    if not size_bytes:
        raise DamagedError("the file is empty")
    if not name.endswith(".gz"):
        return _check_plain(file, name, size_bytes, level)
    if level is not Level.FULL and size_bytes > _STRUCTURE_BYTES:
        bounded_stream.check_trailer(file, "gzip", size_bytes)
        return UniformTime()
    try:
        data = bounded_stream.open_stream(file, "gzip", _MOST_BYTES).read(_MOST_BYTES)
    except bounded_stream.InflatesTooFarError:
        return UniformTime()
    _check_ends(data[:HEAD_BYTES], data[-_TAIL_BYTES:], io.BytesIO(data))
    if level is Level.FULL:
        _check_content(data)
    return _read_time(name.removesuffix(".gz"), data[:_TAIL_BYTES])


def _check_plain(file: BinaryIO, name: str, size_bytes: int, level: Level) -> UniformTime:
    head = file.read(HEAD_BYTES)
    file.seek(max(0, size_bytes - _TAIL_BYTES))
    _check_ends(head, file.read(_TAIL_BYTES), file)
    if level is Level.FULL and size_bytes <= _MOST_BYTES:
        file.seek(0)
        _check_content(file.read(_MOST_BYTES))
    return _read_time(name, head)


def _check_ends(head: bytes, tail: bytes, file: BinaryIO) -> None:
    header = _HEADER.search(head)
    if header is None or _CONTROL.search(head, 0, header.start()):
        raise DamagedError("it does not begin as a file of OpenFOAM does")
    if _BLOCKS.search(header[0]):
        _check_blocks(file, header.end())
    elif _WRITTEN.search(head):
        if not _CLOSING.search(tail):
            raise DamagedError("the closing line is missing: the file is cut off")
    elif not _HAND_CLOSING.search(tail):
        raise DamagedError("its last entry is not closed: the file is cut off")


def _check_blocks(file: BinaryIO, position: int) -> None:
    """Check that the list of bytes of each processor ends where its length says, and that nothing follows the last."""
    count = 0
    while True:
        file.seek(position)
        head = file.read(_BLOCK_HEAD_BYTES)
        block = _BLOCK.match(head)
        if block is None:
            break
        file.seek(position := position + block.end() + int(block[1]))
        if file.read(1) != b")":
            raise DamagedError(f"the file ends inside the data of processor {count}")
        position, count = position + 1, count + 1
    if not count or any(line and not line.startswith(b"//") for line in map(bytes.strip, head.splitlines())):
        raise DamagedError(f"it does not go on as it should behind the data of {count} processors")


def _read_time(name: str, head: bytes) -> UniformTime:
    if name != "time":
        return UniformTime()
    index, value = _INDEX.search(head), _VALUE.search(head)
    try:
        time = float(value[1]) if value else None
    except ValueError:
        time = None
    return UniformTime(int(index[1]) if index else None, time)


def _check_content(data: bytes) -> None:
    """Check that every list has as many elements as it declares, and that text is text."""
    header = _HEADER.search(data, 0, HEAD_BYTES)
    if header is None:
        raise DamagedError("it does not begin as a file of OpenFOAM does")
    if _BLOCKS.search(header[0]):
        return  # its lists of bytes were followed already
    is_binary = bool(re.search(rb"format\s+binary", header[0]))
    if not is_binary and (found := _CONTROL.search(data)):
        raise DamagedError(f"the byte at offset {found.start()} is no text")
    position = header.end()
    while found := _LIST.search(data, position):
        position = found.end()
        if found[3] == b"(":
            check_list = _binary_end if is_binary else _text_end
            position = check_list(data, position, found[1], int(found[2]), header[0])


def _binary_end(data: bytes, start: int, kind: bytes, count: int, header: bytes) -> int:
    scalar, label = _SCALAR_BYTES.search(header), _LABEL_BYTES.search(header)
    if kind in _COMPONENTS:
        width = _COMPONENTS[kind] * (int(scalar[1]) // 8 if scalar else 8)
    elif kind == b"label":
        width = int(label[1]) // 8 if label else 4
    else:
        return start  # lists of lists and of words have no fixed width
    end = start + count * width
    if data[end : end + 1] != b")":
        raise DamagedError(f"the list at offset {start} does not end after its {count} elements")
    return end + 1


def _text_end(data: bytes, start: int, kind: bytes, count: int, _: bytes) -> int:
    components = _COMPONENTS.get(kind, 0)
    position, seen = start, 0
    if components > 1:
        while seen < count and (element := _TUPLE.match(data, position)):
            _check_numbers(element[1].split(), components, element.start())
            position, seen = element.end(), seen + 1
    elif components == 1 or kind == b"label":
        position = data.find(b")", start)
        words = data[start : max(start, position)].replace(b"(", b" ").split()
        _check_numbers(words, len(words), start)
        seen = len(words)
    else:
        return start
    if seen != count or not data[position : position + 64].lstrip().startswith(b")"):
        raise DamagedError(f"the list at offset {start} has {seen} of {count} elements")
    return position


def _check_numbers(words: list[bytes], count: int, offset: int) -> None:
    if len(words) != count:
        raise DamagedError(f"the element at offset {offset} has {len(words)} of {count} numbers")
    try:
        for word in words:
            float(word)
    except ValueError as error:
        raise DamagedError(f"the element at offset {offset} holds what is no number") from error
