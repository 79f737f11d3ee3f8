"""safetensors: a length, a JSON header that places every tensor, and their bytes; no pickle and no checksum.

Layout: u64 little-endian header length, the header, the data; the offsets in the header cover the data without
gap or overlap, exactly to the end of the file (safetensors' own documentation, "Format"). Its writer fills a
temporary file `.tmpXXXXXX` that has its full size from the beginning, and renames it.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from struct import unpack
from typing import Any, BinaryIO, NamedTuple

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import claim_file, list_temporaries
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, examine_parts, read_head
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

HEADER_LIMIT = 100_000_000  # the format's own bound
_TEMPORARY = re.compile(r"\.tmp[A-Za-z0-9]{6}")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?(?:[eE][-+]?\d{1,3})?")
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
_LONG_RUN_BYTES = 4096
_METADATA = b'{"__metadata__":'
_LONGEST_KEPT = 1 << 16  # bytes of a header of which the tensors are kept
_decode_value = json.JSONDecoder().raw_decode
_CHUNK_BYTES = 1 << 20


class Tensor(NamedTuple):
    """One tensor's place; `begin` and `end` count from the first byte of data."""

    name: str
    begin: int
    end: int
    element_bits: int | None


_PLACE = attrgetter("begin", "end")


class SafetensorsHeader(NamedTuple):
    """A header that was checked against the file's size. Tensors are in the order of their bytes."""

    data_start: int
    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]


def read_header(file: BinaryIO, size_bytes: int) -> SafetensorsHeader:
    """Read and check the header of a safetensors file of `size_bytes`.

    Raises:
        DamagedError: it is none, or its offsets do not agree with the file's size.

    """
    if size_bytes == 0:
        raise DamagedError("the file is empty")
    head = file.read(8)
    if len(head) < 8:
        raise DamagedError("it ends within the length of its header")
    (length,) = unpack("<Q", head)
    if length > min(HEADER_LIMIT, size_bytes - 8):
        raise DamagedError(f"its header claims {length} bytes, the file has {size_bytes}")
    text = file.read(length)
    if not text.startswith(b"{"):
        raise DamagedError("its header is no JSON object")
    data_bytes = size_bytes - 8 - length
    try:
        metadata, tensors = _read_known(text, data_bytes) or _parse(text, data_bytes)
    except RecursionError as error:
        raise DamagedError("its header is nested deeper than the format knows") from error
    except ValueError as error:
        raise DamagedError(f"its header is no JSON: {error}") from error
    return SafetensorsHeader(8 + length, tensors, metadata if isinstance(metadata, dict) else {})


def _read_known(text: bytes, data_bytes: int) -> tuple[Any, tuple[Tensor, ...]] | None:
    """Return the metadata and tensors of a header that begins with its metadata; None where another way is needed.

    The files of a series have the same text behind their metadata, which is parsed once.
    """
    if not text.startswith(_METADATA) or len(text) > _LONGEST_KEPT:
        return None
    try:
        said = text.decode()
        metadata, end = _decode_value(said, len(_METADATA) + said.startswith(" ", len(_METADATA)))
        return (metadata, _parse_tensors(said[end:], data_bytes)) if said[end] == "," else None
    except (ValueError, IndexError, KeyError, RecursionError, DamagedError):
        return None  # as a whole, it is read once more, and the text of the error is about the whole


@lru_cache(maxsize=16)
def _parse_tensors(rest: str, data_bytes: int) -> tuple[Tensor, ...]:
    """Return the tensors that a header places behind its metadata, from the comma on.

    Raises:
        DamagedError, KeyError, RecursionError, ValueError: they are not only tensors, or do not cover the data.

    """
    content = json.loads(f"{{{rest[1:]}")
    if not content or "__metadata__" in content:  # nothing may follow a comma
        raise KeyError("__metadata__")
    return _order(content, data_bytes)


def _parse(text: bytes, data_bytes: int) -> tuple[Any, tuple[Tensor, ...]]:
    content = json.loads(text)
    metadata = content.pop("__metadata__", {})
    return metadata, _order(content, data_bytes)


def _order(content: Mapping[str, Any], data_bytes: int) -> tuple[Tensor, ...]:
    tensors = sorted([_tensor(name, entry) for name, entry in content.items()], key=_PLACE)
    _check_cover(tensors, data_bytes)
    return tuple(tensors)


