"""Collects what on disk names checkpoints: symbolic links, and `resume_from` in their owner's `.ckptd.toml`.

Only links of the user as whom it runs, or of root, count: nobody keeps another's checkpoints by linking to them. A
link is never followed to list anything; the kernel is asked what it leads to, in a child that is given up where a
dead file system does not answer.
"""

import functools
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any, NamedTuple

from ckptd.checkpoints.agent.limited_child import ChildLimits, ChildReporter, LimitedChild
from ckptd.checkpoints.scanning import user_file, user_paths
from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.allowed_roots import is_allowed
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Checkpoint, SeenLink

MAX_LINKS = 2000  # of one scan; where there are more, the newest are read, and everything may be named
MAX_WORK_DIRS = 8  # of one scan, the newest jobs'
MAX_ENTRIES = 100_000  # of one working directory that are listed
MAX_PROBED = 100  # entries of a directory that a link leads to
MAX_RESUMES = 100  # paths in one user's file
_LIMITS = ChildLimits(seconds=5)
_LONGEST_PATH = 4096


class LinkText(NamedTuple):
    """One link as the listing shows it."""

    path: str  # absolute
    target: str  # absolute and normalised
    modified_ns: int
    is_resolved: bool  # nothing on the way to the target is a link: the listing shows all of it


def list_links(tree: Directory, checkpoints: Iterable[Checkpoint], root: str) -> list[LinkText]:
    """Return the links of a tree that may lead to a checkpoint, of the tree or elsewhere."""
    linking = [directory for directory in tree.walk() if directory.links]
    if not linking:
        return []
    meant = _list_meant(checkpoints)
    found = (_read(tree, directory, name, root) for directory in linking for name in directory.links)
    return [link for link in found if link is not None and not (link.is_resolved and link.target not in meant)]


def _read(tree: Directory, directory: Directory, name: str, root: str) -> LinkText | None:
    uid, modified_ns = directory.link_facts.get(name, (-1, 0))
    text = directory.links[name]
    if uid not in {os.geteuid(), 0} or not text:
        return None
    place = posixpath.join(root, directory.path)
    target = posixpath.normpath(posixpath.join(place, text))
    is_resolved = ".." not in text.lstrip("./").split("/") and _is_listed(tree, root, target)
    return LinkText(posixpath.join(place, name), target, modified_ns, is_resolved)


def _is_listed(tree: Directory, root: str, path: str) -> bool:
    if not path.startswith(f"{root.rstrip('/')}/"):
        return False
    here: Directory | None = tree
    *parents, name = path[len(root.rstrip("/")) + 1 :].split("/")
    for parent in parents:
        here = here.directories.get(parent) if here else None
    return here is not None and (name in here.files or name in here.directories)


def _list_meant(checkpoints: Iterable[Checkpoint]) -> set[str]:
    """Return every path that stands for a checkpoint: its own, its files', and the directories that they are in."""
    found: set[str] = set()
    for checkpoint in checkpoints:
        parent = str(checkpoint.path.parent)
        waiting = [str(checkpoint.path), *(posixpath.join(parent, file) for file in checkpoint.files)]
        while waiting:
            path = waiting.pop()
            if path not in found and len(path) > 1:
                found.add(path)
                waiting.append(posixpath.dirname(path))
    return found


def gather(
    links: Sequence[LinkText],
    work_dirs: Sequence[str],
    roots: Sequence[str],
    scanned: str,
    named: Sequence[SeenLink] = (),
) -> list[SeenLink]:
    """Look up where links lead, those in working directories too, and read `resume_from` there.

    A working directory is listed only below the site's allowed roots, and not again where it is the one that was
    `scanned`. `named` is what other files name; of these, what is there counts, and what could not be looked up. It
    forks: call it from a process with one thread.
    """
    if not (links or work_dirs or named):
        return []
    newest = sorted(links, key=attrgetter("modified_ns"))[-MAX_LINKS:]
    cut = [SeenLink(path=scanned, target="")] if len(links) > len(newest) else []
    known = [SeenLink(link.path, link.target, link.target) for link in newest if link.is_resolved]
    others = [link for link in newest if not link.is_resolved]
    steps: list[Callable[[], list[SeenLink]]] = [functools.partial(_look_up_link, link) for link in others]
    places = dict.fromkeys(work_dirs[:MAX_WORK_DIRS])
    looked_up = [each for each in named if each.target]
    steps += [functools.partial(_look_up_named, each) for each in looked_up]
    steps += [functools.partial(read_work_dir, each, roots, scanned) for each in places]
    answers = run_steps(steps)
    unresolved = [SeenLink(link.path, link.target) for link in others[len(answers) :]]
    unresolved += [*looked_up[max(0, len(answers) - len(others)) :], *(each for each in named if not each.target)]
    return [*cut, *known, *(link for answer in answers for link in answer), *unresolved]


def run_steps(steps: Sequence[Callable[[], list[SeenLink]]]) -> list[list[SeenLink]]:
    """Take the steps in a limited child; return the answers of those that it came to."""
    if not steps:
        return []

    def work(teller: ChildReporter) -> None:
        for number, step in enumerate(steps):
            teller.begin(number, _LIMITS.seconds)
            teller.answer([list(link) for link in step()])
            if number % 100 == 0:
                teller.send()

    answers: list[list[SeenLink]] = []
    with suppress(KeyError):
        user_paths.read_home(os.geteuid())
    everywhere = os.open("/", os.O_PATH | os.O_CLOEXEC)  # a link may lead anywhere
    child = LimitedChild(work, _LIMITS, lambda _step: _LIMITS.seconds, [everywhere])
    try:
        for answer in child.answers():
            answers.append([decode_link(link) for link in answer])
            if len(answers) == len(steps):
                break
    finally:
        child.close()
        os.close(everywhere)
    return answers


