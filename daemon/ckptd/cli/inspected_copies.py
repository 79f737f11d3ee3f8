"""Recognises copies of one checkpoint in the directories that `ckptd inspect` was given.

Format, progress, names and sizes are equal; at level `full`, the content of all files is, too.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from ckptd.core.model import Checkpoint, CheckpointState, Level
from ckptd.core.runs.copied_checkpoints import identify

_BLOCK_BYTES = 1 << 20


def find_copies(found: Iterable[Checkpoint]) -> Mapping[str, list[str]]:
    """Return the paths of all copies of each complete checkpoint, by its path; only of those that have a copy."""
    alike: dict[tuple[object, ...], dict[str, Checkpoint]] = defaultdict(dict)
    for each in found:
        if each.state is CheckpointState.COMPLETE and each.files:
            alike[each.level, *identify(each)][str(each.path)] = each
    copies: dict[str, list[str]] = {}
    for group in alike.values():
        for same in _divide(group) if len(group) > 1 else ():
            copies |= {path: [other for other in same if other != path] for path in same}
    return {path: others for path, others in copies.items() if others}


def _divide(group: Mapping[str, Checkpoint]) -> Iterable[list[str]]:
    """Divide checkpoints that seem to be copies by their content, if they were read completely anyway."""
    divided: dict[str | None, list[str]] = defaultdict(list)
    for path, each in group.items():
        divided[_hash_content(each) if each.level is Level.FULL else ""].append(path)
    divided.pop(None, None)  # what cannot be read again is not known to be equal
    return divided.values()


def _hash_content(found: Checkpoint) -> str | None:
    digest = blake2b(digest_size=16)
    try:
        for file in sorted(found.files):
            descriptor = os.open(found.path.parent / file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as opened:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                while block := opened.read(_BLOCK_BYTES):
                    digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
