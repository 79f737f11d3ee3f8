"""Reads TensorStore's OCDBT databases, in which Orbax keeps its arrays: a manifest and a B+tree in data files.

Source of the layout: https://google.github.io/tensorstore/kvstore/ocdbt/#storage-format. Manifest and tree nodes are
under a CRC-32C each; values that lie outside of nodes are under none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ckptd.checkpoints.formats.encodings import crc32c, zstd_stream
from ckptd.checkpoints.formats.encodings.protobuf import read_varint
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import File

MANIFEST = "manifest.ocdbt"
_MANIFEST_MAGIC = bytes.fromhex("0cdb3a2a")
_NODE_MAGIC = bytes.fromhex("0cdb20de")
_HEADER_BYTES = 14
_FOOTER_BYTES = 4
_MAX_MANIFEST_BYTES = 64 << 20
_MAX_NODE_BYTES = 256 << 20
_MAX_NODES = 100_000
_MAX_HEIGHT = 32
_ABSENT = 2**64 - 1


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value that lies in a data file. `path` is relative to the database."""

    path: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _ChildNode:
    """A node to read: where it lies, what its keys begin with, and what the paths in it are relative to."""

    place: StoredValue
    base: str
    prefix: bytes
    height: int


class UnsupportedError(Exception):
    """The database is of a kind that is not read here."""


@dataclass
class _Cursor:
    """Reads the columns of a decompressed manifest or node."""

    data: bytes
    position: int = 0

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value, self.position = read_varint(self.data, self.position)
        return value

    def varints(self, count: int) -> list[int]:
        self.check_count(count)
        return [self.varint() for _ in range(count)]

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.position:
            raise DamagedError("ends inside a field")
        self.position += count
        return self.data[self.position - count : self.position]

    def check_count(self, count: int) -> None:
        if count > len(self.data) - self.position:
            raise DamagedError(f"states {count} entries in {len(self.data)} bytes")


@dataclass
class OcdbtDatabase:
    """One database: its files by their paths relative to it."""

    files: Mapping[str, File]
    reader: Reader
    checks_older_versions: bool = False  # whether the files must also hold what the newest version does without
    nodes_read: int = field(default=0, init=False)
    bytes_read: int = field(default=0, init=False)

    def read_entries(self) -> Iterator[tuple[str, bytes | StoredValue]]:
        """Yield each key with its value, or with the place of the value, which lies within its file.

        Raises:
            DamagedError: manifest, a node or a data file is missing, cut off or fails its checksum.
            UnsupportedError: the manifest is split into numbered files.
            TooLargeError: the tree is larger than any that is read here.

        """
        versions = self._read_manifest()
        pending = [version for version in versions[-1:] if version.place.offset != _ABSENT]
        if self.checks_older_versions:
            for version in versions[:-1]:
                if version.place.offset != _ABSENT and version.place.path in self.files:
                    self._check_place(version.place)
        while pending:
            node = pending.pop()
            try:
                children, entries = self._read_node(node)
            except DamagedError as error:
                raise DamagedError(f"a tree node in {node.place.path!r} {error}") from error
            pending.extend(children)
            for key, value in entries:
                if isinstance(value, StoredValue):
                    self._check_place(value)
                yield key.decode("utf-8", "surrogateescape"), value

    def _read_manifest(self) -> list[_ChildNode]:
        file = self.files.get(MANIFEST)
        if file is None:
            raise DamagedError(f"{MANIFEST} is missing")
        if file.size_bytes > _MAX_MANIFEST_BYTES:
            raise TooLargeError(f"{MANIFEST} has {file.size_bytes} bytes")
        data = self.reader.read_whole(file.path, _MAX_MANIFEST_BYTES)
        try:
            return _parse_manifest(_Cursor(_open_envelope(data, _MANIFEST_MAGIC)))
        except DamagedError as error:
            raise DamagedError(f"{MANIFEST} {error}") from error

    def _check_place(self, place: StoredValue) -> File:
        file = self.files.get(place.path)
        if file is None:
            raise DamagedError(f"the data file {place.path!r} is missing")
        if place.offset + place.size_bytes > file.size_bytes:
            raise DamagedError(f"the data file {place.path!r} ends before what its index says")
        return file

    def _read_node(self, node: _ChildNode) -> tuple[list[_ChildNode], list[tuple[bytes, bytes | StoredValue]]]:
        file = self._check_place(node.place)
        self.nodes_read += 1
        self.bytes_read += node.place.size_bytes
        if self.nodes_read > _MAX_NODES or self.bytes_read > _MAX_NODE_BYTES:
            raise TooLargeError(f"its tree has more than {_MAX_NODES} nodes or {_MAX_NODE_BYTES} bytes")
        with self.reader.open(file.path) as opened:
            opened.seek(node.place.offset)
            data = opened.read(node.place.size_bytes)
        cursor = _Cursor(_open_envelope(data, _NODE_MAGIC))
        height = cursor.byte()
        if height != node.height:
            raise DamagedError(f"has height {height} where {node.height} was expected")
        table = _read_file_table(cursor, node.base)
        count = cursor.varint()
        if height:
            return _read_children(cursor, count, table, node), []
        return [], _read_values(cursor, count, table, node.prefix)


