"""Checks everything that will be moved or deleted, name by name, and refuses what must not be."""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.trash.descriptors import closing, read_mount
from ckptd.checkpoints.trash.outcome import RefusedError
from ckptd.core.fleet.prune_totals import FailureCause

MAX_DEPTH = 200  # directories in one another: each is held open, and a level of Python's stack

OpenFiles = Collection[tuple[int, int]]  # device and inode


class ContentItem(NamedTuple):
    """Facts about one file, directory or link. `path` is relative to the moved item, "" for the item itself."""

    path: str
    kind: str  # "file", "directory" or "link"
    device: int
    inode: int
    size_bytes: int  # 0 for a directory, whose size and times change as names come and go
    modified_ns: int
    changed_ns: int = 0  # the time that no user can set (ctime); 0: it was not recorded


class MoveRequirements(NamedTuple):
    """Conditions on everything that is moved."""

    uid: int
    device: int
    mount: bytes
    open_files: OpenFiles


def is_match(found: Sequence[ContentItem], written: Sequence[ContentItem]) -> bool:
    """Whether a file is the recorded one; a change time that was not recorded is not compared."""
    return len(found) == len(written) and all(
        one[:-1] == other[:-1] and other.changed_ns in {0, one.changed_ns}
        for one, other in zip(found, written, strict=True)
    )


def examine(name: str, at: int, rules: MoveRequirements) -> tuple[ContentItem, ...]:
    """Return a file, or a directory and everything below it, after checking all of it.

    Raises:
        RefusedError: something belongs to another user, has other hard links, is open, on another mount, or no file.
        OSError: it could not be read.

    """
    return tuple(_walk(name, "", at, rules))


def _walk(name: str, path: str, at: int, rules: MoveRequirements) -> Iterator[ContentItem]:
    if path.count("/") >= MAX_DEPTH:
        raise RefusedError(f"it has more than {MAX_DEPTH} directories in one another", FailureCause.TOO_DEEP)
    status = os.stat(name, dir_fd=at, follow_symlinks=False)
    thing = _thing(path, status)
    shown = path or name
    _check(thing, status, rules, shown)
    if thing.kind != "directory":
        yield thing
        return
    found = open_keeping_atime(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    with closing(found):
        if os.fstat(found).st_ino != thing.inode or read_mount(found) != rules.mount:
            raise RefusedError(
                f"{shown!r} was exchanged, or another file system is mounted there", FailureCause.MOUNTED
            )
        yield thing
        for child in sorted(os.listdir(found)):
            yield from _walk(child, f"{path}/{child}" if path else child, found, rules)


def _thing(path: str, status: os.stat_result) -> ContentItem:
    if stat.S_ISDIR(status.st_mode):
        return ContentItem(path, "directory", status.st_dev, status.st_ino, 0, 0)
    kind = "file" if stat.S_ISREG(status.st_mode) else "link" if stat.S_ISLNK(status.st_mode) else "special"
    return ContentItem(path, kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _check(thing: ContentItem, status: os.stat_result, rules: MoveRequirements, shown: str) -> None:
    if thing.kind == "special" or (thing.kind == "link" and not thing.path):
        raise RefusedError(f"{shown!r} is no regular file", FailureCause.SPECIAL)
    if status.st_uid != rules.uid:
        raise RefusedError(f"{shown!r} belongs to user {status.st_uid}", FailureCause.FOREIGN)
    if thing.device != rules.device:
        raise RefusedError(f"{shown!r} is on another file system", FailureCause.MOUNTED)
    if thing.kind == "file" and status.st_nlink != 1:
        raise RefusedError(
            f"{shown!r} has {status.st_nlink} names (hard links): moving it would free nothing", FailureCause.LINKED
        )
    if (thing.device, thing.inode) in rules.open_files:
        raise RefusedError(f"a process has {shown!r} open", FailureCause.OPEN)