def _tensor(name: str, entry: Any) -> Tensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [begin, end, *shape]
    except (TypeError, KeyError, ValueError) as error:
        raise DamagedError(f"its header does not place tensor {name!r}") from error
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers) or not isinstance(dtype, str):
        raise DamagedError(f"its header gives tensor {name!r} sizes that are no sizes")
    bits = _BITS.get(dtype)
    if bits is not None and len(shape) <= 64 and math.prod(shape) * bits != (end - begin) * 8:
        raise DamagedError(f"tensor {name!r} has the shape {shape} of {dtype}, but {end - begin} bytes")
    return Tensor(name, begin, end, bits)


def _check_cover(tensors: list[Tensor], data_bytes: int) -> None:
    position = 0
    for tensor in tensors:
        if tensor.begin != position or tensor.end < tensor.begin:
            raise DamagedError(f"tensor {tensor.name!r} lies at {tensor.begin}, where {position} is due")
        position = tensor.end
    if position != data_bytes:
        raise DamagedError(f"its tensors take {position} bytes, but {data_bytes} are there")


def find_zero_tail(file: BinaryIO, header: SafetensorsHeader) -> int | None:
    """Read all the data; return the offset in it from which zeros run to its end suspiciously, else None.

    Whole tensors may be zero, so it must begin within one and swallow a later one or a quarter of the data: what a
    write that never reached the disk leaves behind.
    """
    file.seek(header.data_start)
    position = last = 0
    while chunk := file.read(_CHUNK_BYTES):
        filled = len(chunk.rstrip(b"\0"))
        last = position + filled if filled else last
        position += len(chunk)
    if position - last < _LONG_RUN_BYTES:
        return None
    cut = next((tensor for tensor in header.tensors if tensor.begin < last < tensor.end), None)
    if cut is None or (cut.end - last) * 8 < (cut.element_bits or 8):
        return None  # only the upper bytes of a last small number
    swallows_another = any(tensor.begin >= cut.end and tensor.end > tensor.begin for tensor in header.tensors)
    return last if swallows_another or (position - last) * 4 >= position else None


def _number(value: object) -> object:
    """Read a number that the metadata hold as text: the format knows no other values there."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    return int(value) if value.removeprefix("-").isdigit() else float(value)


def check_safetensors(parts: CheckpointParts, name: str) -> SafetensorsHeader:
    """Check one safetensors file of a checkpoint and take the facts of its metadata.

    Raises:
        DamagedError: it is damaged; the text begins with its name.

    """
    with parts.open(name) as file, parts.blame(name):
        header = read_header(file, parts.files[name].size_bytes)
        for tensor in header.tensors:
            parts.findings.add_item_name(tensor.name, is_array=True)
        parts.findings.unchecked.add(f"{parts.place}{name}")
        parts.findings.add_facts({key: _number(value) for key, value in header.metadata.items()})
        if parts.level is Level.FULL:
            tail = find_zero_tail(file, header)
            if tail is not None:
                parts.findings.doubt = (
                    f"{name}: only zeros from byte {header.data_start + tail} to the end, within a tensor: "
                    "a write that was lost, or weights that are zero; this format has no checksum to tell"
                )
    return header


class Safetensors:
    name = "safetensors"
    role_unread = roles.PARAMETERS_ONLY

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.by_suffix.get("safetensors", ()):
            yield claim_file(self.name, file)
        for file, base, reason in list_temporaries(directory):
            if base.endswith(".safetensors"):
                yield claim_file(self.name, file, base=base, temporary=reason)
        for suffix, files in directory.by_suffix.items():
            if suffix.startswith("tmp") and len(suffix) == 9:
                for file in files:
                    if _TEMPORARY.fullmatch(file.name) and _begins_like_one(read_head(reader, file.path, 9), file):
                        yield claim_file(self.name, file, temporary="the temporary name of a save that did not end")

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        parts.findings.signs.counts_progress = False  # what its metadata count says how an export was trained
        return examine_parts(parts, lambda: check_safetensors(parts, claim.files[0].name), self.role_unread)


def _begins_like_one(head: bytes, file: File) -> bool:
    return len(head) == 9 and head[8:] == b"{" and unpack("<Q", head[:8])[0] <= min(HEADER_LIMIT, file.size_bytes - 8)