def _open_envelope(data: bytes, magic: bytes) -> bytes:
    """Check header and checksum of a manifest or node, and return its decompressed body."""
    if len(data) < _HEADER_BYTES + _FOOTER_BYTES or data[:4] != magic:
        raise DamagedError("does not begin with its magic number")
    length = int.from_bytes(data[4:12], "little")
    if length != len(data):
        raise DamagedError(f"has {len(data)} bytes, its header states {length}")
    if crc32c.compute(data[:-_FOOTER_BYTES]) != int.from_bytes(data[-_FOOTER_BYTES:], "little"):
        raise DamagedError("fails its checksum")
    if data[12] != 0 or data[13] > 1:
        raise DamagedError(f"has the unknown version {data[12]} or compression {data[13]}")
    body = data[_HEADER_BYTES:-_FOOTER_BYTES]
    return zstd_stream.decompress(body, _MAX_NODE_BYTES) if data[13] else body


def _parse_manifest(cursor: _Cursor) -> list[_ChildNode]:
    """Return the roots of the versions that the manifest names itself, the newest last; an empty one has no root."""
    cursor.take(16)  # its identifier
    if cursor.varint() != 0:
        raise UnsupportedError("its manifest is split into numbered files, which are not read here")
    cursor.varint()
    cursor.varint()
    cursor.byte()
    if cursor.varint() == 1:
        cursor.take(4)
    table = _read_file_table(cursor, "")
    count = cursor.varint()
    cursor.varints(count)  # generations
    heights = list(cursor.take(count))
    ids, offsets, lengths = (cursor.varints(count) for _ in range(3))
    versions = []
    for row in range(count):
        path, base = _look_up(table, ids[row])
        versions.append(
            _ChildNode(StoredValue(path, offsets[row], lengths[row]), base, b"", min(heights[row], _MAX_HEIGHT))
        )
    return versions


def _read_file_table(cursor: _Cursor, transitive: str) -> list[tuple[str, str]]:
    """Return path and base path of each data file that is named."""
    paths = []
    prefixes, suffixes, bases = _read_lengths(cursor, cursor.varint(), 1)
    path = b""
    for prefix, suffix, base in zip(prefixes, suffixes, bases, strict=True):
        path = _join_key(path, prefix, cursor.take(suffix))
        if len(path) > 65535 or base > len(path):
            raise DamagedError("names a data file of an impossible length")
        text = path.decode("utf-8", "surrogateescape")
        paths.append((transitive + text, transitive + path[:base].decode("utf-8", "surrogateescape")))
    return paths


def _read_lengths(cursor: _Cursor, count: int, further: int) -> list[list[int]]:
    """Return the columns of shared and own key lengths, then as many further columns, of `count` rows."""
    cursor.check_count(count)
    columns = [[0, *cursor.varints(count - 1)] if count else []]
    columns.extend(cursor.varints(count) for _ in range(1 + further))
    return columns


def _join_key(previous: bytes, shared: int, own: bytes) -> bytes:
    if shared > len(previous):
        raise DamagedError("has a key that shares more than there is")
    return previous[:shared] + own


def _look_up(table: list[tuple[str, str]], number: int) -> tuple[str, str]:
    if number >= len(table):
        raise DamagedError(f"names data file {number} of {len(table)}")
    return table[number]


def _read_children(cursor: _Cursor, count: int, table: list[tuple[str, str]], node: _ChildNode) -> list[_ChildNode]:
    prefixes, suffixes, common = _read_lengths(cursor, count, 1)
    keys = []
    key = b""
    for prefix, suffix in zip(prefixes, suffixes, strict=True):
        key = _join_key(key, prefix, cursor.take(suffix))
        keys.append(key)
    ids, offsets, lengths = (cursor.varints(count) for _ in range(3))
    children = []
    for row in range(count):
        path, base = _look_up(table, ids[row])
        place = StoredValue(path, offsets[row], lengths[row])
        children.append(_ChildNode(place, base, node.prefix + keys[row][: common[row]], node.height - 1))
    return children


def _read_values(
    cursor: _Cursor, count: int, table: list[tuple[str, str]], prefix: bytes
) -> list[tuple[bytes, bytes | StoredValue]]:
    prefixes, suffixes = _read_lengths(cursor, count, 0)
    keys = []
    key = b""
    for shared, own in zip(prefixes, suffixes, strict=True):
        key = _join_key(key, shared, cursor.take(own))
        keys.append(prefix + key)
    lengths, kinds = (cursor.varints(count) for _ in range(2))
    indirect = [row for row in range(count) if kinds[row]]
    ids, offsets = (cursor.varints(len(indirect)) for _ in range(2))
    values: dict[int, bytes | StoredValue] = {
        row: StoredValue(_look_up(table, number)[0], offset, lengths[row])
        for row, number, offset in zip(indirect, ids, offsets, strict=True)
    }
    for row in range(count):
        if not kinds[row]:
            values[row] = cursor.take(lengths[row])
    return [(keys[row], values[row]) for row in range(count)]
