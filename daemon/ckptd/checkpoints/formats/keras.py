"""Keras 3's `.keras`: a zip of metadata.json, config.json and model.weights.h5, each stored as it is."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace

from ckptd.checkpoints.formats import hdf5_content, keras_names, names, zip_archive
from ckptd.checkpoints.formats.file_part import FilePart
from ckptd.checkpoints.formats.file_slice import FileSlice
from ckptd.checkpoints.formats.hdf5_superblock import SIGNATURE
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.zip_archive import ZipArchive
from ckptd.checkpoints.reader import Reader
from ckptd.checkpoints.tree import Directory
from ckptd.core.model import Level

_SUFFIX = ".keras"
_DOCUMENTS = ("config.json", "metadata.json")
_WEIGHTS = "model.weights.h5"
_WEIGHTS_INDEX = "model.weights.json"
_MAX_DOCUMENT_BYTES = 64 << 20
_MAX_INFLATED_BYTES = 256 << 20


class Keras:
    name = "keras"

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for file in directory.by_suffix.get("keras", []):
            yield keras_names.claim_file(self.name, file, bare="epoch")
        for file, base, reason in names.list_temporaries(directory):
            if base.lower().endswith(_SUFFIX):
                yield keras_names.claim_file(self.name, file, bare="epoch", base=base, temporary=reason)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        file = claim.files[0]
        if not file.size_bytes:
            raise DamagedError("the file is empty")
        with reader.open(file.path) as opened:
            if opened.read(len(SIGNATURE)) == SIGNATURE:
                return hdf5_content.examine(opened, file.size_bytes, level)  # Keras 2.12 may write HDF5 so
            return _examine_archive(zip_archive.read_zip(FileSlice.whole(opened)), level)


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
    found = Examination()
    for name in weights:
        each = _examine_weights(archive, name, level)
        found = replace(each, step=found.step if each.step is None else each.step)
    return replace(found, has_checksum=level is Level.FULL and archive.has_checksums)


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
