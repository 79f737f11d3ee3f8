"""Which files some process is writing now, as far as this process may see: a save under way is no damage."""

import os
from collections.abc import Iterator

_WRITING = os.O_WRONLY | os.O_RDWR


def list_open_for_writing() -> frozenset[tuple[int, int]]:
    """Return device and inode of every file that a visible process on this host holds open for writing."""
    return frozenset(identity for process in _processes() for identity in _list_of(process))


def _processes() -> Iterator[str]:
    try:
        yield from (name for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return  # no /proc here: nothing can be seen


def _list_of(process: str) -> Iterator[tuple[int, int]]:
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:
        return  # it ended, or belongs to another user
    for descriptor in descriptors:
        try:
            if _flags(process, descriptor) & _WRITING:
                status = os.stat(f"/proc/{process}/fd/{descriptor}")
                yield status.st_dev, status.st_ino
        except (OSError, ValueError):
            continue  # closed meanwhile


def _flags(process: str, descriptor: str) -> int:
    with open(f"/proc/{process}/fdinfo/{descriptor}", encoding="ascii") as file:
        for line in file:
            if line.startswith("flags:"):
                return int(line.split()[1], 8)
    return 0
