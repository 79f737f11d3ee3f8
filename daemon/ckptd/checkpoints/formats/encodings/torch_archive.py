"""Reads and checks the zip archives that torch.save writes, without torch; several formats consist of them.

Layout: PyTorch's caffe2/serialize/inline_container.cc and torch/serialization.py. All entries of an
archive lie in one directory of any name: `data.pkl`, `version`, `byteorder`, and `data/KEY` for each storage. Storages
are never compressed. The pickle declares their sizes in its persistent ids ("storage", type, KEY, device, count).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.pickle_reader import Pickle, read_pickle
from ckptd.checkpoints.formats.encodings.pickle_values import Global, Opaque, Persistent
from ckptd.checkpoints.formats.encodings.zip_archive import STORED, ZipArchive, read_zip
from ckptd.checkpoints.formats.facts import plain_number
from ckptd.checkpoints.formats.interface import DamagedError, TooLargeError

_PICKLE_LIMIT = 1 << 30
_LOCAL_HEADER = Struct("<4s5H3L2H")
_BYTE_ORDERS = {b"little": "<", b"big": ">"}
_BYTE_ORDER_BYTES = 8

# bytes of one element, and how struct unpacks it where it can
ELEMENTS: dict[str, tuple[int, str | None]] = {
    "DoubleStorage": (8, "d"),
    "FloatStorage": (4, "f"),
    "HalfStorage": (2, "e"),
    "BFloat16Storage": (2, None),
    "LongStorage": (8, "q"),
    "IntStorage": (4, "i"),
    "ShortStorage": (2, "h"),
    "CharStorage": (1, "b"),
    "ByteStorage": (1, "B"),
    "BoolStorage": (1, "?"),
    "ComplexDoubleStorage": (16, None),
    "ComplexFloatStorage": (8, None),
    "QUInt8Storage": (1, None),
    "QInt8Storage": (1, None),
    "QInt32Storage": (4, None),
    "QUInt4x2Storage": (1, None),
    "QUInt2x4Storage": (1, None),
    "UntypedStorage": (1, None),
    "_UntypedStorage": (1, None),
}


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage, the bytes of one or more tensors, as the pickle declares it."""

    key: str
    kind: str
    count: int

    @property
    def size_bytes(self) -> int | None:
        """Its size on disk; None if its type is unknown."""
        element = ELEMENTS.get(self.kind)
        return None if element is None else self.count * element[0]


@dataclass(frozen=True, slots=True)
class TorchArchive:
    """An open archive and the content of its pickle."""

    archive: ZipArchive
    prefix: str  # of its entries' names, with its slash
    pickle: Pickle
    is_script: bool

    @property
    def state(self) -> Any:
        return self.pickle.value

    @property
    def unsafe(self) -> tuple[str, ...]:
        return self.pickle.unsafe

    def check_structure(self) -> None:
        """Check the sizes of all storages, the byte order and the headers of all entries.

        Raises:
            DamagedError: a storage is missing or has another size than the pickle declares, or a header is wrong.

        """
        for storage in storages_of(self.pickle):
            name = f"{self.prefix}data/{storage.key}"
            entry = self.archive.entries.get(name)
            if entry is None:
                raise DamagedError(f"its storage {storage.key!r} is missing")
            if entry.method != STORED:
                raise DamagedError(f"its storage {storage.key!r} is compressed, which torch never does")
            if storage.size_bytes not in {None, entry.size_bytes}:
                raise DamagedError(
                    f"its storage {storage.key!r} has {entry.size_bytes} bytes, {storage.size_bytes} are declared"
                )
        if self._byte_order() not in _BYTE_ORDERS:
            raise DamagedError("its entry 'byteorder' is neither little nor big, which torch.load refuses")
        self.archive.check_headers()

    def _byte_order(self) -> bytes:
        """Return the entry `byteorder`; archives of torch before 2.1 have none and are little-endian."""
        name = f"{self.prefix}byteorder"
        return self.archive.read_head(name, _BYTE_ORDER_BYTES) if name in self.archive.entries else b"little"

    def check_full(self) -> bool:
        """Read all bytes and check their CRC-32; return whether the archive has checksums.

        Raises:
            DamagedError: a CRC-32 does not match.

        """
        self.archive.check_content()
        return self.archive.has_checksums

    def number(self, value: Any) -> float | int | None:
        """Convert a number or a tensor of one element to a number; None for other values."""
        found = _scalar(value)
        if found is None:
            return plain_number(value)
        storage, offset = found
        size_bytes, code = ELEMENTS.get(storage.kind, (0, None))
        if code is None:
            return None
        try:
            data = self.archive.data_of(f"{self.prefix}data/{storage.key}").read(offset * size_bytes, size_bytes)
            order = _BYTE_ORDERS[self._byte_order()]
        except (DamagedError, KeyError):
            return None
        return plain_number(Struct(order + code).unpack(data)[0])


