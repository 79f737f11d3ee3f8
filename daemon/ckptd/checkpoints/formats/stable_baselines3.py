"""Reads the `.zip` files of Stable-Baselines3: an agent with its optimizers, as its CheckpointCallback saves.

An archive begins with the entry `data`, JSON of the agent's attributes; each further `.pth` entry is a file of torch.
Source: stable_baselines3/common/save_util.py and base_class.py.
"""

import json
from collections.abc import Iterator
from typing import Any

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.torch_archive import read_torch_archive
from ckptd.checkpoints.formats.encodings.zip_archive import ZipArchive, read_zip
from ckptd.checkpoints.formats.facts import StateFacts, examine_state
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_ATTRIBUTES = "data"
_VERSION = "_stable_baselines3_version"
_HEADER_BYTES = 30  # of an entry of a zip archive; then comes its name
_MAX_ATTRIBUTE_BYTES = 64 << 20
_COUNT_LIMIT = 1 << 63


class StableBaselines3:
    name = "stable-baselines3"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.by_suffix.get("zip", ()):
            if _begins_with_attributes(read_head(reader, file.path, _HEADER_BYTES + len(_ATTRIBUTES))):
                yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        with reader.open(claim.files[0].path) as file:
            archive = read_zip(FileSlice.whole(file))
            if _VERSION not in archive.entries:
                reason = f"no agent of Stable-Baselines3: it has no entry {_VERSION!r}"
                return Examination(state=CheckpointState.UNKNOWN, reason=reason)
            attributes = _read_attributes(archive)
            unsafe = _check_parts(archive)

            def check() -> bool:
                archive.check_headers()
                if level is Level.FULL:
                    archive.check_content()
                return level is Level.FULL and archive.has_checksums

            facts = StateFacts(
                step=_read_count(attributes, "num_timesteps"), goal_step=_read_count(attributes, "_total_timesteps")
            )
            has_optimizer = any(name.endswith("optimizer.pth") for name in archive.entries)
            role = roles.OPTIMIZER_STATE if has_optimizer else roles.WHOLE_MODEL
            return examine_state(facts, role, unsafe, check)


def _begins_with_attributes(head: bytes) -> bool:
    name_bytes = int.from_bytes(head[26:28], "little")
    return head.startswith(b"PK\x03\x04") and head[_HEADER_BYTES:][:name_bytes] == _ATTRIBUTES.encode()


def _read_attributes(archive: ZipArchive) -> dict[str, Any]:
    try:
        attributes = json.loads(archive.read(_ATTRIBUTES, _MAX_ATTRIBUTE_BYTES))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"its entry {_ATTRIBUTES!r} is no JSON: {error}") from error
    if not isinstance(attributes, dict):
        raise DamagedError(f"its entry {_ATTRIBUTES!r} is no object of JSON")
    return attributes


def _read_count(attributes: dict[str, Any], name: str) -> int | None:
    value = attributes.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _COUNT_LIMIT
    return value if is_count else None


def _check_parts(archive: ZipArchive) -> tuple[str, ...]:
    """Check the files of torch in an archive; return the names of callables that loading one would call."""
    unsafe: dict[str, None] = {}
    for name in archive.entries:
        if name.endswith(".pth"):
            try:
                part = read_torch_archive(archive.data_of(name))
                part.check_structure()
            except DamagedError as error:
                raise DamagedError(f"in {name!r}: {error}") from error
            unsafe |= dict.fromkeys(part.unsafe)
    return tuple(unsafe)
