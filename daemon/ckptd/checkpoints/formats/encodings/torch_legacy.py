"""Reads the format of torch.save before torch 1.6: several pickles, then the storages up to the end of the file.

Layout: PyTorch's torch/serialization.py, `_legacy_save`: the magic number, the protocol version 1001, a dictionary
about the system, the object, the list of storage keys; then for each key an int64 count of elements and the data.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ckptd.checkpoints.formats import foreign_content
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.pickle_reader import Pickle, read_pickle
from ckptd.checkpoints.formats.encodings.torch_archive import storages_of
from ckptd.checkpoints.formats.facts import examine_state, find_facts, plain_number
from ckptd.checkpoints.formats.interface import DamagedError, Examination
from ckptd.checkpoints.formats.state_walk import find_role

_MAGIC = 0x1950A86A20F9469CFC6C
_MAGIC_BYTES = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
_FRAME = b"\x95"
_ZIP = b"PK\x03\x04"
_PROTOCOL = 1001


def is_legacy(head: bytes) -> bool:
    """Return whether the first 16 bytes are those of this format, even if its magic number is damaged."""
    at = 11 if head[2:3] == _FRAME else 2  # protocols 4 and 5 may put a frame of eight bytes in front
    return head[:1] == b"\x80" and head[at : at + 2] == _MAGIC_BYTES[:2]


def is_torch(head: bytes) -> bool:
    """Return whether the first 16 bytes may be those of a file of torch in any format."""
    return head.startswith(_ZIP) or is_legacy(head)


def resembles_torch(head: bytes) -> bool:
    """Return whether the first bytes may be those of a file of torch, also if one of them is garbled."""
    return head[:1] == b"\x80" or foreign_content.resembles(head, _ZIP)


def is_torch_save(head: bytes) -> bool:
    """Return whether the first 256 bytes show that torch.save wrote a file: its zip archives begin with `data.pkl`."""
    return is_legacy(head) or (head.startswith(_ZIP) and b"/data.pkl" in head)


@dataclass(frozen=True, slots=True)
class TorchLegacy:
    """An open file of this format and the content of its pickles."""

    content: FileSlice
    pickle: Pickle  # of the object
    unsafe: tuple[str, ...]
    keys: tuple[str, ...]
    data_at: int

    @property
    def state(self) -> Any:
        return self.pickle.value

    def check_structure(self) -> None:
        """Check that all storages are there and that the file ends after the last one.

        Raises:
            DamagedError: a storage is missing or cut off, or bytes follow the last one.

        """
        _check_storages(self.content, self.data_at, self.keys, self.pickle)

    def check_full(self) -> bool:
        """Read all bytes; return False, because this format has no checksum."""
        for _ in self.content.blocks():
            pass
        return False

    def number(self, value: Any) -> float | int | None:
        return plain_number(value)


def read_legacy(content: FileSlice) -> TorchLegacy:
    """Read the pickles before the storages.

    Raises:
        DamagedError: one is damaged, or is not the one that the format has there.

    """
    magic, at = _read(content, 0)
    if magic.value != _MAGIC:
        raise DamagedError("the magic number of torch's old format is garbled")
    protocol, at = _read(content, at)
    if protocol.value != _PROTOCOL:
        raise DamagedError(f"protocol {protocol.value} of torch's old format is not known")
    system, at = _read(content, at)
    if not isinstance(system.value, dict):
        raise DamagedError("the description of the system is garbled")
    state, at = _read(content, at)
    keys, at = _read(content, at)
    if not isinstance(keys.value, list) or not all(isinstance(key, str) for key in keys.value):
        raise DamagedError("the list of storages is garbled")
    unsafe = {name for found in (magic, protocol, system, state, keys) for name in found.unsafe}
    return TorchLegacy(content, state, tuple(sorted(unsafe)), tuple(keys.value), at)


def examine_legacy(content: FileSlice) -> Examination:
    """Examine a file of this format; damaged storages are the result, damaged pickles an error.

    Raises:
        DamagedError: a pickle before the storages is damaged.

    """
    found = read_legacy(content)
    return examine_state(find_facts(found.state), find_role(found.state), found.unsafe, found.check_structure)


def examine_plain(content: FileSlice) -> Examination:
    """Examine a plain pickle that has a name of torch's, such as `model.pt`.

    Raises:
        DamagedError: it is damaged.

    """
    found, _ = _read(content, 0)
    return examine_state(find_facts(found.value), find_role(found.value), found.unsafe)


def _read(content: FileSlice, at: int) -> tuple[Pickle, int]:
    rest = content.part(at, content.size_bytes - at)
    found = read_pickle(rest.stream(), size_bytes=rest.size_bytes, start=at)
    return found, found.end


def _check_storages(content: FileSlice, at: int, keys: Iterable[str], state: Pickle) -> None:
    declared = {storage.key: storage for storage in storages_of(state)}
    for key in keys:
        storage = declared.get(key)
        if storage is None or storage.size_bytes is None:
            raise DamagedError(f"its storage {key!r} is not declared")
        count = int.from_bytes(content.read(at, 8), "little", signed=True)
        if count != storage.count:
            raise DamagedError(f"its storage {key!r} has {count} elements, {storage.count} are declared")
        at += 8 + storage.size_bytes
        content.part(at, 0)
    if at != content.size_bytes:
        raise DamagedError(f"{content.size_bytes - at} bytes follow the last storage")
