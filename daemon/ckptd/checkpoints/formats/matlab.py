"""MATLAB's MAT-files: level 5 (`-v6`, and compressed `-v7`), level 4, and `-v7.3`, which is HDF5 behind 512 bytes.

Octave, SciPy and Julia write them too. Octave's own formats also use the suffix `.mat` and are told by their first
bytes; a file that is neither is a damaged MAT-file. Source: "MAT-File Format", The MathWorks.
"""

from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats import foreign_content, roles
from ckptd.checkpoints.formats.checkpoint_names import claim_file
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import bounded_stream, hdf5_content, mat_level4, mat_walk
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.octave import is_octave_head
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Matlab:
    name = "matlab"
    role_unread = roles.WORKSPACE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.by_suffix.get("mat", ()):
            head = read_head(reader, file.path, foreign_content.HEAD_BYTES)
            is_matrix = foreign_content.is_ordinary_text(head) and not head.startswith(b"MATLAB")
            if not is_matrix and not is_octave_head(head):  # a matrix as text, as of `save -ascii`
                yield claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        entry = claim.files[0]
        with reader.open(entry.path) as file:
            head = file.read(mat_walk.HEADER_BYTES)
            if not head:
                raise DamagedError("the file is empty")
            if head[124:128] in {b"\x00\x02IM", b"\x02\x00MI"} or head.startswith(_HDF5_SIGNATURE):
                found = hdf5_content.examine(file, entry.size_bytes, level)
            else:
                found = _examine_level_4_or_5(file, head, entry.size_bytes, level)
        return found.shown_as(self.role_unread)


def _examine_level_4_or_5(file: BinaryIO, head: bytes, size_bytes: int, level: Level) -> Examination:
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(head[124:128])
    if order is None:
        if (order_4 := mat_level4.order_of(head)) is None:
            raise DamagedError("it does not begin as a MAT-file does")
        found = mat_level4.walk(file, order_4).facts
        return Examination(epoch=found.epoch, step=found.step, metrics=found.metrics)
    if size_bytes == mat_walk.HEADER_BYTES:
        raise DamagedError("it ends after its header")
    walk = mat_walk.MatWalk(file, order, inflate_limit=bounded_stream.output_limit(level, size_bytes))
    walk.run()
    found = walk.scalars.facts
    if walk.is_sampled and level is Level.FULL:
        return Examination(
            state=CheckpointState.UNKNOWN,
            reason="it inflates to more than is read",
            epoch=found.epoch,
            step=found.step,
            metrics=found.metrics,
        )
    return Examination(epoch=found.epoch, step=found.step, metrics=found.metrics, has_checksum=walk.is_compressed)
