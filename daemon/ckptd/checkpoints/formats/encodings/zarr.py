"""Reads the metadata of zarr arrays (versions 2 and 3) and checks their chunks.

The caller finds the chunks: they are files, or values in a key-value store. Sources: zarr-specs.readthedocs.io, v2 and
v3 core, and the codec `sharding_indexed`.
"""

import io
import itertools
import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from ckptd.checkpoints.formats.encodings import crc32c, zstd_stream
from ckptd.checkpoints.formats.encodings.file_part import FilePart
from ckptd.checkpoints.formats.interface import DamagedError

METADATA_NAMES = (".zarray", "zarr.json")
_MAX_METADATA_BYTES = 1 << 20
_MAX_RANK = 64
_V2_ITEM = re.compile(r"[<>|=]([a-zA-Z])(\d+)")
_TEXT_BYTES = 4  # of a character in numpy's type U
_NAMED_ITEM = re.compile(r"(?:u?int|b?float|complex|r)(\d+)(?:_.*)?")
_BLOSC_HEADER = struct.Struct("<4B3I")
_SCALAR_KINDS = {
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f4": "f",
    "f8": "d",
}
_CHECKED = frozenset({"crc32c", "zlib", "gzip"})  # and these are what is compared here
_KNOWN = frozenset({"zstd", "zlib", "gzip", "bytes", "crc32c", "transpose"})
_MAGICS = {"zstd": b"\x28\xb5\x2f\xfd", "gzip": b"\x1f\x8b"}  # zlib's first byte depends on its settings
HEAD_BYTES = 16
_MAX_SHARDING = 4
_MISSING_SUBCHUNK = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Codec:
    """A codec, such as a compressor or a checksum, with its name and settings in the metadata."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Array:
    """The metadata of an array; its sizes are plausible, but were not compared with any chunk."""

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    item_bytes: int | None  # None: a data type whose size is not known here
    number: str | None  # how struct reads one item, where it is a plain number
    codecs: tuple[Codec, ...]  # in the order of encoding
    key_prefix: str
    separator: str

    @property
    def chunk_bytes(self) -> int | None:
        return None if self.item_bytes is None else math.prod(self.chunk_shape) * self.item_bytes

    @property
    def chunk_count(self) -> int:
        return math.prod(-(-size // chunk) for size, chunk in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def shard(self) -> Codec | None:
        """The codec that stores many chunks in one (sharding), None if the array does not use it."""
        return next((codec for codec in self.codecs if codec.name == "sharding_indexed"), None)

    @property
    def innermost(self) -> tuple[Codec, ...]:
        """The codecs of the chunks, also if these are stored in shards."""
        codecs = self.codecs
        for _ in range(_MAX_SHARDING):
            inner = next((codec for codec in codecs if codec.name == "sharding_indexed"), None)
            if inner is None:
                break
            try:
                codecs = _codecs(inner.settings["codecs"])
            except (TypeError, KeyError, AttributeError) as error:
                raise DamagedError(f"has shards whose settings are impossible: {error}") from error
        return codecs

    @property
    def is_checked(self) -> bool:
        """Whether each chunk has a checksum."""
        return any(codec.name in _CHECKED for codec in self.innermost)

    @property
    def unread_codec(self) -> str | None:
        """The name of a codec that ckptd cannot decode, so that damage to its data goes unseen, else None."""
        return next((codec.name for codec in self.innermost if codec.name not in _KNOWN), None)

    def chunk_keys(self) -> Iterator[str]:
        """Yield the keys of all chunks, such as `0.1` or `c/0/1`."""
        if not self.shape:
            yield self.key_prefix or "0"
            return
        counts = [-(-size // chunk) for size, chunk in zip(self.shape, self.chunk_shape, strict=True)]
        lead = f"{self.key_prefix}{self.separator}" if self.key_prefix else ""
        for place in _places(counts):
            yield lead + self.separator.join(map(str, place))


def _places(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all indices of a grid, the last axis fastest, without holding ranges in memory as `itertools.product`."""
    if not all(counts):
        return
    place = [0] * len(counts)
    axis = 0
    while axis >= 0:
        yield tuple(place)
        axis = len(counts) - 1
        while axis >= 0 and place[axis] + 1 == counts[axis]:
            place[axis] = 0
            axis -= 1
        place[axis] += 1


