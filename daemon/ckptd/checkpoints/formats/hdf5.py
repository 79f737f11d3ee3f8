"""Reads HDF5 files: Keras's `.h5` and `.weights.h5`, Octave's `-hdf5`, and those of simulation codes such as FLASH.

Sources: HDF5 File Format Specification; keras/src/legacy/saving/legacy_h5_format.py and keras/src/saving/saving_lib.py;
the FLASH User's Guide, chapter "IO Unit".
"""

import re
from collections.abc import Iterator

from ckptd.checkpoints.formats import checkpoint_names, foreign_content, keras_names, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import hdf5_content
from ckptd.checkpoints.formats.interface import Claim, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_SUFFIXES = ("h5", "hdf5", "hdf", "he5")
_FLASH = re.compile(r".*_hdf5_chk_\d+")


def _bare(name: str) -> checkpoint_names.Bare:
    return "epoch" if name.lower().endswith(".weights.h5") else "step"


class Hdf5:
    name = "hdf5"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for suffix in _SUFFIXES:
            for file in directory.by_suffix.get(suffix, []):
                if suffix == "hdf" and foreign_content.name_other_format(read_head(reader, file.path, 16)) == "HDF4":
                    continue
                backup = directory.files.get(keras_names.backup_metadata(file.name) or "")
                claim = keras_names.claim_file(self.name, file, bare=_bare(file.name))
                yield claim if backup is None else claim._replace(shape=Shape.SET, files=(file, backup))
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            if base.lower().endswith(tuple(f".{suffix}" for suffix in _SUFFIXES)):
                yield keras_names.claim_file(self.name, file, bare=_bare(base), base=base, temporary=reason)
        for file in directory.by_suffix.get("", []):
            if _FLASH.fullmatch(file.name):  # FLASH counts its files, not steps
                yield checkpoint_names.claim_file(self.name, file)._replace(name_step=None)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        with reader.open(claim.path) as file:
            found = hdf5_content.examine(file, claim.files[0].size_bytes, level)
        if len(claim.files) > 1:
            found = found._replace(epoch=keras_names.read_backup_epoch(claim.files[1].path, reader))
            return found.shown_as(roles.TRAINING_STATE)  # of BackupAndRestore
        return found.shown_as(roles.RESTART_RESULT) if _FLASH.fullmatch(claim.files[0].name) else found
