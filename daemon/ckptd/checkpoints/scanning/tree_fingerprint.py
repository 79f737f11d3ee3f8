"""A fingerprint of a directory tree; if the next scan computes the same one, nothing has changed.

It covers the name, owner, size, times and inode of every entry: overwriting a file in place changes no directory, so
every file is always statted. A tree has a fingerprint only if the same listing always leads to the same result: all of
it was read, everything in it is complete and not too young, and no link in it may lead elsewhere tomorrow.
"""

import hashlib
from collections.abc import Iterable

from ckptd.checkpoints.scanning.earlier_scans import is_whole
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Checkpoint, CheckpointState

UNCHANGED, CHANGED = "unchanged", "changed"  # answers of a scan that was given a fingerprint


def make_fingerprint(tree: Directory, bounds: Iterable[object]) -> str | None:
    """Return the fingerprint of a listing made within these bounds; None if it has problems or links."""
    digest = hashlib.blake2b(repr(tuple(bounds)).encode(), digest_size=16)
    for directory in tree.walk():
        if directory.problems or directory.links:
            return None
        fields: list[object] = ["d", directory.path, directory.uid, directory.modified_ns, len(directory.files)]
        for name in sorted(directory.files):
            fields += directory.files[name]
        fields += ["o", *sorted(directory.others)]
        # no name contains NUL, and the number of files says where each field belongs
        digest.update("\0".join(map(str, fields)).encode("utf-8", "surrogateescape") + b"\0\0")
    return digest.hexdigest()


def newest_change_ns(tree: Directory) -> int:
    """Return when anything in a tree was last modified."""
    instants = [directory.modified_ns for directory in tree.walk()]
    instants += [file.modified_ns for directory in tree.walk() for file in directory.files.values()]
    return max(instants)


def is_final(checkpoints: Iterable[Checkpoint]) -> bool:
    """Whether each checkpoint and each part of one is complete, so that a later scan could find nothing else."""
    return all(
        each.state is CheckpointState.COMPLETE and is_whole(each) and is_final(each.parts) for each in checkpoints
    )
