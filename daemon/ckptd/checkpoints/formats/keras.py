"""Keras 3's `.keras`: a zip of metadata.json, config.json and model.weights.h5, each stored as it is."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from ckptd.checkpoints.formats import hdf5_content, keras_names
from ckptd.checkpoints.formats.file_part import FilePart
from ckptd.checkpoints.formats.hdf5_superblock import SIGNATURE
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.formats.names import parse_name
from ckptd.checkpoints.reader import Reader
from ckptd.checkpoints.tree import Directory
from ckptd.core.model import Level

_CONFIG = "config.json"
_WEIGHTS = "model.weights.h5"
_WEIGHTS_INDEX = "model.weights.json"
_MAX_CONFIG_BYTES = 64 << 20
_MAX_ENTRIES = 10_000
_MAX_DEFLATE_RATIO = 1032
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class Keras:
    name = "keras"

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for file in directory.by_suffix.get("keras", []):
            facts = parse_name(file.name)
            epoch = keras_names.epoch_of_name(file.name)
            yield Claim(
                format=self.name,
                shape=Shape.FILE,
                path=file.path,
                files=(file,),
                is_best=facts.is_best,
                name_epoch=facts.epoch if epoch is None else epoch,
                name_metrics=facts.metrics,
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        size_bytes = claim.files[0].size_bytes
        with reader.open(claim.path) as file:
            if file.read(len(SIGNATURE)) == SIGNATURE:
                return hdf5_content.examine(file, size_bytes, level)  # Keras 2.12 may write HDF5 under this suffix
            try:
                with zipfile.ZipFile(file) as archive:
                    return _examine_archive(archive, file, size_bytes, level)
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, struct.error) as error:
                raise DamagedError(f"its zip archive is damaged: {error}") from error


def _examine_archive(archive: zipfile.ZipFile, file: BinaryIO, size_bytes: int, level: Level) -> Examination:
    entries = {entry.filename: entry for entry in archive.infolist()[:_MAX_ENTRIES]}
    if _CONFIG not in entries:
        raise DamagedError(f"{_CONFIG} is missing in it")
    if _WEIGHTS not in entries and _WEIGHTS_INDEX not in entries:
        raise DamagedError(f"{_WEIGHTS} is missing in it")
    for entry in entries.values():
        if entry.file_size > _MAX_DEFLATE_RATIO * entry.compress_size or entry.compress_size > size_bytes:
            raise DamagedError(f"it states an impossible size for {entry.filename!r}")
    _check_config(archive, entries[_CONFIG])
    if level is Level.FULL:
        for entry in entries.values():
            with archive.open(entry) as opened:
                while opened.read(1 << 20):
                    pass  # the zip reader compares the CRC-32 at the end
    found = Examination()
    for name in sorted(entries):
        if name.endswith(".weights.h5"):
            found = _examine_weights(archive, file, entries[name], level, found)
    return replace(found, has_checksum=level is Level.FULL)


def _check_config(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    if entry.file_size > _MAX_CONFIG_BYTES:
        raise DamagedError(f"its {_CONFIG} has {entry.file_size} bytes")
    try:
        json.loads(archive.read(entry))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"its {_CONFIG} is no JSON: {error}") from error


def _examine_weights(
    archive: zipfile.ZipFile, file: BinaryIO, entry: zipfile.ZipInfo, level: Level, found: Examination
) -> Examination:
    try:
        if entry.compress_type == zipfile.ZIP_STORED:
            part = FilePart(file, _data_offset(file, entry), entry.file_size)
            weights = hdf5_content.examine(io.BufferedReader(part), entry.file_size, level)
        else:
            with archive.open(entry) as opened:
                weights = hdf5_content.examine(opened, entry.file_size, level)  # type: ignore[arg-type]
    except DamagedError as error:
        raise DamagedError(f"in {entry.filename!r}: {error}") from error
    return replace(weights, step=weights.step if weights.step is not None else found.step)


def _data_offset(file: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Return where a stored entry's bytes begin: behind its local header, whose name and extra field may differ."""
    file.seek(entry.header_offset)
    magic, name_size, extra_size = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if magic != b"PK\x03\x04":
        raise DamagedError(f"the local header of {entry.filename!r} is not where the archive says")
    return int(entry.header_offset + _LOCAL_HEADER.size + name_size + extra_size)
