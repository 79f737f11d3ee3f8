"""A fingerprint of a directory tree; if the next scan computes the same one, nothing has changed.

It covers the name, owner, size, times and inode of every entry: overwriting a file in place changes no directory, so
every file is always statted. A tree has a fingerprint only if the same listing always leads to the same result: all of
it was read, everything in it is complete and not too young, and no link in it may lead elsewhere tomorrow.
"""

import hashlib
import os
import stat
from array import array
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from ckptd.checkpoints.scanning.earlier_scans import is_whole
from ckptd.checkpoints.scanning.tree import OWN_NAMES, Directory, open_below, open_root
from ckptd.core.model import Checkpoint, CheckpointState

UNCHANGED, CHANGED = "unchanged", "changed"  # answers of a scan that was given a fingerprint


class TreeReading(NamedTuple):
    """The fingerprint of a tree, None where it has problems or links, and how many directory entries were read."""

    fingerprint: str | None
    entry_count: int


class _TreeHash:
    """Adds up directories, each before those below it, these in the order of their names."""

    def __init__(self, bounds: Iterable[object]) -> None:
        self._digest = hashlib.blake2b(repr(tuple(bounds)).encode(), digest_size=16)

    def add(
        self, path: str, uid: int, modified_ns: int, files: Mapping[str, tuple[int, ...]], others: Iterable[str]
    ) -> None:
        """Add one directory, with the fields of each file by its name."""
        names = sorted(files)
        # no name contains NUL, and the numbers before the text say what belongs where
        text = "\0".join((path, *names, *sorted(others))).encode("utf-8", "surrogateescape")
        numbers = [len(text), len(names), uid, modified_ns]
        for name in names:
            numbers += files[name]
        try:
            packed = array("q", numbers).tobytes()
        except OverflowError:  # an inode of more than 63 bits
            packed = repr(numbers).encode()
        self._digest.update(packed + text)

    def finish(self) -> str:
        return self._digest.hexdigest()


def make_fingerprint(tree: Directory, bounds: Iterable[object]) -> str | None:
    """Return the fingerprint of a listing made within these bounds; None if it has problems or links."""
    found = _TreeHash(bounds)
    for directory in tree.walk():
        if directory.problems or directory.links:
            return None
        files: dict[str, tuple[int, ...]] = {name: file[1:] for name, file in directory.files.items()}
        found.add(directory.path, directory.uid, directory.modified_ns, files, directory.others)
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
    status = os.fstat(descriptor)
    uid, modified_ns = status.st_uid, status.st_mtime_ns
    files: dict[str, tuple[int, ...]] = {}
    others: list[str] = []
    below: list[str] = []
    try:
        with os.scandir(descriptor) as entries:
            for count, entry in enumerate(entries):
                if count == left[0]:
                    return False
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # it was removed after the listing
                kind = stat.S_IFMT(status.st_mode)
                if kind == stat.S_IFREG:
                    files[entry.name] = (
                        status.st_size,
                        status.st_mtime_ns,
                        status.st_dev,
                        status.st_ino,
                        status.st_uid,
                        status.st_ctime_ns,
                    )
                elif kind == stat.S_IFDIR:
                    below += () if entry.name in OWN_NAMES else (entry.name,)
                elif kind == stat.S_IFLNK:
                    return False
                else:
                    others.append(entry.name)
    except OSError:
        return False
    left[0] -= len(files) + len(below) + len(others)
    found.add(path, uid, modified_ns, files, others)
    return (depth > 0 or not below) and all(
        _add_below(found, descriptor, path, name, depth, left) for name in sorted(below)
    )


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
