"""Lists the files that processes on this host have open: such files are neither reported as damaged nor moved.

An ordinary user sees only own processes. Processes on other nodes are not visible.
"""

import os
import stat
from collections.abc import Iterator

_WRITING = os.O_WRONLY | os.O_RDWR
Identity = tuple[int, int]  # device and inode


def list_open_for_writing() -> frozenset[Identity]:
    """Return every file that a visible process on this host holds open for writing."""
    return frozenset(found for process in _processes() for found in _list_open(process, only_writing=True))


def list_open_files() -> frozenset[Identity]:
    """Return every regular file that a visible process on this host has open or mapped."""
    found: set[Identity] = set()
    for process in _processes():
        found.update(_list_open(process, only_writing=False))
        found.update(_list_mapped(process))
    return frozenset(found)


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []  # no /proc here: nothing can be seen


def _list_open(process: str, *, only_writing: bool) -> Iterator[Identity]:
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:
        return  # it ended, or belongs to another user
    for descriptor in descriptors:
        try:
            if not only_writing or _flags(process, descriptor) & _WRITING:
                status = os.stat(f"/proc/{process}/fd/{descriptor}")
                if stat.S_ISREG(status.st_mode):
                    yield status.st_dev, status.st_ino
        except (OSError, ValueError):
            continue  # closed meanwhile


def _flags(process: str, descriptor: str) -> int:
    with open(f"/proc/{process}/fdinfo/{descriptor}", encoding="ascii") as file:
        for line in file:
            if line.startswith("flags:"):
                return int(line.split()[1], 8)
    return 0


def _list_mapped(process: str) -> Iterator[Identity]:
    try:
        with open(f"/proc/{process}/maps", "rb") as file:
            lines = file.readlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(None, 5)
        if fields[4] != b"0":
            major, minor = fields[3].split(b":")
            yield os.makedev(int(major, 16), int(minor, 16)), int(fields[4])
