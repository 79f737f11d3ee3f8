"""Which file system a path is on, from the kernel's own table: no path is touched, so a dead server hangs nobody."""

import functools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

NETWORK_TYPES = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cephfs", "ceph", "cifs", "smb3", "glusterfs", "panfs", "pvfs2", "9p"}
)
_MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted file system."""

    point: PurePosixPath
    filesystem_type: str
    options: frozenset[str] = frozenset()  # of this mount, such as `noatime`
    start: str = field(init=False, repr=False, compare=False)  # of every path that is on it or on a mount below

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _end_with_slash(self.point))

    @property
    def is_network(self) -> bool:
        """Whether other hosts write to it unseen by this kernel, so that inotify misses their changes."""
        return self.filesystem_type in NETWORK_TYPES or self.filesystem_type.startswith("fuse")


def read_mounts() -> tuple[Mount, ...]:
    """Read the mount table of this process, later mounts first (they cover earlier ones)."""
    return parse_mounts(_MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape"))


def read_recent_mounts() -> tuple[Mount, ...]:
    """Return the mount table as it was at most a second ago, for who asks for each of many directories."""
    return _read_in_second(int(time.monotonic()))


@functools.lru_cache(maxsize=1)
def _read_in_second(_second: int) -> tuple[Mount, ...]:
    return read_mounts()


@functools.lru_cache(maxsize=4)  # each scan reads the table, which hardly ever changes
def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Parse /proc/self/mountinfo (proc_pid_mountinfo(5)): fields 5 and 6 before the dash, the type after it."""
    mounts: list[Mount] = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 6:
            continue
        point, options = PurePosixPath(_unescape(fields[4])), frozenset(fields[5].split(","))
        mounts.append(Mount(point, after.split(" ")[0], options))
    return tuple(reversed(mounts))


def find_mount(mounts: tuple[Mount, ...], path: PurePosixPath) -> Mount | None:
    """Return the mount that a path without links is on."""
    below = _end_with_slash(path)
    holding = [mount for mount in mounts if below.startswith(mount.start)]
    return max(holding, key=lambda mount: len(mount.start), default=None)


class MountPoints:
    """Finds the mount points of many directories in the mount table, which is read again when `refresh` is called."""

    def __init__(self, read_table: Callable[[], tuple[Mount, ...]] = read_mounts) -> None:
        self._read_table = read_table
        self._mounts: tuple[Mount, ...] = ()
        self._points: frozenset[PurePosixPath] = frozenset()
        self.find: Callable[[PurePosixPath], str] = self._find

    def refresh(self) -> None:
        """Read the mount table; if it changed, `find` becomes another function. A table that is unreadable stays."""
        try:
            mounts = self._read_table()
        except OSError:
            return
        if mounts != self._mounts:
            self._mounts, self._points = mounts, frozenset(mount.point for mount in mounts)
            self.find = functools.partial(self._find)

    def _find(self, directory: PurePosixPath) -> str:
        """Return the mount point of a path without links; empty if there is none."""
        return next((str(each) for each in (directory, *directory.parents) if each in self._points), "")


def _end_with_slash(path: PurePosixPath) -> str:
    return f"{str(path).rstrip('/')}/"


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
