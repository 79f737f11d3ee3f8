"""Reads Flax's checkpoints of one msgpack file: `checkpoint_N` of flax.training.checkpoints, and other `.msgpack`.

Sources: flax/training/checkpoints.py and flax/serialization.py.
"""

import re
from collections.abc import Iterator
from typing import Any

from ckptd.checkpoints.formats import checkpoint_names, facts, roles, state_walk
from ckptd.checkpoints.formats.checkpoint_parts import read_head
from ckptd.checkpoints.formats.encodings import msgpack_walk
from ckptd.checkpoints.formats.interface import Claim, DamagedError, Examination, Shape
from ckptd.checkpoints.scanning.reader import Reader
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Level

_NAME = re.compile(r"(?:checkpoint|ckpt)_(?P<step>\d+)")
_OTHER_PREFIX = re.compile(r".*?[A-Za-z][-_.]?(?P<step>\d+)")
_TEMPORARY = re.compile(r"(?:checkpoint|ckpt)_?(?:\d+)?_?tmp")


_KEYS = (b"\xa4step", b"\xa6params", b"\xa6target", b"\xa9opt_state")  # as short texts of msgpack
TRACEBACK = b"Traceback (most recent call last)"


class Flax:
    name = "flax"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory: Directory, reader: Reader) -> Iterator[Claim]:
        for file in directory.by_suffix.get("msgpack", []):
            yield checkpoint_names.claim_file(self.name, file)
        for file, base, reason in checkpoint_names.list_temporaries(directory):
            if base.endswith(".msgpack"):
                yield checkpoint_names.claim_file(self.name, file, base=base, temporary=reason)
        for file in directory.by_suffix.get("", []):
            found = _NAME.fullmatch(file.name)
            is_temporary = bool(_TEMPORARY.fullmatch(file.name))
            if not found and not is_temporary:  # flax.training.checkpoints takes any prefix
                found = _OTHER_PREFIX.fullmatch(file.name)
                is_meant = found is not None and _has_keys(reader, file.path)
            else:
                is_meant = _may_be_map(reader, file.path, file.size_bytes)
            if is_meant:
                yield Claim(
                    format=self.name,
                    shape=Shape.FILE,
                    path=file.path,
                    files=(file,),
                    in_progress="it is Flax's temporary file of a save" if is_temporary else None,
                    name_step=int(found["step"]) if found else None,
                )

    def examine(self, claim: Claim, reader: Reader, level: Level) -> Examination:  # noqa: ARG002 - it has no checksum
        file = claim.files[0]
        if not file.size_bytes:
            raise DamagedError("the file is empty")
        with reader.open(file.path) as opened:
            content = msgpack_walk.walk(opened, file.size_bytes)
        if not isinstance(content, dict):
            raise DamagedError("its content is no dictionary")
        found = facts.find_facts(content)
        step = found.step if found.step is not None else find_update_count(content)
        role = state_walk.find_role(content)
        return Examination(epoch=found.epoch, step=step, metrics=found.metrics).shown_as(role)


def find_update_count(content: dict[str, Any]) -> int | None:
    """Return the number of updates that Optax counts in `opt_state`, None where it counts none."""
    pending: list[Any] = [content.get("opt_state")]
    for holder in pending:
        if not isinstance(holder, dict) or len(pending) > 1000:
            continue
        count = holder.get("count")
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
        pending.extend(holder.values())
    return None


def _has_keys(reader: Reader, path: str) -> bool:
    """Return whether a file begins with a msgpack dictionary that has the keys of a training state."""
    head = read_head(reader, path, 64)
    is_map = b"\x81" <= head[:1] < b"\x90" or head[:1] in (b"\xde", b"\xdf")
    return is_map and any(key in head for key in _KEYS)


def _may_be_map(reader: Reader, path: str, size_bytes: int) -> bool:
    """Return whether a file may be a checkpoint: a dictionary, or the rest of one after a lost or failed write."""
    if not size_bytes:
        return True
    try:
        head = reader.read_head(path, 64)
    except OSError:
        return False
    is_map = b"\x81" <= head[:1] < b"\x90" or head[:1] in (b"\xde", b"\xdf")  # 0x80 begins a pickle
    return is_map or not any(head) or head.startswith(TRACEBACK) or any(key in head for key in _KEYS)
