"""Reads TensorFlow's SavedModel: a directory with a program, `saved_model.pb`, and its variables as a tensor bundle.

Sources: tensorflow/core/protobuf/saved_model.proto and tensorflow/python/saved_model/save.py.
"""

from collections.abc import Iterator

from ckptd.checkpoints.formats import facts, roles
from ckptd.checkpoints.formats.checkpoint_names import parse_name
from ckptd.checkpoints.formats.encodings import protobuf, tensor_bundle
from ckptd.checkpoints.formats.encodings.sorted_table import CompressedError
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape, describe_unchecked
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_PROGRAM = "saved_model.pb"
_PROGRAM_TEXT = "saved_model.pbtxt"
_META_GRAPHS = 2


class SavedModel:
    name = "saved-model"
    role_unread = roles.PROGRAM

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for name, child in directory.directories.items():
            if not _is_saved_model(child):
                continue
            facts = parse_name(name)
            yield Claim(
                format=self.name,
                shape=Shape.DIRECTORY,
                path=child.path,
                files=tuple(child.walk_files()),
                is_best=facts.is_best,
                name_epoch=facts.epoch,
                name_metrics=facts.metrics,
            )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        files = {file.path: file for file in claim.files}
        program = files.get(f"{claim.path}/{_PROGRAM}")
        if program is not None:
            try:
                with reader.open(program.path) as opened:
                    numbers = protobuf.check_outline(opened, program.size_bytes)
            except DamagedError as error:
                raise DamagedError(f"{_PROGRAM} {error}") from error
            if _META_GRAPHS not in numbers:
                raise DamagedError(f"{_PROGRAM} holds no graph")
        elif f"{claim.path}/{_PROGRAM_TEXT}" not in files:
            raise DamagedError(f"{_PROGRAM} is missing")
        prefix = f"{claim.path}/variables/variables"
        if not any(path.startswith(f"{prefix}.") for path in files):
            return Examination().shown_as(self.role_unread)
        try:
            bundle = tensor_bundle.read_bundle(prefix, files, reader)
            if level is not Level.FULL:
                tensor_bundle.check_samples(bundle, reader)
        except DamagedError as error:
            raise DamagedError(f"its variables: {error}") from error
        except CompressedError as error:
            return Examination(state=CheckpointState.UNKNOWN, reason=str(error)).shown_as(self.role_unread)
        found = facts.find_facts(tensor_bundle.read_scalars(bundle, reader))
        return Examination(
            epoch=found.epoch,
            step=found.step,
            has_checksum=level is Level.FULL and tensor_bundle.check_data(bundle, reader),
            unchecked=describe_unchecked(_PROGRAM),
        ).shown_as(self.role_unread)


def _is_saved_model(directory: Directory) -> bool:
    if _PROGRAM in directory.files or _PROGRAM_TEXT in directory.files:
        return True
    variables = directory.directories.get("variables")
    return variables is not None and any(name.startswith("variables.data-") for name in variables.files)
