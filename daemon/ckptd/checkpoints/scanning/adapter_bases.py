"""Reads which models the adapters in a tree are for: without the one that it was trained on, an adapter is of no use.

The library PEFT writes `adapter_config.json` beside each adapter. Its `base_model_name_or_path` is what the training
script was given: the name of a model in a registry, or a path, which may be relative to the directory of the job.
"""

import functools
import json
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence

from ckptd.checkpoints.scanning import user_paths
from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.pointers import MAX_WORK_DIRS, run_steps
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import SeenLink
from ckptd.core.retention.reference_limits import ADAPTER_FILE

MAX_ADAPTERS = 2000  # of one tree; where there are more, the newest are read, and everything may be named
_MAX_BYTES = 1 << 20
_LONGEST_PATH = 4096


def list_adapters(tree: Directory, root: str) -> tuple[str, ...]:
    """Return the absolute paths of a tree's configurations of adapters that are this process's user's or root's."""
    found = [directory.files[ADAPTER_FILE] for directory in tree.walk() if ADAPTER_FILE in directory.files]
    own = [file for file in found if file.uid in {os.geteuid(), 0}]
    newest = sorted(own, key=lambda file: (file.modified_ns, file.path), reverse=True)
    return tuple(posixpath.join(root, file.path) for file in newest)


def list_bases(adapters: Sequence[str], work_dirs: Sequence[str], scanned: str) -> list[SeenLink]:
    """Return the paths that adapters may name as their base models, as links that nobody has looked up.

    A relative one may mean a path in a working directory, in the `scanned` one or above that, and, where it begins with
    a dot, from the adapter's directory up. A link without a target is a configuration that could not be read. It forks:
    call it from a process with one thread.
    """
    if not adapters:
        return []
    read = adapters[:MAX_ADAPTERS]
    answers = run_steps([functools.partial(read_name, path) for path in read])
    named = [link for answer in answers for link in answer]
    bases = {SeenLink(scanned, ""): None} if len(adapters) > len(read) else {}
    bases |= {SeenLink(path, ""): None for path in read[len(answers) :]}
    targets: dict[str, SeenLink] = {}
    for path, name, *_ in named:
        if not name:
            bases[SeenLink(path, "")] = None
            continue
        own = _list_above(path, posixpath.dirname(scanned)) if name.startswith(".") else ()
        for place in (*work_dirs[:MAX_WORK_DIRS], scanned, posixpath.dirname(scanned), *own):
            target = posixpath.normpath(posixpath.join(place, user_paths.expand_home(name)))
            targets.setdefault(target, SeenLink(path, target))
    return [*bases, *targets.values()]


def read_name(path: str) -> list[SeenLink]:
    """Return what an adapter's configuration names, as the target of a link, which may be no path.

    A configuration of this user's that cannot be read may name anything; one that is root's names nothing then.
    """
    try:
        name = _read_name(path)
    except FileNotFoundError:
        return []
    except PermissionError:
        return [SeenLink(path, "")] if _is_own(path) else []
    except (OSError, OverflowError):
        return [SeenLink(path, "")]
    return [] if name is None else [SeenLink(path, name)]


def _is_own(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return True


def _read_name(path: str) -> str | None:
    """Return the base model's name or path; None where the file states none, or is no longer this user's or root's.

    Raises:
        OSError: it cannot be read.
        OverflowError: it is too large.

    """
    descriptor = open_keeping_atime(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in {os.geteuid(), 0}:
            return None
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise OverflowError(path)
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = said.get("base_model_name_or_path") if isinstance(said, dict) else None
    is_usable = isinstance(name, str) and 0 < len(name) <= _LONGEST_PATH and "\0" not in name
    return name if is_usable else None


def _list_above(path: str, last: str) -> Iterator[str]:
    """Yield the directory of a file and those above it, up to `last`."""
    directory = posixpath.dirname(path)
    while directory != last and len(directory) > 1:
        yield directory
        directory = posixpath.dirname(directory)
    yield last
