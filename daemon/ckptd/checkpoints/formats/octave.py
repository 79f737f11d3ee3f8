"""GNU Octave's own text and binary files, also gzip-compressed; `octave-workspace` is what a crash leaves.

Octave reads MATLAB's formats by the same suffix, so a file is taken only by its first bytes or its fixed name.
The layouts: libinterp/corefcn/ls-oct-text.cc and ls-oct-binary.cc of Octave, and save_ascii and save_binary of its
value types (libinterp/octave-value/ov-*.cc).
"""

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import claim_file
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import bounded_stream, compression
from ckptd.checkpoints.formats.encodings.cursor import Cursor, Source
from ckptd.checkpoints.formats.encodings.octave_binary import BinaryWalk
from ckptd.checkpoints.formats.encodings.octave_text import TextWalk
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import CheckpointState, Level

_BINARY_HEADS = {b"Octave-1-L": "<", b"Octave-1-B": ">"}
_TEXT_HEADS = (b"# Created by Octave", b"# name: ", b"# octave")
_FIXED_NAME = "octave-workspace"


def is_octave_head(head: bytes) -> bool:
    """Whether a file's first bytes are those of Octave's text or binary format, plain or under gzip."""
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            return is_octave_head(zlib.decompressobj(31).decompress(head, 32))
        return False
    return head[:10] in _BINARY_HEADS or head.startswith(_TEXT_HEADS)


class Octave:
    name = "octave"
    role_unread = roles.WORKSPACE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in _candidates(directory):
            if file.name == _FIXED_NAME or is_octave_head(read_head(reader, file.path, 256)):
                yield claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        entry = claim.files[0]
        if not entry.size_bytes:
            raise DamagedError("the file is empty")
        with reader.open(entry.path) as file:
            kind = compression.kind_of(file.read(6))
            file.seek(0)
            if kind is None:
                found = _examine(file, level, entry.size_bytes)
            else:
                found = _examine_compressed(file, kind, entry.size_bytes, level)
        return found.shown_as(self.role_unread)


def _candidates(directory: Directory) -> Iterator[File]:
    if _FIXED_NAME in directory.files:
        yield directory.files[_FIXED_NAME]
    for suffix in ("mat", "octave", "oct"):
        yield from directory.by_suffix.get(suffix, ())
    yield from (
        file for file in directory.by_suffix.get("gz", ()) if file.name.lower().endswith((".mat.gz", ".octave.gz"))
    )


def _examine_compressed(file: BinaryIO, kind: str, size_bytes: int, level: Level) -> Examination:
    stream = bounded_stream.open_stream(file, kind, bounded_stream.output_limit(level, size_bytes))
    try:
        found = _examine(stream, level, None)
        while stream.read(1 << 20):
            pass
    except bounded_stream.InflatesTooFarError as error:
        if level is Level.FULL:
            return Examination(state=CheckpointState.UNKNOWN, reason=str(error))
        bounded_stream.check_trailer(file, kind, size_bytes)
        found = Examination()
    return found._replace(has_checksum=True)


def _examine(source: Source, level: Level, size_bytes: int | None) -> Examination:
    head = source.read(10)
    if head in _BINARY_HEADS:
        return _examine_binary(source, _BINARY_HEADS[head])
    if size_bytes is not None and size_bytes > bounded_stream.STRUCTURE_BYTES and level is not Level.FULL:
        source.seek(size_bytes - 1)
        if source.read(1) != b"\n":
            raise DamagedError("the file ends in the middle of a line")
        return Examination()
    walk = TextWalk(head, source, reads_numbers=level is Level.FULL)
    walk.run()
    found = walk.scalars.facts
    return Examination(epoch=found.epoch, step=found.step, metrics=found.metrics)


def _examine_binary(source: Source, order: str) -> Examination:
    walk = BinaryWalk(Cursor(source, order=order, start=10))
    walk.run()
    found = walk.scalars.facts
    state, reason = CheckpointState.COMPLETE, None
    if walk.is_lost:
        state = CheckpointState.UNKNOWN
        reason = "it holds a variable of a rare type, behind which nothing could be checked"
    return Examination(state=state, reason=reason, epoch=found.epoch, step=found.step, metrics=found.metrics)
