"""R's saved objects and workspaces: `.rds`, `.RData`, `.rda`, in every compression that R writes.

`save.image` writes `.RDataTmp` and renames it, so a file of that name is a leftover. R itself names no step;
variables and list elements called `epoch`, `iter`, `step` and the like do.
Sources: src/main/saveload.c and src/main/serialize.c of R.
"""

from collections.abc import Iterator
from typing import BinaryIO

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.checkpoint_names import claim_file
from ckptd.checkpoints.formats.encodings import bounded_stream, compression, r_walk
from ckptd.checkpoints.formats.encodings.cursor import Source
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import CheckpointState, Level

_TEMPORARY = "rdatatmp"
_SUFFIXES = ("rds", "rdata", "rda", _TEMPORARY)
_WORKSPACE_HEADS = tuple(b"RD%c%d\n" % (kind, version) for kind in b"XAB" for version in (2, 3))
_STRUCTURE_ITEMS = 300_000
_FULL_ITEMS = 1 << 40


class R:
    name = "r"
    role_unread = roles.WORKSPACE

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:  # noqa: ARG002 - names are enough
        for suffix in _SUFFIXES:
            for file in directory.by_suffix.get(suffix, ()):
                if suffix == _TEMPORARY:
                    base = file.name[: -len("Tmp")]
                    yield claim_file(self.name, file, base=base, temporary="the temporary name of save.image")
                else:
                    yield claim_file(self.name, file)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        entry = claim.files[0]
        if not entry.size_bytes:
            raise DamagedError("the file is empty")
        with reader.open(entry.path) as file:
            head = file.read(6)
            file.seek(0)
            kind = compression.kind_of(head)
            found = _examine(file, level) if kind is None else _examine_compressed(file, kind, entry.size_bytes, level)
        return found.shown_as(self.role_unread)


def _examine_compressed(file: BinaryIO, kind: str, size_bytes: int, level: Level) -> Examination:
    stream = bounded_stream.open_stream(file, kind, bounded_stream.output_limit(level, size_bytes))
    found = _examine(stream, level)
    if level is Level.FULL and found.state is CheckpointState.COMPLETE:
        while stream.read(1 << 20):
            pass
    elif level is not Level.FULL:
        bounded_stream.check_trailer(file, kind, size_bytes)
        found = found._replace(state=CheckpointState.COMPLETE, reason=None)
    return found._replace(has_checksum=True)


def _examine(source: Source, level: Level) -> Examination:
    mark, start = source.read(2), 2
    if mark == b"RD":
        if mark + source.read(3) not in _WORKSPACE_HEADS:
            raise DamagedError("it does not begin as an R workspace does")
        mark, start = source.read(2), 7
    values = r_walk.open_values(source, mark, start)
    walk = r_walk.Walk(values, most_items=_FULL_ITEMS if level is Level.FULL else _STRUCTURE_ITEMS)
    state, reason = CheckpointState.COMPLETE, None
    try:
        walk.run()
        values.is_at_end()
    except r_walk.WalkedFarEnoughError:
        pass  # only a sample is asked for
    except bounded_stream.InflatesTooFarError as error:
        state, reason = CheckpointState.UNKNOWN, str(error)
    found = walk.scalars.facts
    return Examination(state=state, reason=reason, epoch=found.epoch, step=found.step, metrics=found.metrics)
