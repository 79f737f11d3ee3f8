"""Checks that only root can change a file: the privileged agent takes its policy from it."""

import os
import stat
from pathlib import Path

from ckptd.config.raw_tables import ConfigError


def check_trusted(path: Path) -> None:
    """Refuse a file that somebody other than root could change, or replace in one of its directories.

    Raises:
        ConfigError: somebody else could.

    """
    named = Path(os.path.abspath(path))
    real = Path(os.path.realpath(path))
    for each in dict.fromkeys([*reversed(named.parents), *reversed(real.parents), real]):
        try:
            status = each.stat()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        if problem := _find_problem(status):
            raise ConfigError(
                f"{path}: {'it' if each == named else each} {problem}. The privileged agent takes its policy from this "
                f"file, so it and its directories must belong to root and be writable by root only: chown root {each} "
                f"&& chmod go-w {each}"
            )


def _find_problem(status: os.stat_result) -> str | None:
    if status.st_uid != 0:
        return f"belongs to uid {status.st_uid}"
    is_sticky_directory = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky_directory:
        return f"is writable by others than root (mode {stat.S_IMODE(status.st_mode):o})"
    return None
