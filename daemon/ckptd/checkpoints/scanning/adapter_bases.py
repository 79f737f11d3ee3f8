"""Reads which models the adapters in a tree are for: without the one that it was trained on, an adapter is of no use.

The library PEFT writes `adapter_config.json` beside each adapter. Its `base_model_name_or_path` is what the training
script was given: the name of a model in a registry, or a path, which may be relative to the directory of the job.
"""

import json
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence

from ckptd.checkpoints.scanning import user_paths
from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.pointers import find_real
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import SeenLink
from ckptd.core.retention.reference_limits import ADAPTER_FILE

MAX_ADAPTERS = 200  # of one tree, the newest
_MAX_BYTES = 1 << 20
_LONGEST_PATH = 4096


def list_adapters(tree: Directory, root: str) -> tuple[str, ...]:
    """Return the absolute paths of a tree's configurations of adapters that are this process's user's or root's."""
    found = [directory.files[ADAPTER_FILE] for directory in tree.walk() if ADAPTER_FILE in directory.files]
    own = [file for file in found if file.uid in {os.geteuid(), 0}]
    newest = sorted(own, key=lambda file: (file.modified_ns, file.path))[-MAX_ADAPTERS:]
    return tuple(posixpath.join(root, file.path) for file in newest)


def read_base(path: str, work_dirs: Sequence[str], scanned: str) -> list[SeenLink]:
    """Return what an adapter names as its base model, where that is a path, as a link that leads there.

    A relative one is looked for in the working directories, and from the adapter's directory up to the one above the
    `scanned` directory. A configuration that cannot be read may name anything: its link has no target. This may hang
    where a file system does: call it in a limited child.
    """
    try:
        named = _read_name(path)
    except FileNotFoundError:
        return []
    except OSError:
        return [SeenLink(path, "")]
    if named is None:
        return []
    links: list[SeenLink] = []
    for place in dict.fromkeys((*work_dirs, *_list_above(path, posixpath.dirname(scanned)))):
        target = posixpath.normpath(posixpath.join(place, user_paths.expand_home(named)))
        if (found := find_real(target)) is not None:
            links.append(SeenLink(path, target, *found))
    return list(dict.fromkeys(links))


def _read_name(path: str) -> str | None:
    """Return the base model's name or path; None where the file states none, or is no longer this user's or root's.

    Raises:
        OSError: it cannot be read.

    """
    descriptor = open_keeping_atime(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in {os.geteuid(), 0}:
            return None
        text = file.read(_MAX_BYTES)
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    named = said.get("base_model_name_or_path") if isinstance(said, dict) else None
    is_usable = isinstance(named, str) and 0 < len(named) <= _LONGEST_PATH and "\0" not in named
    return named if is_usable else None


def _list_above(path: str, last: str) -> Iterator[str]:
    """Yield the directory of a file and those above it, up to `last`."""
    directory = posixpath.dirname(path)
    while directory != last and len(directory) > 1:
        yield directory
        directory = posixpath.dirname(directory)
    yield last
