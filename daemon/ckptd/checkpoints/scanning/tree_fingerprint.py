"""A fingerprint of a directory tree; if the next scan computes the same one, nothing has changed.

It covers the name, owner, size, times and inode of every entry: overwriting a file in place changes no directory, so
every file is always statted. A tree has a fingerprint only if the same listing always leads to the same result: all of
it was read, everything in it is complete and not too young, and no link in it may lead elsewhere tomorrow.
"""

import hashlib
import os
import stat
from array import array
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import compress, islice
from typing import NamedTuple

from ckptd.checkpoints.scanning.earlier_scans import is_whole
from ckptd.checkpoints.scanning.status_columns import make_fields, read_columns
from ckptd.checkpoints.scanning.tree import OWN_NAMES, Directory, choose_scanned, open_below, open_root
from ckptd.core.model import Checkpoint, CheckpointState

Fields = tuple["array[int]", ...]
_VERSION = 2  # of the text below: another one makes each directory be scanned once more
UNCHANGED, CHANGED = "unchanged", "changed"  # answers of a scan that was given a fingerprint


class TreeReading(NamedTuple):
    """The fingerprint of a tree, None where it has problems or links, and how many directory entries were read."""

    fingerprint: str | None
    entry_count: int


class _TreeHash:
    """Adds up directories, each before those below it, these in the order of their names."""

    def __init__(self, bounds: Iterable[object]) -> None:
        self._digest = hashlib.blake2b(repr((_VERSION, *bounds)).encode(), digest_size=16)

    def add(
        self, path: str, uid: int, modified_ns: int, names: Sequence[str], fields: Fields, others: Iterable[str]
    ) -> None:
        """Add one directory, with the sorted names of its files and the fields of their status in the same order."""
        # no name contains NUL, and the numbers before the text say what belongs where
        text = "\0".join((path, *names, *sorted(others))).encode("utf-8", "surrogateescape")
        numbers = array("q", (len(text), len(names), uid, *divmod(modified_ns, 10**9)))  # years after 2262, too
        self._digest.update(b"".join((numbers, text, *fields)))

    def finish(self) -> str:
        return self._digest.hexdigest()


def make_fingerprint(tree: Directory, bounds: Iterable[object]) -> str | None:
    """Return the fingerprint of a listing made within these bounds; None if it has problems or links."""
    found = _TreeHash(bounds)
    for directory in tree.walk():
        if directory.problems or directory.links:
            return None
        names = sorted(directory.files)
        fields = make_fields(directory.files[name][1:] for name in names)
        found.add(directory.path, directory.uid, directory.modified_ns, names, fields, directory.others)
    return found.finish()


def read_fingerprint(descriptor: int, *, max_depth: int, max_entries: int, write_grace: timedelta) -> TreeReading:
    """List a directory again, by its descriptor, and return the fingerprint that `make_fingerprint` makes of it.

    No file is read. It makes no objects for the files, which would take longer than to ask for their facts.
    """
    found, left = _TreeHash((max_depth, max_entries, write_grace)), [max_entries]
    root = open_root(descriptor)
    try:
        is_settled = _add_directory(found, root, "", max_depth, left)
    finally:
        os.close(root)
    return TreeReading(found.finish() if is_settled else None, max_entries - left[0])


def _add_directory(found: _TreeHash, descriptor: int, path: str, depth: int, left: list[int]) -> bool:
    """Add a directory and those below it; return False, at once, if it has problems or links."""
    own = os.fstat(descriptor)
    try:
        with os.scandir(descriptor) as entries:
            names = sorted([entry.name for entry in islice(entries, left[0] + 1)])
        if len(names) > left[0]:
            return False
        modes, fields = read_columns(descriptor, names)
    except OSError:  # also where an entry was removed after the listing
        return False
    others: list[str] = []
    below: list[str] = []
    if set(map(stat.S_IFMT, set(modes))) != {stat.S_IFREG}:
        kinds = [*map(stat.S_IFMT, modes)]
        if stat.S_IFLNK in kinds:
            return False
        below = [
            name for name, kind in zip(names, kinds, strict=True) if kind == stat.S_IFDIR and name not in OWN_NAMES
        ]
        others = [name for name, kind in zip(names, kinds, strict=True) if kind not in {stat.S_IFREG, stat.S_IFDIR}]
        is_file = [kind == stat.S_IFREG for kind in kinds]
        names = [*compress(names, is_file)]
        below = choose_scanned(path, names, below)
        fields = tuple(array(field.typecode, compress(field, is_file)) for field in fields)
    left[0] -= len(names) + len(below) + len(others)
    found.add(path, own.st_uid, own.st_mtime_ns, names, fields, others)
    return (depth > 0 or not below) and all(_add_below(found, descriptor, path, name, depth, left) for name in below)


def _add_below(found: _TreeHash, descriptor: int, path: str, name: str, depth: int, left: list[int]) -> bool:
    try:
        child = open_below(name, descriptor)
    except OSError:
        return False
    try:
        return _add_directory(found, child, f"{path}/{name}" if path else name, depth - 1, left)
    finally:
        os.close(child)


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
