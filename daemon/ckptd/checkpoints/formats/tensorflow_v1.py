"""Reads TensorFlow's V1 checkpoints: one LevelDB table such as `model.ckpt-400`, often with a graph in `.meta`.

The first key of the table, "", lists the tensors; each other value holds a slice of a tensor. Each block of the table
has a masked CRC-32C. Source: tensorflow/core/util/saved_tensor_slice.proto.
"""

import re
from collections.abc import Iterator

from ckptd.checkpoints.formats import facts, roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.encodings import sorted_table
from ckptd.checkpoints.formats.encodings.protobuf import read_fields, read_varint
from ckptd.checkpoints.formats.encodings.sorted_table import CompressedError
from ckptd.checkpoints.formats.flax import TRACEBACK
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.formats.tensorflow import STATE_FILE, check_graph, is_table, read_state
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level

_NAME = re.compile(r".*ckpt(?:-(?P<step>\d+))?(?:-\d{5}-of-\d{5})?", re.IGNORECASE)
_MAX_SCANNED_BYTES = 32 << 20


class TensorFlowV1:
    name = "tensorflow-v1"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        state = directory.files.get(STATE_FILE)
        newest, listed = read_state(state, reader) if state is not None else (None, frozenset())
        for name, file in directory.files.items():
            found = _NAME.fullmatch(name)
            meta = directory.files.get(f"{name}.meta")
            if not found or (meta is None and not (found["step"] and _may_be_table(file, reader))):
                continue  # without its graph beside it a name that only ends in ckpt is another framework's
            yield Claim(
                format=self.name,
                shape=Shape.SET if meta else Shape.FILE,
                path=file.path,
                files=(file, meta) if meta else (file,),
                markers=(state,) if state is not None and newest is not None else (),
                is_newest=True if name == newest else None,
                is_listed=True if name in listed else None,
                is_best=parse_name(name).is_best,
                name_step=int(found["step"]) if found["step"] else None,
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        size_bytes = claim.files[0].size_bytes
        is_scanned = level is Level.FULL or size_bytes <= _MAX_SCANNED_BYTES
        listed: set[bytes] = set()
        stored: set[bytes] = set()
        values: dict[str, float] = {}
        try:
            with reader.open(claim.path) as file:
                handles = sorted_table.read_handles(file, size_bytes, max_block_bytes=size_bytes)
                for _, value in (
                    sorted_table.read_entries(file, size_bytes, max_block_bytes=size_bytes)
                    if handles and is_scanned
                    else ()
                ):
                    _collect(value, listed, stored, values)
        except DamagedError as error:
            raise DamagedError(f"the file {error}") from error
        except CompressedError as error:
            return Examination(state=CheckpointState.UNKNOWN, reason=str(error))
        if is_scanned and (missing := listed - stored):
            raise DamagedError(f"{len(missing)} of {len(listed)} tensors are not in the file")
        role = roles.judge_variables(name.decode("utf-8", "replace") for name in listed | stored)
        return Examination(
            reason=check_graph(claim, reader),
            step=facts.find_facts(values).step,
            has_checksum=level is Level.FULL,
        ).shown_as(role)


def _may_be_table(file: File, reader: Reader) -> bool:
    """Return whether a file named as a V1 checkpoint may be one: a table, its beginning, zeros or a traceback."""
    try:
        head = reader.read_head(file.path, 64)
        if not any(head):
            return True
        _, position = read_varint(head, 2)
    except (OSError, DamagedError):
        return False
    begins = head[:2] == b"\0\0" and head[position : position + 1] == b"\x0a"  # an empty key, and the list of tensors
    return begins or head.startswith(TRACEBACK) or is_table(file, reader)


def _collect(message: bytes, listed: set[bytes], stored: set[bytes], values: dict[str, float]) -> None:
    """Add the facts in one value of the table: the list of tensors, or the name and the small value of a slice."""
    for number, value in read_fields(message):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            for inner, tensor in read_fields(value):
                if inner == 1 and isinstance(tensor, bytes):
                    listed.update(name for field, name in read_fields(tensor) if field == 1 and isinstance(name, bytes))
        elif number == 2:
            parts = dict(read_fields(value))
            name, tensor_proto = parts.get(1), parts.get(3)
            if isinstance(name, bytes):
                stored.add(name)
                if isinstance(tensor_proto, bytes) and len(tensor_proto) < 32:
                    _collect_number(name, tensor_proto, values)


def _collect_number(name: bytes, tensor_proto: bytes, values: dict[str, float]) -> None:
    for number, value in read_fields(tensor_proto):
        if number in (7, 10):  # int_val and int64_val
            values[name.decode("utf-8", "replace").rpartition("/")[2]] = (
                read_varint(value, 0)[0] if isinstance(value, bytes) else value
            )