def parse_metadata(data: bytes) -> Array | None:
    """Parse `.zarray` or `zarr.json`; return None for the metadata of a group.

    Raises:
        DamagedError: these are no metadata of an array or group.

    """
    if len(data) > _MAX_METADATA_BYTES:
        raise DamagedError(f"its metadata have {len(data)} bytes")
    try:
        found = json.loads(data)
        if found.get("node_type") == "group":
            return None
        return _parse_v3(found) if found.get("zarr_format") == 3 else _parse_v2(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedError(f"its metadata are none of an array: {type(error).__name__} {error}") from error


def _parse_v2(found: Mapping[str, Any]) -> Array:
    dtype = found["dtype"]
    compressor = found.get("compressor")
    names = [*(found.get("filters") or ()), *([compressor] if compressor else ())]
    return Array(
        shape=_sizes(found["shape"], least=0),
        chunk_shape=_sizes(found["chunks"], least=1),
        item_bytes=_item_bytes(dtype),
        number=_number(dtype) if isinstance(dtype, str) else None,
        codecs=tuple(Codec(name=str(each["id"]), settings=each) for each in names),
        key_prefix="",
        separator=str(found.get("dimension_separator", ".")),
    )


def _parse_v3(found: Mapping[str, Any]) -> Array:
    data_type = found["data_type"]
    encoding = found.get("chunk_key_encoding", {})
    is_default = encoding.get("name", "default") == "default"
    codecs = _codecs(found["codecs"])
    order = next((codec.settings.get("endian", "little") for codec in codecs if codec.name == "bytes"), "little")
    numbers = {"int": "i", "uint": "u", "float": "f"}
    kind = re.fullmatch(r"(u?int|float)(\d+)", data_type) if isinstance(data_type, str) else None
    dtype = f"{'>' if order == 'big' else '<'}{numbers[kind[1]]}{int(kind[2]) // 8}" if kind else ""
    return Array(
        shape=_sizes(found["shape"], least=0),
        chunk_shape=_sizes(found["chunk_grid"]["configuration"]["chunk_shape"], least=1),
        item_bytes=_item_bytes(data_type),
        number=_number(dtype),
        codecs=codecs,
        key_prefix="c" if is_default else "",
        separator=str(encoding.get("configuration", {}).get("separator", "/" if is_default else ".")),
    )


def _codecs(found: Iterable[Mapping[str, Any]]) -> tuple[Codec, ...]:
    return tuple(Codec(name=str(each["name"]), settings=each.get("configuration") or {}) for each in found)


def _sizes(found: Iterable[Any], *, least: int) -> tuple[int, ...]:
    sizes = tuple(found)
    if len(sizes) > _MAX_RANK or not all(isinstance(size, int) and least <= size < 2**62 for size in sizes):
        raise ValueError(f"the sizes {sizes!r:.80} are impossible")
    return sizes


def _item_bytes(dtype: Any) -> int | None:
    if not isinstance(dtype, str):
        return None
    if found := _V2_ITEM.fullmatch(dtype):
        return int(found[2]) * (_TEXT_BYTES if found[1] == "U" else 1)
    if dtype == "bool":
        return 1
    found = _NAMED_ITEM.fullmatch(dtype)
    return max(1, int(found[1]) // 8) if found else None


def _number(dtype: str) -> str | None:
    kind = _SCALAR_KINDS.get(dtype[1:])
    return f"{'>' if dtype[0] == '>' else '<'}{kind}" if kind else None


def read_scalar(array: Array, data: bytes) -> float | None:
    """Return the number in an array of one element, None if it is no number or cannot be decoded."""
    number = array.number
    if number is None or math.prod(array.shape) != 1 or not 0 < (array.chunk_bytes or 0) <= 64:
        return None
    try:
        if array.shard is not None:
            ((inner, start, length),) = _read_shard(array, io.BytesIO(data), 0, len(data))
            array, data = inner, data[start : start + length]
        decoded = b"".join(itertools.islice(decode_chunk(array, io.BytesIO(data), len(data)), 2))
        value = struct.unpack_from(number, decoded)[0]
    except (DamagedError, struct.error, ValueError):
        return None
    return float(value) if isinstance(value, float) else int(value)


def check_chunk(array: Array, file: BinaryIO, offset: int, size_bytes: int) -> None:
    """Decode a chunk in a part of a file block by block, and check its size and checksums.

    Raises:
        DamagedError: it does not decode, or not to the size of a chunk.

    """
    if array.shard is not None:
        for inner, start, length in _read_shard(array, file, offset, size_bytes):
            check_chunk(inner, file, offset + start, length)
        return
    part = io.BufferedReader(FilePart(file, offset, size_bytes))
    expected = array.chunk_bytes
    size = 0
    for piece in decode_chunk(array, part, size_bytes):
        size += len(piece)
        if expected is not None and size > expected:
            break
    if expected is not None and size != expected and array.unread_codec is None:
        raise DamagedError(f"decodes to {'more than' if size > expected else size} of its {expected} bytes")


def check_beginning(array: Array, head: bytes, size_bytes: int) -> None:
    """Check the size of an uncompressed chunk, or the first 16 bytes of a compressed one.

    Raises:
        DamagedError: the codecs of the array cannot have written the chunk.

    """
    if array.shard is not None:
        return
    codecs = [codec.name for codec in array.codecs if codec.name not in {"bytes", "transpose"}]
    checksums = codecs.count("crc32c")
    compressor = next((name for name in reversed(codecs) if name != "crc32c"), None)
    if compressor is None:
        expected = None if array.chunk_bytes is None else array.chunk_bytes + 4 * checksums
        if expected not in {None, size_bytes}:
            raise DamagedError(f"it has {size_bytes} of its {expected} bytes")
    elif compressor == "blosc" and not checksums:
        _check_blosc(head, size_bytes, array.chunk_bytes)
    elif compressor in _MAGICS and not head.startswith(_MAGICS[compressor]):
        raise DamagedError(f"it does not begin as {compressor} does")


def decode_chunk(array: Array, source: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yield the decoded bytes of a chunk; for codecs that ckptd cannot decode, at most check the header."""
    stack = list(array.codecs)
    while stack and stack[-1].name in {"crc32c", "bytes", "transpose"}:
        if stack.pop().name == "crc32c":
            source, size_bytes = _strip_checksum(source, size_bytes), size_bytes - 4
    name = stack[-1].name if stack else ""
    if name == "zstd":
        yield from zstd_stream.stream_zstd(source)
    elif name in {"zlib", "gzip"}:
        yield from zstd_stream.stream_zlib(source)
    elif name == "blosc":
        _check_blosc(source.read(_BLOSC_HEADER.size), size_bytes, array.chunk_bytes)
    else:
        while piece := source.read(1 << 20):
            yield piece


def _strip_checksum(source: BinaryIO, size_bytes: int) -> BinaryIO:
    if size_bytes < 4:
        raise DamagedError("is shorter than its checksum")
    crc = crc32c.compute_range(source, 0, size_bytes - 4)
    if int.from_bytes(source.read(4), "little") != crc:
        raise DamagedError("fails its checksum")
    return io.BufferedReader(FilePart(source, 0, size_bytes - 4))


def _check_blosc(head: bytes, size_bytes: int, expected: int | None) -> None:
    """Compare the sizes in the 16-byte header of a Blosc 1 buffer (c-blosc README_CHUNK_FORMAT)."""
    if len(head) < _BLOSC_HEADER.size:
        raise DamagedError("is shorter than its header")
    version, _, _, _, decoded, _, stored = _BLOSC_HEADER.unpack(head)
    if version == 0 or stored != size_bytes or (expected is not None and decoded != expected):
        raise DamagedError(f"has {size_bytes} bytes, its header states {stored} that decode to {decoded}")


def _read_shard(array: Array, file: BinaryIO, offset: int, size_bytes: int) -> Iterator[tuple[Array, int, int]]:
    """Check the index of a shard, and yield the array, the offset in the shard and the size of each chunk in it.

    Source: the codec `sharding_indexed` of zarr v3.
    """
    codec = array.shard
    if codec is None:
        return
    try:
        chunk_shape = _sizes(codec.settings["chunk_shape"], least=1)
        inner = Array(
            shape=array.chunk_shape,
            chunk_shape=chunk_shape,
            item_bytes=array.item_bytes,
            number=array.number,
            codecs=_codecs(codec.settings["codecs"]),
            key_prefix="",
            separator=".",
        )
        has_checksum = any(each["name"] == "crc32c" for each in codec.settings.get("index_codecs", ()))
        count = inner.chunk_count
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(f"has shards whose settings are impossible: {error}") from error
    index_bytes = 16 * count + (4 if has_checksum else 0)
    if index_bytes > size_bytes:
        raise DamagedError(f"has {size_bytes} bytes, less than its index of {count} chunks")
    at_start = codec.settings.get("index_location", "end") == "start"
    file.seek(offset if at_start else offset + size_bytes - index_bytes)
    index = file.read(index_bytes)
    if len(index) < index_bytes:
        raise DamagedError("ends inside its index")
    if has_checksum and crc32c.compute(index[:-4]) != int.from_bytes(index[-4:], "little"):
        raise DamagedError("fails the checksum of its index")
    for start, length in struct.iter_unpack("<QQ", index[: 16 * count]):
        if start == _MISSING_SUBCHUNK and length == _MISSING_SUBCHUNK:
            continue
        if start + length > size_bytes:
            raise DamagedError("has an index that names what lies behind its end")
        yield inner, start, length