def read_torch_archive(content: FileSlice) -> TorchArchive:
    """Read the list of entries and the pickle of an archive, but no storages.

    Raises:
        DamagedError: torch did not write it, or it is damaged.
        TooLargeError: the list or the pickle needs more memory than allowed.

    """
    archive = read_zip(content)
    prefix = find_prefix(archive)
    if prefix is None:
        raise DamagedError("a zip archive, but none that torch wrote: it holds no data.pkl")
    name = f"{prefix}data.pkl"
    data = archive.data_of(name)
    if archive.entries[name].method == STORED:
        pickle = read_pickle(data.stream(), size_bytes=data.size_bytes)
    else:
        pickle = read_pickle(archive.read(name, 64 << 20))
    is_script = f"{prefix}constants.pkl" in archive.entries
    return TorchArchive(archive, prefix, pickle, is_script)


def read_beginning(content: FileSlice) -> Pickle | None:
    """Read the pickle of an archive whose end, and so its list of entries, is missing; None if that is impossible.

    torch.save writes `data.pkl` first, so it is usually complete in a truncated file.
    """
    try:
        magic, _, _, method, *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(content.read(0, _LOCAL_HEADER.size))
        start = _LOCAL_HEADER.size + name_bytes + extra_bytes
        if (
            magic != b"PK\x03\x04"
            or method != STORED
            or not content.read(0, start)[: -extra_bytes or None].endswith(b"/data.pkl")
        ):
            return None
        rest = content.part(start, content.size_bytes - start)
        return read_pickle(rest.stream(), size_bytes=rest.size_bytes, start=start)
    except (DamagedError, TooLargeError):
        return None


def find_prefix(archive: ZipArchive) -> str | None:
    """Return the directory of `data.pkl`, with its slash; None if the archive has no such entry.

    Raises:
        DamagedError: it has several.

    """
    found = [
        name.removesuffix("data.pkl")
        for name in archive.entries
        if name.endswith("/data.pkl") and name.count("/") == 1 and not name.startswith("..")
    ]
    if len(found) > 1:
        raise DamagedError("several archives in one: " + ", ".join(sorted(found)[:3]))
    return found[0] if found else None


def storages_of(pickle: Pickle) -> Iterator[Storage]:
    """Yield the storages that the pickle of an archive declares.

    Raises:
        DamagedError: a persistent id declares no storage.

    """
    for pid in pickle.persistent_ids:
        storage = _storage(pid)
        if storage is None:
            raise DamagedError("a persistent id in its pickle names no storage")
        yield storage


def _storage(pid: Any) -> Storage | None:
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], Global):
        return None
    key, count = pid[2], pid[4]
    if not isinstance(key, str) or not isinstance(count, int) or count < 0:
        return None
    return Storage(key, pid[1].name, count)


def _scalar(value: Any) -> tuple[Storage, int] | None:
    """Return the storage and the offset in elements of a tensor of one element; None for other values."""
    while isinstance(value, Opaque) and value.name == "_rebuild_parameter":
        if not isinstance(value.args, tuple) or not value.args:
            return None
        value = value.args[0]
    if not isinstance(value, Opaque) or value.name not in {"_rebuild_tensor", "_rebuild_tensor_v2"}:
        return None
    args = value.args
    if not isinstance(args, tuple) or len(args) < 3 or not isinstance(args[0], Persistent):
        return None
    offset, shape = args[1], args[2]
    if not isinstance(offset, int) or offset < 0 or not isinstance(shape, tuple) or any(side != 1 for side in shape):
        return None
    storage = _storage(args[0].pid)
    return None if storage is None else (storage, offset)
