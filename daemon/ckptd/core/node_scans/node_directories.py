"""Which locations only the nodes of jobs see: those below the directories that the site names.

On this host, the same path may be missing, or be another directory. So all of this is about the text of a path.
"""

import posixpath
from collections.abc import Iterable


def is_on_nodes(path: str, directories: Iterable[str]) -> bool:
    """Return whether an absolute, normalised path is one of these directories or below one."""
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in directories)


def find_on_nodes(work_dir: str | None, path: str, directories: Iterable[str]) -> str | None:
    """Return the absolute path that a job names if only its nodes see it; None for any other path.

    `path` has no `~`, and is relative to `work_dir`. Nothing is resolved: links of a node are not known here.
    """
    if not path or "\0" in path or "$" in path or "`" in path:
        return None
    absolute = posixpath.normpath(posixpath.join(work_dir or "", path))
    return absolute if absolute.startswith("/") and is_on_nodes(absolute, directories) else None