def read_work_dir(work_dir: str, roots: Sequence[str], scanned: str = "") -> list[SeenLink]:
    """Return the links in a working directory, not below it, and what `resume_from` in the user's file names."""
    real = os.path.realpath(work_dir)
    if not is_allowed(real, roots):
        return []
    found = list(_read_user_file(real, roots))
    if real != scanned:
        links = sorted(_list_directory(real), key=attrgetter("modified_ns"))
        found += [SeenLink(path=real, target="")] if len(links) > MAX_LINKS else []
        found += [each for link in links[-MAX_LINKS:] for each in _look_up_link(link)]
    return found


def has_links(directory: str) -> bool:
    """Whether a directory has a link that counts, not below it; true also where it cannot be listed."""
    owners = {os.geteuid(), 0}
    try:
        with _scan(directory) as entries:
            return any(
                entry.is_symlink() and entry.stat(follow_symlinks=False).st_uid in owners
                for _, entry in zip(range(MAX_ENTRIES), entries, strict=False)
            )
    except OSError:
        return True


def _list_directory(directory: str) -> Iterator[LinkText]:
    owners = {os.geteuid(), 0}
    try:
        with _scan(directory) as entries:
            for _, entry in zip(range(MAX_ENTRIES), entries, strict=False):
                if entry.is_symlink() and (status := entry.stat(follow_symlinks=False)).st_uid in owners:
                    path = posixpath.join(directory, entry.name)
                    target = posixpath.normpath(posixpath.join(directory, os.readlink(path)))
                    yield LinkText(path, target, status.st_mtime_ns, is_resolved=False)
    except OSError:
        return  # what cannot be listed holds no link that is seen


def _read_user_file(work_dir: str, roots: Sequence[str]) -> Iterator[SeenLink]:
    path = posixpath.join(work_dir, user_file.USER_FILE)
    try:
        if os.lstat(path).st_uid not in {os.geteuid(), 0}:
            return  # nobody keeps another's checkpoints by a file that cannot be read
    except OSError:
        return
    problems: list[str] = []
    said = user_file.read_user_file(work_dir, problems, roots).get("resume_from")
    if problems:
        yield SeenLink(path=path, target="")  # what it said before is not known here
    named = said if isinstance(said, list) else [said]
    for each in named[:MAX_RESUMES]:
        if isinstance(each, str) and 0 < len(each) <= _LONGEST_PATH and "\0" not in each:
            target = posixpath.normpath(posixpath.join(work_dir, user_paths.expand_home(each)))
            found = find_real(target)
            yield SeenLink(path, target) if found is None else SeenLink(path, target, *found)


def _look_up_link(link: LinkText) -> list[SeenLink]:
    found = find_real(link.path)
    return [SeenLink(link.path, link.target) if found is None else SeenLink(link.path, link.target, *found)]


def _look_up_named(link: SeenLink) -> list[SeenLink]:
    found = find_real(link.target)
    return [] if found is None else [SeenLink(link.path, link.target, *found)]


def find_real(path: str) -> tuple[str, int, int, str] | None:
    """Return the real path of what is there, device and inode of it or of a file inside, and that file's place.

    None where nothing is there or this user may not look.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
        status = os.fstat(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if not real.startswith("/"):
        return None
    if not stat.S_ISDIR(status.st_mode):
        return real, status.st_dev, status.st_ino, ""
    inside, probed = _find_file(real)
    return real, *((probed.st_dev, probed.st_ino) if probed else (0, 0)), inside


def _find_file(directory: str) -> tuple[str, os.stat_result | None]:
    """Return some file of a directory: by it the directory is known again behind another mount."""
    prefix = ""
    for _ in range(3):
        try:
            with _scan(posixpath.join(directory, prefix)) as entries:
                listed = sorted((entry for _, entry in zip(range(MAX_PROBED), entries, strict=False)), key=_name)
                for entry in listed:
                    if entry.is_file(follow_symlinks=False):
                        return posixpath.join(prefix, entry.name), entry.stat(follow_symlinks=False)
                below = next((entry.name for entry in listed if entry.is_dir(follow_symlinks=False)), None)
        except OSError:
            return "", None
        if below is None:
            return "", None
        prefix = posixpath.join(prefix, below)
    return "", None


@contextmanager
def _scan(directory: str) -> Iterator[Iterator["os.DirEntry[str]"]]:
    """List a directory, following links in its path; entries are known by their names until it is closed."""
    descriptor = open_keeping_atime(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _name(entry: "os.DirEntry[str]") -> str:
    return entry.name


def decode_link(data: Any) -> SeenLink:  # of JSON
    """Build a link from its JSON types.

    Raises:
        TypeError, ValueError: the data is none.

    """
    path, target, real, device, inode, inside = data
    link = SeenLink(str(path), str(target), None if real is None else str(real), int(device), int(inode), str(inside))
    if any(len(text) > 2 * _LONGEST_PATH for text in (link.path, link.target, link.real or "", link.inside)):
        raise ValueError("a path is longer than any can be")
    return link


def look_up_paths(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the real path of each of `item["paths"]`, where the user whose job names them may look.

    For each None where nothing is there or where it is outside the allowed roots, False where that cannot be told; and
    what the working directories name.
    """
    links = [link for each in item["work_dirs"] for link in read_work_dir(each, item["allowed_roots"])]
    real = [_find(path) for path in item["paths"]]
    kept = [None if isinstance(path, str) and not is_allowed(path, item["allowed_roots"]) else path for path in real]
    return {"real": kept, "links": [list(link) for link in links]}


def _find(path: str) -> str | bool | None:
    path = user_paths.expand_home(path)
    found = find_real(path)
    if found is not None:
        return found[0]
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return False
    return False
