"""Tells from access times which checkpoints were read since an attempt started, where the file system keeps them.

A mount with `relatime` updates the access time of a file only if that is not after the last change, or a day old. An
access time after the start shows a read in any case; that there was none is only known where a read would have shown.
Source: relatime_need_update() in Linux's fs/inode.c, mount(8).
"""

import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.mounts import Mount
from ckptd.core.model import CheckpointRead

# Reads through a network file system may be served from a client's cache, and change no access time on the server.
_KEEPING_TYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs"})
_MAX_FILES = 1000  # of one checkpoint
_MAX_DEPTH = 6
_DAY_NS = 86_400 * 10**9
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _TooManyError(Exception):
    """A checkpoint has more files than are looked at."""


def keeps_access_times(mount: Mount | None) -> bool:
    """Whether a mount records that a file is read, at least the first time after a change."""
    return mount is not None and mount.filesystem_type in _KEEPING_TYPES and not mount.options & {"noatime", "ro"}


def list_reads(
    descriptor: int,
    directory: PurePosixPath,
    candidates: Iterable[str],
    since_ns: int,
    now_ns: int,
    mount: Mount | None,
) -> list[CheckpointRead]:
    """Return which candidates were read since an instant, and which were not; omit those for which this is unknown.

    `descriptor` is of the directory. A candidate is a file, a directory, or a name with `*`, or without the suffixes of
    its files. It was read if its largest file was, and it was not if none of its files was.
    """
    if mount is None or not keeps_access_times(mount):
        return []
    is_relative = "relatime" in mount.options
    device = os.fstat(descriptor).st_dev
    found = []
    for path in candidates:
        if not PurePosixPath(path).is_relative_to(directory) or ".." in PurePosixPath(path).parts:
            continue
        try:
            files = list(_list_files(descriptor, str(PurePosixPath(path).relative_to(directory))))
        except (OSError, _TooManyError):
            continue
        if not files or any(not _is_told(each, device, since_ns) for each in files):
            continue
        largest = max(each.st_size for each in files)
        read_ns = [each.st_atime_ns for each in files if since_ns < each.st_atime_ns <= now_ns]
        loaded_ns = [each.st_atime_ns for each in files if each.st_size == largest and each.st_atime_ns in read_ns]
        if loaded_ns:
            found.append(CheckpointRead(path, _instant(now_ns), _instant(min(loaded_ns))))
        elif all(is_unread(each, since_ns, is_relative=is_relative) for each in files):
            found.append(CheckpointRead(path, _instant(now_ns)))
    return found


def _instant(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


def _is_told(status: os.stat_result, device: int, since_ns: int) -> bool:
    """Whether the access time of a file is that of a read, as far as it is after an instant.

    A file that was created or changed since has one without a read, and ckptd's own reads change that of another
    user's file.
    """
    is_own = os.geteuid() in {0, status.st_uid}
    return is_own and status.st_dev == device and max(status.st_mtime_ns, status.st_ctime_ns) <= since_ns


def is_unread(status: os.stat_result, since_ns: int, *, is_relative: bool) -> bool:
    """Whether a file was not read since an instant: the first read would have changed its access time."""
    if status.st_atime_ns > since_ns:
        return False
    is_due = status.st_atime_ns <= max(status.st_mtime_ns, status.st_ctime_ns)
    return not is_relative or is_due or since_ns - status.st_atime_ns >= _DAY_NS


def _list_files(descriptor: int, path: str) -> Iterator[os.stat_result]:
    """Yield the status of each file of a checkpoint, by its path relative to a directory; links are no files.

    Raises:
        OSError: it cannot be read.
        _TooManyError: it has too many files.

    """
    above, _, name = path.rpartition("/")
    parent = os.dup(descriptor)
    try:
        for each in filter(None, above.split("/")):
            child = open_keeping_atime(each, _DIRECTORY, dir_fd=parent)
            os.close(parent)
            parent = child
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            yield from _walk(parent, 0, [_MAX_FILES], name)
            return
        if stat.S_ISDIR(status.st_mode):
            child = open_keeping_atime(name, _DIRECTORY, dir_fd=parent)
            try:
                yield from _walk(child, _MAX_DEPTH, [_MAX_FILES])
            finally:
                os.close(child)
        elif stat.S_ISREG(status.st_mode):
            yield status
    finally:
        os.close(parent)


def _walk(descriptor: int, depth: int, budget: list[int], name: str | None = None) -> Iterator[os.stat_result]:
    """Yield the status of the files below a directory, or of those in it that have a name with other suffixes."""
    with os.scandir(descriptor) as entries:
        for entry in entries:
            budget[0] -= 1
            if budget[0] < 0:
                raise _TooManyError
            if name is not None and not _is_of(entry.name, name):
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield status
            elif stat.S_ISDIR(status.st_mode):
                if depth <= 0:
                    raise _TooManyError
                child = open_keeping_atime(entry.name, _DIRECTORY, dir_fd=descriptor)
                try:
                    yield from _walk(child, depth - 1, budget)
                finally:
                    os.close(child)


def _is_of(file: str, name: str) -> bool:
    if "*" in name:
        return fnmatch.fnmatchcase(file, "*".join(map(_escape, name.split("*"))))
    return file.startswith(f"{name}.")


def _escape(text: str) -> str:
    return "".join(f"[{each}]" if each in "?[" else each for each in text)
