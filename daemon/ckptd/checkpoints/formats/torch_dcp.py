"""Reads directories of torch.distributed.checkpoint (DCP), which FSDP, torchtitan, Lightning and others write.

Each rank R writes files `__R_N.distcp`, which hold items one after the other. `.metadata` is written last and renamed
from `.metadata.tmp`; ranks that save without collectives write `__R.metadata` instead. It is a pickle of
`torch.distributed.checkpoint.metadata.Metadata`, which lists the chunks of each tensor (`state_dict_metadata`) and the
file, offset and length of each item (`storage_data`). Each item is a zip archive of torch.save, unless an extension
transformed it. Source: PyTorch's torch/distributed/checkpoint/{metadata,filesystem}.py. Scripts add files of
torch.save, such as fms-fsdp's `loader_state_R.pth`, and load them as well.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts, check_all, examine_parts, read_head
from ckptd.checkpoints.formats.directory_claims import claim_directory
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.pickle_reader import read_pickle
from ckptd.checkpoints.formats.encodings.pickle_values import Global, Opaque
from ckptd.checkpoints.formats.encodings.torch_legacy import is_legacy
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

METADATA = ".metadata"
_MODULE = "torch.distributed.checkpoint.metadata"
_DATA_FILE = re.compile(r"__(\d{1,9})_\d{1,9}\.distcp")
_RANK_METADATA = re.compile(r"__(\d{1,9})\.metadata")
_PARSED_AT_STRUCTURE = 1000  # of more items than this, only the first and last bytes of each are checked
_FACT_BYTES = 1 << 16
_FACT_COUNT = 256
_ELEMENT_BYTES = {
    **dict.fromkeys(("float64", "double", "int64", "long", "uint64", "complex64"), 8),
    **dict.fromkeys(("float32", "float", "int32", "int", "uint32"), 4),
    **dict.fromkeys(("float16", "half", "bfloat16", "int16", "short", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
_PICKLE = b"\x80"  # begins pickles of protocol 2 and later


@dataclass(frozen=True, kw_only=True, slots=True)
class DcpItem:
    """The place of one item in the metadata; `least_bytes` is the size of its tensor, 0 if unknown."""

    name: str
    file: str
    offset: int
    length: int
    is_tensor: bool
    least_bytes: int
    is_transformed: bool


def is_dcp(directory: Directory) -> bool:
    """Return whether a directory holds a file named `__R_N.distcp`."""
    return any(_DATA_FILE.fullmatch(file.name) for file in directory.by_suffix.get("distcp", ()))


def check_dcp(parts: CheckpointParts) -> None:
    """Check that all items in the metadata are in the files, and add the epoch, step and metrics among them.

    Raises:
        DamagedError: something is missing, cut off, or not as the metadata say.

    """
    by_file: dict[str, list[DcpItem]] = {}
    count = 0
    for name in _metadata_names(parts):
        items = read_items(parts, name)
        for item in items:
            parts.findings.add_item_name(item.name, is_array=item.is_tensor)
        for item in items:
            _check_place(parts, item)
            by_file.setdefault(item.file, []).append(item)
            count += 1
    is_parsed = parts.level is Level.FULL or count <= _PARSED_AT_STRUCTURE
    said: dict[str, Any] = {}
    for name in sorted(by_file):
        with parts.open(name) as file, parts.blame(name):
            content = FileSlice.whole(file)
            for item in _in_order(by_file[name]):
                _check_item(parts, item, content.part(item.offset, item.length), is_parsed, said)
    parts.findings.add_facts(said)
    parts.findings.add_role_signs(said)


def _in_order(items: list[DcpItem]) -> list[DcpItem]:
    """Return the items of a file in the order of their offsets.

    Raises:
        DamagedError: two overlap; a hostile file could have the same bytes read without end.

    """
    ordered = sorted(items, key=lambda item: item.offset)
    for before, item in itertools.pairwise(ordered):
        if item.offset < before.offset + before.length:
            raise DamagedError(f"{item.name!r} at byte {item.offset} overlaps {before.name!r}")
    return ordered


def _metadata_names(parts: CheckpointParts) -> list[str]:
    """Return the name of the metadata of all ranks, or of those of each rank if ranks saved without collectives."""
    by_rank = {int(match[1]): name for name in parts.names if (match := _RANK_METADATA.fullmatch(name))}
    if METADATA in parts.files or not by_rank:
        if f"{METADATA}.tmp" in parts.files and METADATA not in parts.files:
            raise DamagedError(f"{parts.place}{METADATA}.tmp was never renamed: the save did not finish")
        parts.require(METADATA)
        return [METADATA]
    writers = {int(match[1]) for name in parts.names if (match := _DATA_FILE.fullmatch(name))}
    lost = next(
        (rank for rank in range(max(by_rank) + 1) if rank not in by_rank), min(writers - set(by_rank), default=None)
    )
    if lost is not None:
        parts.require(f"__{lost}{METADATA}", "other ranks have theirs")
    return [by_rank[rank] for rank in sorted(by_rank)]


def read_items(parts: CheckpointParts, file_name: str) -> list[DcpItem]:
    """Return the items in a metadata file, after checking that each chunk of each tensor has a place.

    Raises:
        DamagedError: the metadata are garbled or leave something out.

    """
    with parts.open(file_name) as file, parts.blame(file_name):
        if not parts.files[file_name].size_bytes:
            raise DamagedError("the file is empty")
        found = read_pickle(file, size_bytes=parts.files[file_name].size_bytes)
        parts.findings.unsafe.update(found.unsafe)
        metadata = _attributes(found.value, f"{_MODULE}.Metadata")
        described, placed = metadata.get("state_dict_metadata"), metadata.get("storage_data")
        if not isinstance(described, dict) or not isinstance(placed, dict):
            raise DamagedError("it does not say where the items lie")
        chunks = {name: _chunks(name, entry) for name, entry in described.items()}
        items = [_item(index, info, chunks) for index, info in placed.items()]
        have = {(item.name, offset) for item, offset in items}
        for name, offsets in chunks.items():
            if any((name, offset) not in have for offset in offsets):
                raise DamagedError(f"it describes {name!r} and does not say where all of it lies")
        return [item for item, _ in items]


def _attributes(value: Any, full_name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Opaque) or (full_name and value.full_name != full_name):
        raise DamagedError(f"it does not hold a {full_name or 'record'}")
    return value.attributes


def _chunks(name: Any, entry: Any) -> dict[Any, int]:
    """Return the least size in bytes of each chunk of a tensor by its offsets; of another object by None."""
    described = _attributes(entry, "")
    if entry.name != "TensorStorageMetadata":
        return {None: 0}
    properties, chunks = described.get("properties"), described.get("chunks")
    if not isinstance(chunks, list):
        raise DamagedError(f"it does not say of which chunks {name!r} consists")
    dtype = properties.state[0] if isinstance(properties, Opaque) and isinstance(properties.state, tuple) else None
    element_bytes = _ELEMENT_BYTES.get(dtype.name, 0) if isinstance(dtype, Global) else 0
    found: dict[Any, int] = {}
    for chunk in chunks:
        place = _attributes(chunk, "")
        sizes = place.get("sizes")
        if not _is_shape(sizes) or not _is_shape(place.get("offsets")):
            raise DamagedError(f"it gives a chunk of {name!r} sizes that are no sizes")
        found[place["offsets"]] = math.prod(sizes or ()) * element_bytes
    return found


def _size(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) <= 64 and all(_size(side) is not None for side in value)


def _item(index: Any, info: Any, chunks: Mapping[Any, Mapping[Any, int]]) -> tuple[DcpItem, Any]:
    key, place = _attributes(index, ""), _attributes(info, "")
    name, offset = key.get("fqn"), key.get("offset")
    file, start, length = place.get("relative_path"), _size(place.get("offset")), _size(place.get("length"))
    if not isinstance(name, str) or not isinstance(file, str) or start is None or length is None:
        raise DamagedError("it places an item at no place")
    if offset is not None and not _is_shape(offset):
        raise DamagedError(f"it gives a chunk of {name!r} an offset that is none")
    known = chunks.get(name, {})
    is_transformed = bool(place.get("transform_descriptors"))
    item = DcpItem(
        name=name,
        file=file,
        offset=start,
        length=length,
        is_tensor=None not in known,
        least_bytes=0 if is_transformed else known.get(offset, 0),
        is_transformed=is_transformed,
    )
    return item, offset


def _check_place(parts: CheckpointParts, item: DcpItem) -> None:
    parts.require(item.file, f"{METADATA} places {item.name!r} in it")
    size_bytes = parts.files[item.file].size_bytes
    if item.offset + item.length > size_bytes:
        raise DamagedError(
            f"{parts.place}{item.file}: {METADATA} places {item.name!r} up to byte {item.offset + item.length}, "
            f"the file has {size_bytes}"
        )
    if item.least_bytes > item.length:
        raise DamagedError(
            f"{parts.place}{METADATA}: {item.name!r} needs {item.least_bytes} bytes and has {item.length}"
        )


def _check_item(
    parts: CheckpointParts, item: DcpItem, content: FileSlice, is_parsed: bool, said: dict[str, Any]
) -> None:
    head = content.read(0, min(4, content.size_bytes))
    if item.is_transformed or (not item.is_tensor and head != b"PK\x03\x04" and any(head)):
        parts.findings.unchecked.add(f"{parts.place}{item.file}")  # bytes whose meaning only their writer knows
        if parts.level is Level.FULL:
            for _ in content.blocks():
                pass
        return
    may_tell = item.name.count(".") <= 2 and item.length <= _FACT_BYTES and len(said) < _FACT_COUNT
    wants_facts = may_tell and (not item.is_tensor or item.least_bytes <= 8)
    try:
        if is_parsed or wants_facts:
            archive = parts.check_torch(content, item.file)
            if wants_facts:
                _put(said, item.name, archive.number(archive.state), archive.state)
        else:
            _check_ends(content)
    except DamagedError as error:
        raise DamagedError(f"{item.name!r} at byte {item.offset}: {error}") from error


def _check_ends(content: FileSlice) -> None:
    last = min(content.size_bytes, 64)
    if not content.read(0, last).startswith(b"PK\x03\x04") or b"PK\x05\x06" not in content.read(
        content.size_bytes - last, last
    ):
        raise DamagedError("no archive of torch.save is there")


def _put(said: dict[str, Any], name: str, number: float | None, state: Any) -> None:
    """Put a value into nested dictionaries at the place that its dotted name states."""
    *path, last = name.split(".")
    holder = said
    for part in path:
        holder = holder.setdefault(part, {})
        if not isinstance(holder, dict):
            return
    holder[last] = state if number is None else number


def _is_of_torch(parts: CheckpointParts, name: str) -> bool:
    """Whether a file should be one of torch.save; scripts give that suffix to plain pickles as well."""
    if not name.endswith((".pt", ".pth")):
        return False
    head = read_head(parts.reader, parts.files[name].path, 16)
    return is_legacy(head) or not head.startswith(_PICKLE)


class TorchDcp:
    name = "torch-dcp"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for child in directory.directories.values():
            if is_dcp(child) or self._has_metadata(child, reader):
                said = parse_name(child.name)
                if said.epoch is None and said.step is None:
                    said = parse_name(directory.name)  # as in step_100/model
                yield claim_directory(self.name, child, said)

    def _has_metadata(self, directory: Directory, reader: Reader) -> bool:
        file = directory.files.get(METADATA) or directory.files.get(f"{METADATA}.tmp")
        return file is not None and _MODULE.encode() in read_head(reader, file.path, 256)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        parts = CheckpointParts.of(claim, reader, level)
        beside = [partial(parts.check_torch_file, name) for name in parts.names if _is_of_torch(parts, name)]
        return examine_parts(parts, lambda: check_all([partial(check_dcp, parts), *beside]))
