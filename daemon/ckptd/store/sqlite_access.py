"""Explains why this account cannot use the file of a SQLite database: SQLite's own errors name no directory."""

import os
import sqlite3

RESTORE = "move it away, with -wal and -shm, and restore a backup with `ckptd db restore FILE`, or correct store.url"
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def is_damaged(error: BaseException | None) -> bool:
    """Return whether an error of SQLite says that the file is damaged, or is none of SQLite."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED


def explain(path: str) -> str | None:
    """Return what keeps this account from writing to the file, and what to do; None if that is not found out."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.stat(folder)
    except PermissionError:
        return f"this account cannot enter a directory above {path}; correct its rights, or store.url"
    except OSError as error:
        return f"the directory {folder} cannot be used ({error.strerror}); create it, or correct store.url"
    if not os.path.isdir(folder):
        return f"{folder} is not a directory; correct store.url"
    if os.path.isdir(path):
        return f"{path} is a directory; correct store.url"
    if is_read_only(folder):
        return f"the file system of {folder} is mounted read-only; mount it read-write, or correct store.url"
    if not can_access(folder, os.W_OK | os.X_OK):
        return f"this account cannot write to the directory {folder}; correct its owner or rights, or store.url"
    if not os.path.lexists(path):
        return f"no file can be created in {folder}; correct store.url"
    if not can_access(path, os.R_OK | os.W_OK):
        return f"this account cannot write to the file {path}; correct its owner or rights, or store.url"
    return None


def is_read_only(path: str | os.PathLike[str]) -> bool:
    """Return whether the file system of a path is mounted read-only; False if that is not known."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def can_access(path: str | os.PathLike[str], mode: int) -> bool:
    """Return whether this process can use a path; unlike `os.access`, ask for its effective account."""
    return os.access(path, mode, effective_ids=True)
