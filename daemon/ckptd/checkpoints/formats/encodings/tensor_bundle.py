"""Reads the tensor bundles of TensorFlow's V2 checkpoints: an index of all tensors, and shards with their bytes.

Sources: tensorflow/core/protobuf/tensor_bundle.proto and core/util/tensor_bundle. The index is a LevelDB table whose
first key, "", holds the header; every other key is a tensor with its shard, offset, size and masked CRC-32C.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from ckptd.checkpoints.formats.encodings import crc32c, sorted_table
from ckptd.checkpoints.formats.encodings.protobuf import read_fields, read_varint
from ckptd.checkpoints.formats.interface import DamagedError
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import File

DT_FLOAT, DT_DOUBLE, DT_INT32, DT_STRING, DT_INT64, DT_VARIANT = 1, 2, 3, 7, 9, 21
_SIZES = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 8: 8, 9: 8, 10: 1, 14: 2, 17: 2, 18: 16, 19: 2, 22: 4, 23: 8}
_SCALARS = {DT_FLOAT: "f", DT_DOUBLE: "d", DT_INT32: "i", DT_INT64: "q"}
_VALUE_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MAX_INDEX_BLOCK = 64 << 20
_MAX_GRAPH = 64 << 20
_MAX_SCALARS = 256
_MAX_SAMPLE = 1 << 20
_MAX_SHARDS = 99_999  # the names have five digits


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """The place of one tensor, or of one slice of a partitioned tensor, in a shard."""

    key: str
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size_bytes: int
    masked_crc: int
    slice_count: int


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A checked index: each tensor lies within its shard."""

    prefix: str
    shard_count: int
    is_big_endian: bool
    entries: list[BundleEntry] = field(default_factory=list)

    def shard_path(self, shard: int) -> str:
        return f"{self.prefix}.data-{shard:05d}-of-{self.shard_count:05d}"


def read_bundle(prefix: str, files: Mapping[str, File], reader: Reader) -> Bundle:
    """Read the index of a bundle, and check that each tensor lies within its shard.

    `files` are the files of the checkpoint by path. A shard may be longer than its tensors: TensorFlow reads it.

    Raises:
        DamagedError: index or shards are missing, cut off or disagree.
        CompressedError: the index is compressed.

    """
    name = f"{prefix}.index"
    index = files.get(name)
    if index is None:
        raise DamagedError("its index is missing")
    try:
        with reader.open(name) as file:
            table = sorted_table.read_entries(file, index.size_bytes, max_block_bytes=_MAX_INDEX_BLOCK)
            bundle = _parse_index(prefix, table)
    except DamagedError as error:
        raise DamagedError(f"its index {error}") from error
    _check_shards(bundle, files)
    return bundle


def _parse_index(prefix: str, table: Iterable[tuple[bytes, bytes]]) -> Bundle:
    rows = iter(table)
    first = next(rows, None)
    if first is None or first[0] != b"":
        raise DamagedError("has no header")
    header = {number: value for number, value in read_fields(first[1]) if isinstance(value, int)}
    shard_count = header.get(1, 0)
    if not 0 < shard_count <= _MAX_SHARDS:
        raise DamagedError(f"names {shard_count} shards")
    bundle = Bundle(prefix=prefix, shard_count=shard_count, is_big_endian=header.get(2) == 1)
    bundle.entries.extend(_parse_entry(key, value) for key, value in rows)
    return bundle


def _parse_entry(key: bytes, message: bytes) -> BundleEntry:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0, 6: 0}
    shape: tuple[int, ...] = ()
    slice_count = 0
    for number, value in read_fields(message):
        if number == 2 and isinstance(value, bytes):
            shape = _parse_shape(value)
        elif number == 7:
            slice_count += 1
        elif isinstance(value, int):
            numbers[number] = value
    text = key.decode("utf-8", "surrogateescape")
    return BundleEntry(text, numbers[1], shape, numbers[3], numbers[4], numbers[5], numbers[6], slice_count)


