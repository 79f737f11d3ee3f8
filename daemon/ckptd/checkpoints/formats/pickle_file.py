"""Reads pickles, compressed or not, and joblib's files, which have raw arrays between the opcodes.

Sources: Lib/pickletools.py of Python, which documents the opcodes, and joblib/numpy_pickle.py.
"""

import io
from collections.abc import Iterator

from ckptd.checkpoints.formats import checkpoint_names, foreign_content, roles, torch_file
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import compression
from ckptd.checkpoints.formats.encodings.file_slice import FileSlice
from ckptd.checkpoints.formats.encodings.joblib_machine import JoblibMachine
from ckptd.checkpoints.formats.encodings.pickle_machine import PickleMachine
from ckptd.checkpoints.formats.encodings.pickle_names import NESTED_LOADER
from ckptd.checkpoints.formats.encodings.pickle_reader import Pickle, read_pickle
from ckptd.checkpoints.formats.encodings.pickle_values import Elided
from ckptd.checkpoints.formats.facts import examine_state, find_facts
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination
from ckptd.checkpoints.formats.state_walk import find_role
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory, File
from ckptd.core.model import Level

_PADDLE = ("pdparams", "pdopt", "pdema")  # of paddle.save
_SUFFIXES = frozenset(("pkl", "pickle", "pck", "pk", "joblib", "jl", *_PADDLE))
_STRUCTURE_LIMIT = 1 << 30
_FULL_LIMIT = 1 << 44


def _is_pickle_name(name: str) -> bool:
    stem, _, suffix = name.lower().rpartition(".")
    if suffix in compression.SUFFIXES:
        suffix = stem.rpartition(".")[2]
    return suffix in _SUFFIXES


def _is_pickle_head(head: bytes) -> bool:
    """Return, by its first two bytes, whether a file is a pickle of protocol 2 or newer."""
    return len(head) == 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def _list_by_suffix(directory: Directory, reader: Reader) -> Iterator[File]:
    for suffix in _SUFFIXES:
        for file in directory.by_suffix.get(suffix, ()):
            if suffix != "jl" or not _is_program(file, reader):
                yield file
    for suffix in compression.SUFFIXES:
        yield from (file for file in directory.by_suffix.get(suffix, ()) if _is_pickle_name(file.name))


def _is_program(file: File, reader: Reader) -> bool:
    """Return whether a `.jl` file is a program in Julia."""
    return foreign_content.is_ordinary_text(read_head(reader, file.path, foreign_content.HEAD_BYTES))


class PickleFile:
    name = "pickle"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in _list_by_suffix(directory, reader):
            yield checkpoint_names.claim_file(self.name, file)
        for file in checkpoint_names.list_bare(directory):
            if _is_pickle_head(read_head(reader, file.path, 2)):
                yield checkpoint_names.claim_file(self.name, file)
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            is_bare = "." not in base and checkpoint_names.looks_like_checkpoint(base)
            if _is_pickle_name(base) or (is_bare and _is_pickle_head(read_head(reader, file.path, 2))):
                yield checkpoint_names.claim_file(self.name, file, base=base, temporary=reason)

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:
        machine = JoblibMachine if ".joblib" in claim.path.lower() or ".jl" in claim.path.lower() else PickleMachine
        with reader.open(claim.files[0].path) as file:
            return examine_pickle(FileSlice.whole(file), level, machine)


def examine_pickle(content: FileSlice, level: Level, machine: type[PickleMachine] = PickleMachine) -> Examination:
    """Examine one pickle, compressed or not.

    Bytes behind its end are harmless: they remain from an older, longer pickle that was overwritten.

    Raises:
        DamagedError: it is no pickle, cut off or garbled.

    """
    if content.size_bytes == 0:
        raise DamagedError("the file is empty")
    if content.read(0, min(4, content.size_bytes)) == b"PK\x03\x04":
        return torch_file.examine_torch(content, level)  # torch.save under another name, as fastai's export.pkl
    kind = compression.kind_of(content.read(0, min(6, content.size_bytes)))
    if kind is None:
        found = read_pickle(content.stream(), size_bytes=content.size_bytes, machine=machine)
        return examine_state(find_facts(found.value), find_role(found.value), _judge_nested(found, content))
    with compression.open_stream(content, kind) as stream:
        found = read_pickle(stream, machine=machine)
        compression.drain(stream, _FULL_LIMIT if level is Level.FULL else _STRUCTURE_LIMIT)
    return examine_state(find_facts(found.value), find_role(found.value), _judge_nested(found, None), lambda: True)


def _judge_nested(found: Pickle, content: FileSlice | None) -> tuple[str, ...]:
    """Judge the tensors in a plain pickle, each a whole file of torch, by what is in them and not by their loader.

    Raises:
        DamagedError: one of them is damaged.

    """
    if NESTED_LOADER not in found.unsafe or not found.nested:
        return found.unsafe
    unsafe = set(found.unsafe) - {NESTED_LOADER}
    for part in {id(part): part for part in found.nested}.values():
        if isinstance(part, bytes):
            inner = FileSlice.whole(io.BytesIO(part))
        elif isinstance(part, Elided) and content is not None:
            inner = content.part(part.at, part.size_bytes)
        else:
            return found.unsafe  # its content cannot be read
        unsafe.update(torch_file.examine_torch(inner, Level.STRUCTURE).unsafe)
    return tuple(sorted(unsafe))
