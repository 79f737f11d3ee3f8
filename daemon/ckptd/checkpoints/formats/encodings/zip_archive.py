"""Reads the central directory of a zip archive and checks its entries, for all formats that are zip archives.

The standard library's zipfile accepts two entries of one name, trusts declared sizes and reads local headers only on
use. This module reports contradictions of that kind as damage. It never extracts an entry to a path.
Layout: PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.3.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from zlib_ng import zlib_ng

from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

_END = Struct("<4s4H2LH")
_END64_LOCATOR = Struct("<4sLQL")
_END64 = Struct("<4sQ2H2L4Q")
_CENTRAL = Struct("<4s6H3L5H2L")
_LOCAL = Struct("<4s5H3L2H")
_DIRECTORY_LIMIT = 256 << 20
_HEADERS_CHECKED = 4096  # of more entries than this, only those that are read have their local headers checked
STORED, DEFLATED = 0, 8


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """One entry of the central directory."""

    name: str
    method: int
    crc: int
    compressed_bytes: int
    size_bytes: int
    header_at: int


@dataclass(frozen=True, slots=True)
class ZipArchive:
    content: FileSlice
    entries: dict[str, ZipEntry]
    directory_at: int

    @property
    def has_checksums(self) -> bool:
        """Whether any entry that is not empty has a CRC-32."""
        return any(entry.crc for entry in self.entries.values() if entry.size_bytes)

    def data_of(self, name: str) -> FileSlice:
        """Return the stored, perhaps compressed, bytes of an entry.

        Raises:
            DamagedError: the entry is missing, or its local header contradicts the central directory.

        """
        entry = self.entries.get(name)
        if entry is None:
            raise DamagedError(f"its entry {name!r} is missing")
        header = self.content.read(entry.header_at, _LOCAL.size)
        magic, *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
        if magic != b"PK\x03\x04":
            raise DamagedError(f"no entry begins at byte {entry.header_at}, where {name!r} should")
        start = entry.header_at + _LOCAL.size + name_bytes + extra_bytes
        if start + entry.compressed_bytes > self.directory_at:
            raise DamagedError(f"its entry {name!r} runs into the directory")
        return self.content.part(start, entry.compressed_bytes)

    def read(self, name: str, limit: int) -> bytes:
        """Return the decompressed content of an entry.

        Raises:
            DamagedError: it is missing, or does not decompress to its declared size.
            TooLargeError: it is larger than `limit` bytes.

        """
        data = self.data_of(name)
        entry = self.entries[name]
        if max(entry.size_bytes, data.size_bytes) > limit:
            raise TooLargeError(f"its entry {name!r} is larger than its reader may hold")
        raw = data.read(0, data.size_bytes)
        if entry.method == STORED:
            return raw
        try:
            content = zlib.decompressobj(-15).decompress(raw, limit)
        except zlib.error as error:
            raise DamagedError(f"its entry {name!r} does not decompress: {error}") from error
        if len(content) != entry.size_bytes:
            raise DamagedError(f"its entry {name!r} has {len(content)} bytes and declares {entry.size_bytes}")
        return content

    def read_head(self, name: str, count: int) -> bytes:
        """Return the first `count` decompressed bytes of an entry, fewer if it is shorter.

        Raises:
            DamagedError: it is missing or does not decompress.

        """
        data = self.data_of(name)
        if self.entries[name].method == STORED:
            return data.read(0, min(count, data.size_bytes))
        try:
            return zlib.decompressobj(-15).decompress(data.read(0, min(count + 1024, data.size_bytes)), count)
        except zlib.error as error:
            raise DamagedError(f"its entry {name!r} does not decompress: {error}") from error

    def check_headers(self) -> None:
        """Check that every entry begins where the directory says."""
        if len(self.entries) <= _HEADERS_CHECKED:
            for name in self.entries:
                self.data_of(name)

    def check_content(self) -> None:
        """Read all entries and check their CRC-32.

        Raises:
            DamagedError: a CRC-32 does not match, or an entry does not decompress to its declared size.

        """
        for name, entry in self.entries.items():
            crc, size_bytes = (_check_stored if entry.method == STORED else _check_deflated)(self.data_of(name), entry)
            if size_bytes != entry.size_bytes:
                raise DamagedError(f"its entry {name!r} has {size_bytes} bytes and declares {entry.size_bytes}")
            if crc != entry.crc and self.has_checksums:
                raise DamagedError(f"the bytes of its entry {name!r} do not match their CRC-32")


def _check_stored(data: FileSlice, entry: ZipEntry) -> tuple[int, int]:  # noqa: ARG001 - one signature for both
    crc, count = 0, 0
    crc32: Callable[[memoryview, int], int] = zlib_ng.crc32
    for block in data.blocks():
        crc = crc32(block, crc)
        count += len(block)
    return crc, count


def _check_deflated(data: FileSlice, entry: ZipEntry) -> tuple[int, int]:
    stream = zlib.decompressobj(-15)
    crc, count = 0, 0
    try:
        for block in data.blocks():
            pending: bytes | memoryview = block
            while pending and count <= entry.size_bytes:
                piece = stream.decompress(pending, 1 << 20)
                crc = zlib_ng.crc32(piece, crc)
                count += len(piece)
                pending = stream.unconsumed_tail
    except zlib.error as error:
        raise DamagedError(f"its entry {entry.name!r} does not decompress: {error}") from error
    return crc, count


def read_zip(content: FileSlice) -> ZipArchive:
    """Read the central directory of an archive that ends where its slice ends.

    Raises:
        DamagedError: it is cut off, or its directory contradicts itself or the size of the archive.
        TooLargeError: the directory needs more memory than allowed.

    """
    count, size_bytes, offset = _find_directory(content)
    if size_bytes > _DIRECTORY_LIMIT:
        raise TooLargeError("its zip directory is larger than its reader may hold")
    directory = content.read(offset, size_bytes)
    entries: dict[str, ZipEntry] = {}
    at = 0
    for _ in range(count):
        if at + _CENTRAL.size > len(directory):
            raise DamagedError(f"its zip directory ends after {len(entries)} of {count} entries")
        entry, at = _read_entry(directory, at)
        if entry.name in entries:
            raise DamagedError(f"two entries are named {entry.name!r}")
        if entry.method not in {STORED, DEFLATED}:
            raise DamagedError(f"its entry {entry.name!r} is compressed by unknown method {entry.method}")
        if entry.header_at + _LOCAL.size + entry.compressed_bytes > offset:
            raise DamagedError(
                f"its entry {entry.name!r} declares {entry.compressed_bytes} bytes and they are not there"
            )
        if entry.method == STORED and entry.size_bytes != entry.compressed_bytes:
            raise DamagedError(f"its entry {entry.name!r} declares {entry.size_bytes} bytes and holds others")
        entries[entry.name] = entry
    if sum(entry.compressed_bytes for entry in entries.values()) > content.size_bytes:
        raise DamagedError("its entries overlap")
    return ZipArchive(content, entries, offset)


def _find_directory(content: FileSlice) -> tuple[int, int, int]:
    """Return the number of entries, the size and the offset of the central directory."""
    tail_bytes = min(content.size_bytes, _END.size + 0xFFFF if content.size_bytes < 1 << 20 else 4096)
    tail = content.read(content.size_bytes - tail_bytes, tail_bytes)
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or found + _END.size > len(tail):
        raise DamagedError("cut off: the central directory at the end of the zip archive is missing")
    _, _, _, _, count, size_bytes, offset, comment_bytes = _END.unpack_from(tail, found)
    if found + _END.size + comment_bytes != len(tail):
        raise DamagedError("what closes the zip archive is not at its end")
    end_at = content.size_bytes - tail_bytes + found
    if count == 0xFFFF or 0xFFFFFFFF in {size_bytes, offset}:
        count, size_bytes, offset, end_at = _read_end64(content, end_at - _END64_LOCATOR.size)
    if offset + size_bytes > end_at:
        raise DamagedError("its zip directory does not fit in front of its end")
    return count, size_bytes, offset


def _read_end64(content: FileSlice, locator_at: int) -> tuple[int, int, int, int]:
    if locator_at < 0:
        raise DamagedError("its zip64 locator is missing")
    magic, _, end_at, _ = _END64_LOCATOR.unpack(content.read(locator_at, _END64_LOCATOR.size))
    if magic != b"PK\x06\x07":
        raise DamagedError("its zip64 locator is missing")
    magic, *_, count, size_bytes, offset = _END64.unpack(content.read(end_at, _END64.size))
    if magic != b"PK\x06\x06":
        raise DamagedError("its zip64 end record is missing")
    return count, size_bytes, offset, end_at


def _read_entry(directory: bytes, at: int) -> tuple[ZipEntry, int]:
    (
        magic,
        _,
        _,
        _,
        method,
        _,
        _,
        crc,
        compressed_bytes,
        size_bytes,
        name_bytes,
        extra_bytes,
        comment_bytes,
        *_,
        header_at,
    ) = _CENTRAL.unpack_from(directory, at)
    if magic != b"PK\x01\x02":
        raise DamagedError("its zip directory is garbled")
    at += _CENTRAL.size
    name = directory[at : at + name_bytes].decode("utf-8", "backslashreplace")
    wide = _read_extra(directory[at + name_bytes : at + name_bytes + extra_bytes])
    values = []
    for value in (size_bytes, compressed_bytes, header_at):
        if value == 0xFFFFFFFF:
            if not wide:
                raise DamagedError(f"its entry {name!r} declares no size")
            value = wide.pop(0)  # noqa: PLW2901 - the wide value stands for the narrow one
        values.append(value)
    entry = ZipEntry(name, method, crc, values[1], values[0], values[2])
    return entry, at + name_bytes + extra_bytes + comment_bytes


def _read_extra(extra: bytes) -> list[int]:
    """Return the 64-bit values in the zip64 extra field of an entry."""
    at = 0
    while at + 4 <= len(extra):
        kind = int.from_bytes(extra[at : at + 2], "little")
        count = int.from_bytes(extra[at + 2 : at + 4], "little")
        if kind == 1:
            body = extra[at + 4 : at + 4 + count]
            return [int.from_bytes(body[place : place + 8], "little") for place in range(0, len(body) - 7, 8)]
        at += 4 + count
    return []