def _parse_shape(message: bytes) -> tuple[int, ...]:
    shape = []
    for number, value in read_fields(message):
        if number == 2 and isinstance(value, bytes):
            sizes = [size for inner, size in read_fields(value) if inner == 1 and isinstance(size, int)]
            shape.append(sizes[-1] if sizes else 0)
    return tuple(shape)


def _check_shards(bundle: Bundle, files: Mapping[str, File]) -> None:
    sizes = []
    for shard in range(bundle.shard_count):
        file = files.get(bundle.shard_path(shard))
        if file is None:
            raise DamagedError(f"shard {shard} of {bundle.shard_count} is missing")
        sizes.append(file.size_bytes)
    sliced = stored_slices = 0
    for entry in bundle.entries:
        if entry.shard >= bundle.shard_count:
            raise DamagedError(f"its index puts {entry.key!r} into shard {entry.shard} of {bundle.shard_count}")
        if entry.offset + entry.size_bytes > sizes[entry.shard]:
            raise DamagedError(
                f"shard {entry.shard} ends at byte {sizes[entry.shard]}, before the end of {entry.key!r}"
            )
        sliced += entry.slice_count
        stored_slices += entry.key.startswith("\0")
        _check_shape(entry)
    if stored_slices < sliced:
        raise DamagedError(f"its index has {stored_slices} slices of the {sliced} that its tensors are made of")


def _check_shape(entry: BundleEntry) -> None:
    item_bytes = _SIZES.get(entry.dtype)
    if item_bytes is None or entry.slice_count:
        return
    expected = item_bytes
    for size in entry.shape:
        expected *= size
    if expected != entry.size_bytes and not entry.key.startswith("\0"):
        raise DamagedError(f"its index gives {entry.key!r} {entry.size_bytes} bytes, its shape needs {expected}")


def read_scalars(bundle: Bundle, reader: Reader) -> dict[str, float]:
    """Return the values of scalar variables, such as a step, by the last part of their names.

    Of two variables with the same name, the one with fewer parents wins. Names lose leading underscores and `:0`. If
    a key is only a number, its name comes from the object graph.
    """
    full_names = _read_full_names(bundle, reader)
    candidates: list[tuple[int, str, BundleEntry]] = []
    for entry in bundle.entries:
        if entry.shape or entry.dtype not in _SCALARS or entry.size_bytes != _SIZES[entry.dtype]:
            continue
        path = entry.key.removesuffix(_VALUE_SUFFIX)
        if path.rpartition("/")[2].isdigit():
            path = full_names.get(entry.key, path)
        name = path.rpartition("/")[2].partition(":")[0].lstrip("_")
        candidates.append((path.count("/"), name, entry))
    candidates.sort(key=lambda found: found[0])
    values: dict[str, float] = {}
    order = ">" if bundle.is_big_endian else "<"
    for _, name, entry in candidates[:_MAX_SCALARS]:
        if name not in values:
            with reader.open(bundle.shard_path(entry.shard)) as file:
                file.seek(entry.offset)
                (values[name],) = struct.unpack(order + _SCALARS[entry.dtype], _read_exactly(file, entry.size_bytes))
    return values


def _read_full_names(bundle: Bundle, reader: Reader) -> dict[str, str]:
    """Return the full names of variables by their keys, from the object graph (trackable_object_graph.proto)."""
    graph = next((entry for entry in bundle.entries if entry.key == _GRAPH_KEY), None)
    if graph is None or not 5 <= graph.size_bytes <= _MAX_GRAPH:
        return {}
    with reader.open(bundle.shard_path(graph.shard)) as file:
        file.seek(graph.offset)
        data = _read_exactly(file, graph.size_bytes)
    try:
        size, position = read_varint(data, 0)
        return dict(_parse_graph(data[position + 4 : position + 4 + size]))
    except DamagedError:
        return {}  # its bytes are under a checksum, which level full compares


