"""Reads Keras 3's `.keras` files: zip archives of metadata.json, config.json and model.weights.h5.

Also weights in shards: `P.weights.json`, which maps variables to files `P_0000i.weights.h5`.
Source: keras/src/saving/saving_lib.py.
"""

import io
import json
import re
from collections.abc import Iterator

from ckptd.checkpoints.formats import checkpoint_names, keras_names, roles
from ckptd.checkpoints.formats.checkpoint_parts import CheckpointParts
from ckptd.checkpoints.formats.encodings import hdf5_content, zip_archive
from ckptd.checkpoints.formats.encodings.file_part import FilePart
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.hdf5_superblock import SIGNATURE
from ckptd.checkpoints.formats.encodings.zip_archive import ZipArchive
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level, Role

_SUFFIX = ".keras"
_INDEX = ".weights.json"
_SHARD = re.compile(r"(?P<prefix>.+)_\d{5}\.weights\.h5", re.DOTALL)
_DOCUMENTS = ("config.json", "metadata.json")
_WEIGHTS = "model.weights.h5"
_WEIGHTS_INDEX = "model.weights.json"
_MAX_DOCUMENT_BYTES = 64 << 20
_MAX_INFLATED_BYTES = 256 << 20


class Keras:
    name = "keras"
    role_unread = roles.WHOLE_MODEL

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for prefix, files in _find_sharded(directory).items():
            claim = keras_names.claim_file(self.name, files[0], bare="epoch", base=f"{prefix}.weights.h5")
            yield claim._replace(shape=Shape.SET, path=directory.join(f"{prefix}{_INDEX}"), files=tuple(files))
        for file in directory.by_suffix.get("keras", []):
            yield keras_names.claim_file(self.name, file, bare="epoch")
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            if base.lower().endswith(_SUFFIX):
                yield keras_names.claim_file(self.name, file, bare="epoch", base=base, temporary=reason)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        file = claim.files[0]
        if claim.shape is Shape.SET:
            parts = CheckpointParts.of(claim, reader, level)
            return _examine_sharded(parts, claim.path.rpartition("/")[2])
        if not file.size_bytes:
            raise DamagedError("the file is empty")
        with reader.open(file.path) as opened:
            if opened.read(len(SIGNATURE)) == SIGNATURE:
                return hdf5_content.examine(opened, file.size_bytes, level)  # Keras 2.12 may write HDF5 so
            return _examine_archive(zip_archive.read_zip(FileSlice.whole(opened)), level)


def _find_sharded(directory: Directory) -> dict[str, list[File]]:
    """Return the files of weights that were saved in shards, by what their names begin with, the index first."""
    sets: dict[str, list[File]] = {}
    for file in directory.by_suffix.get("json", ()):
        if file.name.endswith(_INDEX):
            sets[file.name.removesuffix(_INDEX)] = [file]
    for file in directory.by_suffix.get("h5", ()):
        if found := _SHARD.fullmatch(file.name):
            sets.setdefault(found["prefix"], []).append(file)
    return sets


def _examine_sharded(parts: CheckpointParts, index: str) -> Examination:
    """Check that every shard that the index maps variables to is there and whole.

    Source: keras/src/saving/saving_lib.py, ShardedH5IOStore.
    """
    content = parts.read_json(index)
    weights = content.get("weight_map")
    if not isinstance(weights, dict):
        raise DamagedError(f"{index} maps no weights")
    wanted = {name for value in weights.values() for name in (value if isinstance(value, list) else [value])}
    found = Examination(has_checksum=parts.level is Level.FULL).shown_as(roles.PARAMETERS_ONLY)
    for name in sorted(wanted, key=str):
        if not isinstance(name, str) or "/" in name:
            raise DamagedError(f"{index} maps weights to no file")
        with parts.open(name) as file, parts.blame(name):
            each = hdf5_content.examine(file, parts.files[name].size_bytes, parts.level)
        found = each._replace(
            step=found.step if each.step is None else each.step,
            epoch=found.epoch if each.epoch is None else each.epoch,
            has_checksum=found.has_checksum and each.has_checksum,
        ).shown_as(_stronger(found, each))
        if each.state is not CheckpointState.COMPLETE:
            return found._replace(reason=f"{name}: {each.reason}")
    return found


def _stronger(found: Examination, each: Examination) -> roles.RoleEvidence:
    """Return the role of a model of which one more part was examined: a state where one of them is."""
    shown = each if each.role is Role.STATE else found
    return roles.RoleEvidence(shown.role, shown.role_evidence)


def _examine_archive(archive: ZipArchive, level: Level) -> Examination:
    archive.check_headers()
    for name in _DOCUMENTS:
        try:
            json.loads(archive.read(name, _MAX_DOCUMENT_BYTES))
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"its {name} is no JSON: {error}") from error
    weights = sorted(name for name in archive.entries if name.endswith(".weights.h5"))
    if not weights or (_WEIGHTS not in archive.entries and _WEIGHTS_INDEX not in archive.entries):
        raise DamagedError(f"its entry {_WEIGHTS!r} is missing")
    if level is Level.FULL:
        archive.check_content()
    found = Examination().shown_as(roles.WHOLE_MODEL)
    for name in weights:
        each = _examine_weights(archive, name, level)
        found = each._replace(step=found.step if each.step is None else each.step).shown_as(_stronger(found, each))
    return found._replace(has_checksum=level is Level.FULL and archive.has_checksums)


def _examine_weights(archive: ZipArchive, name: str, level: Level) -> Examination:
    entry = archive.entries[name]
    try:
        if entry.method == zip_archive.STORED:
            data = archive.data_of(name)
            part = FilePart(data.file, data.start, data.size_bytes)
            return hdf5_content.examine(io.BufferedReader(part), data.size_bytes, level)
        inflated = archive.read(name, _MAX_INFLATED_BYTES)
        return hdf5_content.examine(io.BytesIO(inflated), len(inflated), level)
    except DamagedError as error:
        raise DamagedError(f"in {name!r}: {error}") from error
