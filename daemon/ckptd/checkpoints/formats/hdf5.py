"""HDF5 files: Keras's `.h5` models and `.weights.h5`, Octave's `-hdf5`, and simulations' own."""

import re
from collections.abc import Iterator
from dataclasses import replace

from ckptd.checkpoints.formats import hdf5_content, keras_names
from ckptd.checkpoints.formats.interface import Claim, Examination, Shape
from ckptd.checkpoints.formats.names import parse_name
from ckptd.checkpoints.reader import Reader
from ckptd.checkpoints.tree import Directory
from ckptd.core.model import Level

_SUFFIXES = ("h5", "hdf5", "hdf", "he5")
_FLASH = re.compile(r".*_hdf5_chk_(\d+)")


class Hdf5:
    name = "hdf5"

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for suffix in _SUFFIXES:
            for file in directory.by_suffix.get(suffix, []):
                facts = parse_name(file.name)
                backup = directory.files.get(keras_names.backup_metadata(file.name) or "")
                epoch = keras_names.epoch_of_name(file.name)
                yield Claim(
                    format=self.name,
                    shape=Shape.SET if backup else Shape.FILE,
                    path=file.path,
                    files=(file, backup) if backup else (file,),
                    is_best=facts.is_best,
                    name_epoch=facts.epoch if epoch is None else epoch,
                    name_step=facts.step,
                    name_metrics=facts.metrics,
                )
        for file in directory.by_suffix.get("", []):
            if found := _FLASH.fullmatch(file.name):
                yield Claim(format=self.name, shape=Shape.FILE, path=file.path, files=(file,), name_step=int(found[1]))

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        with reader.open(claim.path) as file:
            found = hdf5_content.examine(file, claim.files[0].size_bytes, level)
        if len(claim.files) > 1:
            found = replace(found, epoch=keras_names.read_backup_epoch(claim.files[1].path, reader))
        return found