def _parse_graph(message: bytes) -> Iterable[tuple[str, str]]:
    for number, node in read_fields(message):
        if number != 1 or not isinstance(node, bytes):
            continue
        for inner, attribute in read_fields(node):
            if inner == 2 and isinstance(attribute, bytes):
                texts = dict(read_fields(attribute))
                key, full_name = texts.get(3), texts.get(2)
                if isinstance(key, bytes) and isinstance(full_name, bytes):
                    yield key.decode("utf-8", "surrogateescape"), full_name.decode("utf-8", "surrogateescape")


def check_samples(bundle: Bundle, reader: Reader) -> None:
    """Check the checksums of the first and the last tensor of each shard, among those of at most 1 MiB.

    Lost writes leave zeros in a whole shard or at its end.

    Raises:
        DamagedError: a checksum does not match.

    """
    by_shard: dict[int, list[BundleEntry]] = {}
    for entry in bundle.entries:
        if 0 < entry.size_bytes <= _MAX_SAMPLE and entry.dtype != DT_VARIANT:
            by_shard.setdefault(entry.shard, []).append(entry)
    for shard, entries in by_shard.items():
        entries.sort(key=lambda entry: entry.offset)
        with reader.open(bundle.shard_path(shard)) as file:
            for entry in (entries[0], *entries[1:][-1:]):
                _check_entry(file, entry)


def check_data(bundle: Bundle, reader: Reader) -> bool:
    """Check the checksums of all tensors; return False if some tensors have none that ckptd can compute.

    Raises:
        DamagedError: a checksum does not match.

    """
    all_checked = True
    for shard in range(bundle.shard_count):
        entries = sorted((entry for entry in bundle.entries if entry.shard == shard), key=lambda entry: entry.offset)
        with reader.open(bundle.shard_path(shard)) as file:
            for entry in entries:
                if entry.dtype == DT_VARIANT:
                    all_checked = False
                elif entry.size_bytes:
                    _check_entry(file, entry)
    return all_checked


def _check_entry(file: BinaryIO, entry: BundleEntry) -> None:
    if crc32c.mask(_compute(file, entry)) != entry.masked_crc:
        raise DamagedError(f"the data of {entry.key!r} fail their checksum")


def _compute(file: BinaryIO, entry: BundleEntry) -> int:
    if entry.dtype != DT_STRING:
        return crc32c.compute_range(file, entry.offset, entry.size_bytes)
    return _compute_strings(file, entry)


def _compute_strings(file: BinaryIO, entry: BundleEntry) -> int:
    """Return the CRC-32C of a tensor of strings: of their lengths, of the checksum of these, and of the bytes."""
    count = 1
    for size in entry.shape:
        count *= size
    if count > entry.size_bytes:
        raise DamagedError(f"its index gives {entry.key!r} more strings than bytes")
    file.seek(entry.offset)
    head = file.read(min(entry.size_bytes, 10 * count))
    position = crc = 0
    total = 0
    for _ in range(count):
        length, position = read_varint(head, position)
        crc = crc32c.extend(crc, length.to_bytes(4 if length < 2**32 else 8, "little"))
        total += length
    checksum = crc32c.mask(crc).to_bytes(4, "little")
    if position + 4 + total != entry.size_bytes:
        raise DamagedError(f"the strings of {entry.key!r} do not fill their place")
    file.seek(entry.offset + position)
    if _read_exactly(file, 4) != checksum:
        raise DamagedError(f"the lengths of {entry.key!r} fail their checksum")
    crc = crc32c.extend(crc, checksum)
    while total:
        block = _read_exactly(file, min(total, 1 << 20))
        crc = crc32c.extend(crc, block)
        total -= len(block)
    return crc


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise DamagedError("a shard ends before its index says")
    return data
