"""Paths that users name, as the process of their user sees them."""

import ctypes
import errno
import os
import pwd
import stat


def find_directory(work_dir: str | None, path: str) -> str | None:
    """Return the real path of a directory that a user names, or of the directory of a file; None: it is not there."""
    if not path or "\0" in path:
        return None
    path = expand_home(path)
    if work_dir is None and not path.startswith("/"):
        return None
    real = os.path.realpath(os.path.join(work_dir or "/", path))
    try:
        mode = os.stat(real).st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return os.path.dirname(real)
    return real if stat.S_ISDIR(mode) else None


def explain_absence(work_dir: str | None, path: str) -> str | None:
    """Say why a directory that is named and not here may be elsewhere; None where nobody has made it yet.

    That is so where its owner has the directory above it. Else it may be a file system that is not mounted here, or a
    node's own, as `/tmp` is.
    """
    if "\0" in path:
        return None
    if "$" in path or "`" in path:
        return f"{path} has a variable whose value ckptd does not know"
    here = os.path.realpath(os.path.join(work_dir or "/", expand_home(path)))
    while here != "/" and not os.path.lexists(here):
        here = os.path.dirname(here)
    try:
        found = os.stat(here)
    except OSError as error:
        return f"{path} cannot be seen from here: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode) or (may_write(here) and not found.st_mode & stat.S_ISVTX):
        return None
    return f"{path} does not exist, nor a directory of the user's own above it: its file system may not be mounted here"


def expand_home(path: str) -> str:
    """Fill in this process's user's home for a leading `~`."""
    return read_home(os.geteuid()) + path[1:] if path == "~" or path.startswith("~/") else path


_kept: dict[int, str | None] = {}


def keep_home(uid: int, home: str | None) -> None:
    """Keep what is known of a user's home, so that `read_home` asks no name service; None: there is no account."""
    _kept[uid] = home


def read_home(uid: int) -> str:
    """Return a user's home; call it, or `keep_home`, before this process is confined and reaches no name service.

    Raises:
        KeyError: there is no such user.

    """
    if uid not in _kept:
        _kept[uid] = pwd.getpwuid(uid).pw_dir
    if (home := _kept[uid]) is None:
        raise KeyError(f"uid {uid} has no account")
    return home


def may_write(directory: str) -> bool:
    """Whether this process's user may write in a directory, also where ckptd itself sees it read-only.

    Nobody becomes a writer of another's directory by naming it. access(2) asks for the permission first, and only
    then for the mount, which the service's own name space may have made read-only.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.access(os.fsencode(directory), os.W_OK) == 0 or ctypes.get_errno() == errno.EROFS
