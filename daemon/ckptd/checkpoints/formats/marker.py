"""Marker files that name a missing checkpoint: a restart that trusts them fails, or starts without a checkpoint.

The format of the checkpoints beside a marker handles it. This module handles only markers that no format claimed.
The formats of DeepSpeed, Megatron and TensorFlow name the sources of their markers; the source of Detectron2's
`last_checkpoint` is fvcore/common/checkpoint.py.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.directory_claims import read_marker
from ckptd.checkpoints.formats.generic import LAST_CHECKPOINT
from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.formats.tensorflow import STATE_FILE, read_state
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_LATEST = ("latest", "latest_universal")  # DeepSpeed's
_ITERATION = "latest_checkpointed_iteration.txt"  # Megatron's
_RELEASE = "release"


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
