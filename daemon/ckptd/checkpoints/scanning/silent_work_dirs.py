"""Leaves out working directories in which nothing names a checkpoint, so that no child process is forked for them.

A scan asks a child about working directories, because a dead file system would block it. The file system of a directory
above the scanned one has just answered: there, this process can tell by itself whether there is anything to read.
"""

import os
import posixpath
from collections.abc import Iterable

from ckptd.checkpoints.scanning.pointers import has_links
from ckptd.checkpoints.scanning.user_file import USER_FILE
from ckptd.core.runs.declared_resume import DIRECTORY


def list_naming(work_dirs: Iterable[str], scanned: str) -> list[str]:
    """Return the working directories in which a link or `.ckptd.toml` may name a checkpoint."""
    return [each for each in work_dirs if not _names_nothing(each, scanned)]


def list_declaring(work_dirs: Iterable[str], scanned: str) -> list[str]:
    """Return the working directories in which a job may have declared what it resumed from."""
    return [each for each in work_dirs if not (_has_answered(each, scanned) and _is_missing(each, DIRECTORY))]


def _names_nothing(work_dir: str, scanned: str) -> bool:
    if not _has_answered(work_dir, scanned) or not _is_missing(work_dir, USER_FILE):
        return False
    return work_dir == scanned or not has_links(work_dir)


def _has_answered(work_dir: str, scanned: str) -> bool:
    """Whether the scan went through this directory."""
    return work_dir == scanned or scanned.startswith(f"{work_dir.rstrip('/')}/")


def _is_missing(work_dir: str, name: str) -> bool:
    """Whether it is certain that nothing has this name."""
    try:
        os.lstat(posixpath.join(work_dir, name))
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False
