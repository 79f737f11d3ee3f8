"""Matches paths against a path of the site's configuration, which stands for itself and all paths below it."""

from fnmatch import fnmatchcase
from pathlib import PurePosixPath

_WILDCARDS = frozenset("*?[")


def is_below(path: str, pattern: str) -> bool:
    """Return whether an absolute path is at or below a directory, or one that matches a shell pattern."""
    if not _WILDCARDS & set(pattern):
        return path == pattern or path.startswith(pattern.rstrip("/") + "/")
    given = PurePosixPath(path)
    return any(fnmatchcase(str(each), pattern.rstrip("/") or "/") for each in (given, *given.parents))
