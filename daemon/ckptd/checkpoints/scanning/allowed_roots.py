"""Opens directories below the site's allowed roots, and refuses others by where the kernel says that they are.

A path is checked after it was opened, and everything else goes by the descriptor: whoever exchanges a directory for a
link between the check and the use changes nothing.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.errors import CkptdError


class OutsideRootsError(CkptdError):
    """The path is not below an allowed root."""


def is_allowed(real: str, roots: Iterable[str]) -> bool:
    """Return whether a real path is an allowed root or below one, after links in the roots themselves."""
    return any(_is_below(real, os.path.realpath(root)) for root in roots)


@contextmanager
def open_allowed(path: str, roots: Iterable[str]) -> Iterator[int]:
    """Open a directory that is below an allowed root.

    Raises:
        OutsideRootsError: it is not, or its path is not absolute.
        OSError: it cannot be opened, or its last component is a link.

    """
    if not path.startswith("/"):
        raise OutsideRootsError(f"{path!r} is not an absolute path")
    descriptor = open_keeping_atime(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not is_allowed(os.readlink(f"/proc/self/fd/{descriptor}"), roots):
            raise OutsideRootsError(f"{path} is outside the site's allowed roots")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_without_links(path: str) -> Iterator[int]:
    """Open a directory by its absolute path, one component after the other and through no link, to name it only.

    Raises:
        OutsideRootsError: the path is relative or climbs.
        OSError: a component is missing, no directory or a link.

    """
    names = [name for name in path.split("/") if name]
    if not path.startswith("/") or not {".", ".."}.isdisjoint(names):
        raise OutsideRootsError(f"{path!r} is not an absolute path without '..'")
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open("/", flags)
    try:
        for name in names:
            below = os.open(name, flags, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")
