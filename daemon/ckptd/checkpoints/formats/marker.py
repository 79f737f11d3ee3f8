"""Marker files that name the checkpoint from which the next start resumes, or a missing one, so that it fails.

Some formats handle their own markers. This module also handles those beside checkpoints of other formats, such as
verl's `global_step_N/` and the single files of MMEngine and Detectron2.
The formats of DeepSpeed, Megatron and TensorFlow name the sources of their markers; the source of Detectron2's
`last_checkpoint` is fvcore/common/checkpoint.py.
"""

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.directory_claims import read_marker
from ckptd.checkpoints.formats.generic import LAST_CHECKPOINT
from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.formats.tensorflow import STATE_FILE, read_state
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.checkpoints.scanning.tree import NAME_MAX, Directory
from ckptd.core.model import Level

_LATEST = ("latest", "latest_universal")  # DeepSpeed's
_ITERATION = "latest_checkpointed_iteration.txt"  # Megatron's
_RELEASE = "release"
_LIMIT = 4096  # bytes of a marker
_DIGITS = re.compile(r"\d+")
_NAMES = (*_LATEST, LAST_CHECKPOINT, _ITERATION)


class Marker:
    name = "marker"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for name, named in _named(directory, reader):
            # files that another format claimed are not listed here, and a save may have ended after the listing
            if not reader.is_there(directory.join(named)):
                claim = checkpoint_names.claim_file(self.name, directory.files[name], base=named)
                yield replace(claim, is_best=None, damage=f"{name} names {named}, which is missing")

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - the claim said it all
        return Examination()


def is_beside_marker(names: Collection[str]) -> bool:
    """Tell whether one of these names is that of a marker that may name a checkpoint beside it."""
    return any(name in names for name in _NAMES)


def find_named(tree: Directory, reader: Reader) -> frozenset[str]:
    """Return the paths that markers in a tree name, of what is there or not; `claim` reports what cannot be read."""
    named: set[str] = set()
    for directory in tree.walk():
        for name in _NAMES if is_beside_marker(directory.files) else ():
            file = directory.files.get(name)
            if file is not None and file.size_bytes <= _LIMIT:
                with contextlib.suppress(OSError, NotRegularError):
                    text = read_head(reader, file.path, _LIMIT).decode("utf-8", "surrogateescape")
                    meant = _list_meant(name, text.strip())
                    named.update(directory.join(path) for path in meant if _is_one_of_several(directory, path))
    return frozenset(named)


def point_out(claim: Claim, named: Collection[str]) -> Claim:
    """Return a claim, marked as newest where a marker names it or a directory that holds it."""
    path = claim.path
    while path and path not in named:
        path = path.rpartition("/")[0]
    return replace(claim, is_newest=True) if path else claim


def _is_one_of_several(directory: Directory, path: str) -> bool:
    """Tell whether others beside a path differ from it in numbers alone; otherwise a marker makes no choice."""
    *parents, name = path.split("/")
    for parent in parents:
        if (below := directory.directories.get(parent)) is None:
            return False
        directory = below
    shape = _DIGITS.sub("#", name)
    names = (*directory.files, *directory.directories)
    return any(other != name and _DIGITS.sub("#", other) == shape for other in names)


def _list_meant(marker: str, text: str) -> Iterator[str]:
    """Yield the paths below a marker's directory that it may mean; of a longer path, the last two names at most.

    MMEngine writes a whole path, which may be that of another mount. A name without a number is one that each save
    overwrites, or that of a directory with all checkpoints.
    """
    if marker == _ITERATION:
        if re.fullmatch(r"\d{1,15}", text):
            yield from (f"iter_{int(text):07d}", f"global_step_{int(text)}")
        return
    parts = [part for part in text.split("/") if part not in {"", "."}]
    name = parts[-1] if parts else ""
    if len(name) > NAME_MAX or ".." in parts or not any(character.isdigit() for character in name):
        return
    if marker == LAST_CHECKPOINT or _is_name_of_checkpoint(name):
        yield name
        yield "/".join(parts[-2:])


def _named(directory: Directory, reader: Reader) -> Iterator[tuple[str, str]]:
    """Yield the markers of a directory and what each names, where that is the name of a checkpoint in it."""
    if (state := directory.files.get(STATE_FILE)) and (newest := read_state(state, reader)[0]):
        yield STATE_FILE, newest
    for name in _LATEST:
        word = read_marker(directory, reader, name)
        if word and "/" not in word and _is_name_of_checkpoint(word):
            yield name, word
    word = read_marker(directory, reader, LAST_CHECKPOINT)
    if word and "/" not in word:  # MMEngine's holds a path, which may lead to another directory
        yield LAST_CHECKPOINT, word
    word = read_marker(directory, reader, _ITERATION)
    if word and re.fullmatch(r"\d{1,15}", word):
        if f"global_step_{int(word)}" in directory.directories:
            return  # verl writes the same file
        yield _ITERATION, f"iter_{int(word):07d}"
    elif word == _RELEASE:
        yield _ITERATION, _RELEASE


def _is_name_of_checkpoint(word: str) -> bool:
    said = checkpoint_names.parse_name(word)
    return said.epoch is not None or said.step is not None or checkpoint_names.looks_like_checkpoint(word)
