"""numpy's .npy and .npz files whose names show the progress of a run; all others are data.

Layout: numpy's lib/format.py. An .npz file is a zip archive of .npy files.
"""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from struct import Struct
from typing import Any

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.encodings import hdf5_zeros
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.numpy_type import item_bytes
from ckptd.checkpoints.formats.encodings.pickle_reader import read_pickle
from ckptd.checkpoints.formats.encodings.zip_archive import ZipArchive, read_zip
from ckptd.checkpoints.formats.facts import StateFacts, examine_state, find_facts, plain_number
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.state_walk import add_role_signs, find_role
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_MAGIC = b"\x93NUMPY"
_ROLLING = frozenset({"current", "last", "latest", "newest"})  # one file that each save overwrites
_HEADER_LIMIT = 1 << 16
_OBJECTS_LIMIT = 64 << 20
_SCALARS = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q"} | {
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
}


@dataclass(frozen=True, slots=True)
class NumpyHeader:
    """The header of an array. `size_bytes` is None if a pickle of objects follows."""

    start: int
    shape: tuple[int, ...]
    dtype: Any
    size_bytes: int | None


class NumpyFile:
    name = "numpy"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        others: list[Claim] = []
        saved: set[int | None] = set()
        for suffix in ("npy", "npz"):
            for file in directory.by_suffix.get(suffix, ()):
                claim = checkpoint_names.claim_file(self.name, file)
                if _may_be_checkpoint(claim):
                    saved.add(checkpoint_names.counting_number(file.name))
                    yield claim
                elif checkpoint_names.is_called_companion(file.name):
                    others.append(claim)
        for claim in others:  # `optim_10.npz` is a part of the save that left `model_10.npz`, and nothing by itself
            number = checkpoint_names.counting_number(claim.files[0].name)
            if number is not None and number in saved:
                yield claim
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            if base.lower().endswith((".npy", ".npz")):
                yield checkpoint_names.claim_file(self.name, file, base=base, temporary=reason)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        with reader.open(claim.files[0].path) as file:
            content = FileSlice.whole(file)
            if content.size_bytes == 0:
                raise DamagedError("the file is empty")
            if content.read(0, min(4, content.size_bytes)) == b"PK\x03\x04" or ".npz" in claim.path.lower():
                return _examine_archive(read_zip(content), level)
            return _examine_array(content, level)


def _may_be_checkpoint(claim: Claim) -> bool:
    return (
        claim.name_epoch is not None
        or claim.name_step is not None
        or bool(claim.is_best)
        or checkpoint_names.is_called_checkpoint(claim.path.rpartition("/")[2])
        or checkpoint_names.is_called_member(claim.path.rpartition("/")[2])
        or PurePosixPath(claim.path).stem.lower() in _ROLLING
    )


def read_header(head: bytes) -> NumpyHeader:
    """Read the header of an array.

    Raises:
        DamagedError: it is none of numpy's.

    """
    if not head.startswith(_MAGIC) or len(head) < 12:
        raise DamagedError("no array of numpy: its magic bytes are not there")
    width = 2 if head[6] == 1 else 4
    start = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
    if start > len(head):
        raise DamagedError("cut off: an array's header is not whole")
    try:
        fields = ast.literal_eval(head[8 + width : start].decode("latin-1").strip())
        shape, dtype = fields["shape"], fields["descr"]
    except (ValueError, SyntaxError, RecursionError, MemoryError, KeyError, TypeError) as error:
        raise DamagedError("an array's header is garbled") from error
    if not isinstance(shape, tuple) or not all(isinstance(side, int) and side >= 0 for side in shape):
        raise DamagedError("an array's header has no shape")
    size_bytes = item_bytes(dtype)
    return NumpyHeader(start, shape, dtype, None if size_bytes is None else size_bytes * math.prod(shape))


def _examine_array(content: FileSlice, level: Level) -> Examination:
    header = read_header(content.read(0, min(_HEADER_LIMIT, content.size_bytes)))
    if header.size_bytes is None:
        objects = content.part(header.start, content.size_bytes - header.start)
        pickle = read_pickle(objects.stream(), size_bytes=objects.size_bytes, start=header.start)
        return examine_state(find_facts(pickle.value), find_role(pickle.value), pickle.unsafe)
    content.part(header.start, header.size_bytes)
    doubt = _find_doubt(content, header) if level is Level.FULL else None
    state = CheckpointState.UNKNOWN if doubt else CheckpointState.COMPLETE
    return Examination(state=state, reason=doubt).shown_as(roles.ONE_ARRAY)


def _find_doubt(content: FileSlice, header: NumpyHeader) -> str | None:
    for _ in content.blocks():
        pass  # every byte must be readable
    code = header.dtype if isinstance(header.dtype, str) else "?"
    kind = code[1] if code[0] in "<|=" else "?"
    size_bytes = header.size_bytes or 0
    item = max(1, item_bytes(header.dtype) or 1)
    extent = hdf5_zeros.Extent("the array", header.start, size_bytes, item, kind)
    return hdf5_zeros.find_doubt(content.file, content.size_bytes, [extent])


def _examine_archive(archive: ZipArchive, level: Level) -> Examination:
    archive.check_headers()
    state: dict[str, Any] = {}
    signs = roles.RoleSigns()
    unsafe: set[str] = set()
    for name, entry in archive.entries.items():
        if not name.endswith(".npy"):
            continue
        head = archive.read_head(name, min(_HEADER_LIMIT, entry.size_bytes))
        header = read_header(head)
        if header.size_bytes is None:
            pickle = read_pickle(archive.read(name, _OBJECTS_LIMIT)[header.start :])
            unsafe.update(pickle.unsafe)
            add_role_signs(signs, {name.removesuffix(".npy"): pickle.value})
        elif header.start + header.size_bytes != entry.size_bytes:
            raise DamagedError(f"its array {name!r} has not the size that it declares")
        elif math.prod(header.shape) == 1:
            state[name.removesuffix(".npy")] = number = _scalar(header, head)
            signs.add_counter(name.removesuffix(".npy"), number)
        if header.size_bytes is not None and header.shape:
            signs.add_array(name.removesuffix(".npy"))

    def check() -> bool:
        if level is Level.FULL:
            archive.check_content()
        return archive.has_checksums

    return examine_state(find_facts(state) if state else StateFacts(), signs.decide(), tuple(sorted(unsafe)), check)


def _scalar(header: NumpyHeader, head: bytes) -> float | int | None:
    code = header.dtype if isinstance(header.dtype, str) else ""
    letter = _SCALARS.get(code[1:])
    if letter is None or header.size_bytes is None:
        return None
    data = head[header.start : header.start + header.size_bytes]
    if len(data) != header.size_bytes:
        return None  # its header is unusually long, and the number lies beyond the bytes that were read
    return plain_number(Struct((">" if code[0] == ">" else "<") + letter).unpack(data)[0])
