"""The listing of a directory tree: names, sizes and times, without content and without following links."""

import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.core.model import FileIdentity, Unknown

TRASH = ".ckptd-trash"
OWN_NAMES = frozenset(
    {TRASH, ".ckptd"}
)  # what ckptd moved aside is no checkpoint of the run any more, and notes are none
# no job saves its state there: version control, caches, installed software, editors, snapshots of the file system
_NO_PLACES = frozenset(
    {
        ".bzr", ".cache", ".cargo", ".conda", ".dvc", ".git", ".hg", ".ipynb_checkpoints", ".jj", ".mamba",
        ".mypy_cache", ".nox", ".npm", ".pytest_cache", ".ruff_cache", ".rustup", ".snapshot", ".snapshots",
        ".svn", ".tox", ".Trash", ".vscode-server", ".zfs", "__pycache__", "dist-packages", "lost+found",
        "node_modules", "site-packages",
    }
)  # fmt: skip
_PACKAGES = frozenset({".git", "__pycache__", "dist-packages", "node_modules", "site-packages"})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH
NAME_MAX = 255  # no file system has names of more bytes
_new_tuple = tuple.__new__  # at once, where a directory has a hundred thousand files


class File(NamedTuple):
    """One regular file. `path` is relative to the root of the tree."""

    path: str
    size_bytes: int
    modified_ns: int
    device: int
    inode: int
    uid: int
    changed_ns: int = 0

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def identity(self) -> FileIdentity:
        _, size_bytes, modified_ns, device, inode, _, changed_ns = self
        return _new_tuple(FileIdentity, (device, inode, size_bytes, modified_ns, changed_ns))


@dataclass(frozen=True)
class Directory:
    """One directory. `path` is relative to the root of the tree, "" for the root itself.

    `links` maps the names of symbolic links to their targets as text, for formats whose marker is a link, and
    `link_facts` to the uid of each and when it was made, in nanoseconds.
    `others` are the names of FIFOs, devices and sockets: they are never opened.
    """

    path: str
    uid: int
    modified_ns: int
    files: dict[str, File] = field(default_factory=dict)
    directories: dict[str, "Directory"] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    link_facts: dict[str, tuple[int, int]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    is_open_to_others: bool = False  # somebody else may write one of its files
    problems: list[Unknown] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_empty(self) -> bool:
        """Whether nothing in it could be or belong to a checkpoint."""
        return not (self.files or self.directories or self.links)

    def join(self, name: str) -> str:
        """Return the path of an entry of this directory, relative to the root of the tree."""
        return f"{self.path}/{name}" if self.path else name

    def walk(self) -> Iterator["Directory"]:
        """Yield this directory and every one below it."""
        yield self
        for child in self.directories.values():
            yield from child.walk()

    def walk_files(self) -> Iterator[File]:
        """Yield every file below, this directory's own first, in the order of their names."""
        for name in sorted(self.files):
            yield self.files[name]
        for name in sorted(self.directories):
            yield from self.directories[name].walk_files()

    def walk_problems(self) -> Iterator[Unknown]:
        for directory in self.walk():
            yield from directory.problems

    def count_entries(self) -> int:
        """Return how many directory entries were read, its own and those below."""
        return sum(len(each.files) + len(each.directories) + len(each.links) + len(each.others) for each in self.walk())

    @cached_property
    def by_suffix(self) -> dict[str, list[File]]:
        """Files by the last suffix of their names, lower case, without its dot; "" where there is none."""
        index: dict[str, list[File]] = {}
        for name, file in self.files.items():
            _, dot, suffix = name.rpartition(".")
            index.setdefault(suffix.lower() if dot else "", []).append(file)
        return index


def list_tree(
    root: PurePosixPath | str | int, *, max_depth: int = 6, max_entries: int = 500_000, entry: str | None = None
) -> Directory:
    """List a directory, by its path or descriptor, and its subdirectories without following symbolic links.

    If `entry` names a subdirectory of the root, only that subdirectory is listed; if it names anything else, only the
    files of the root itself. Directories that cannot be listed completely, also because of a bound, say so in
    `problems`.

    Raises:
        OSError: the root itself cannot be opened as a directory.

    """
    descriptor = open_root(root)
    budget = [max_entries]
    try:
        if entry is None:
            return _list(descriptor, "", max_depth, budget)
        return _list_entry(descriptor, entry, max_depth, budget)
    finally:
        os.close(descriptor)


def list_places(root: int, *, max_depth: int, max_entries: int) -> Directory:
    """List what lies below a working directory, by its descriptor, as far as programs may save there.

    Version control, caches and installed software are left out: they are deep and wide, and no job saves in them. What
    was changed last is listed first, so that old data beside it do not use up the bound.
    """
    return _list(root, "", max_depth, [max_entries], is_search=True)


def open_root(root: PurePosixPath | str | int) -> int:
    """Open a directory by its path, not through a link, or by a descriptor of it.

    Raises:
        OSError: it cannot be opened as a directory.

    """
    return open_below(".", root) if isinstance(root, int) else open_keeping_atime(root, _DIRECTORY)


def open_below(name: str, descriptor: int) -> int:
    """Open a directory in another one, not through a link.

    Raises:
        OSError: it cannot be opened as a directory.

    """
    return open_keeping_atime(name, _DIRECTORY, dir_fd=descriptor)


def _list_entry(descriptor: int, entry: str, max_depth: int, budget: list[int]) -> Directory:
    status = os.fstat(descriptor)
    directory = Directory(path="", uid=status.st_uid, modified_ns=status.st_mtime_ns)
    try:
        is_directory = stat.S_ISDIR(os.stat(entry, dir_fd=descriptor, follow_symlinks=False).st_mode)
    except OSError:
        is_directory = False  # a prefix of several files' names
    if is_directory:
        _descend(directory, descriptor, entry, max_depth, budget)
        return directory
    listed = _list(descriptor, "", 0, budget)
    directory.files.update(listed.files)
    object.__setattr__(directory, "is_open_to_others", listed.is_open_to_others)
    directory.links.update({name: target for name, target in listed.links.items() if name == entry})
    object.__setattr__(directory, "others", tuple(name for name in listed.others if name == entry))
    return directory


def _list(descriptor: int, path: str, depth: int, budget: list[int], *, is_search: bool = False) -> Directory:
    status = os.fstat(descriptor)
    directory = Directory(path=path, uid=status.st_uid, modified_ns=status.st_mtime_ns)
    start = f"{path}/" if path else ""
    others: list[str] = []
    modes = 0
    subdirectories: dict[str, int] = {}  # names, and when each was changed
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                budget[0] -= 1
                if budget[0] < 0:
                    directory.problems.append(Unknown(what=path or ".", reason="more entries than the scan may read"))
                    break
                name = entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # it was removed after the listing
                except OSError as error:
                    directory.problems.append(_problem(directory.join(name), error))
                    continue
                if stat.S_ISREG(status.st_mode):
                    directory.files[name] = _file(start + name, status)
                    modes |= status.st_mode
                elif not stat.S_ISDIR(status.st_mode):
                    _add_special(directory, descriptor, name, status, others)
                elif name not in OWN_NAMES:
                    subdirectories[name] = status.st_mtime_ns
    except OSError as error:
        directory.problems.append(_problem(path or ".", error))
    for name in _choose_places(directory, subdirectories, is_search=is_search):
        _descend(directory, descriptor, name, depth, budget, is_search=is_search)
    object.__setattr__(directory, "others", tuple(others))
    object.__setattr__(directory, "is_open_to_others", bool(modes & _OF_OTHERS))
    return directory


def choose_scanned(path: str, files: Container[str], subdirectories: Iterable[str]) -> list[str]:
    """Return the subdirectories of a directory that a scan reads, sorted; `path` is relative to the root of the tree.

    Packages are deeper than a scan may go, and would leave the scan of a named directory incomplete.
    """
    names = set(subdirectories)
    return [] if path and _is_environment(files, names) else sorted(names - _PACKAGES)


def _is_environment(files: Container[str], subdirectories: Container[str]) -> bool:
    """Whether a directory with these entries is one of Python or conda."""
    return "pyvenv.cfg" in files or "conda-meta" in subdirectories


def _choose_places(directory: Directory, changed_ns: Mapping[str, int], *, is_search: bool) -> list[str]:
    """Return the subdirectories to which a job may save; in a search, the one that was changed last first."""
    if not is_search:
        return choose_scanned(directory.path, directory.files, changed_ns)
    if _is_environment(directory.files, changed_ns):
        return []
    return sorted(changed_ns.keys() - _NO_PLACES, key=lambda name: (-changed_ns[name], name))


def _problem(path: str, error: OSError) -> Unknown:
    return Unknown(what=path, reason=error.strerror or str(error))


def _file(path: str, status: os.stat_result) -> File:
    values = (
        path,
        status.st_size,
        status.st_mtime_ns,
        status.st_dev,
        status.st_ino,
        status.st_uid,
        status.st_ctime_ns,
    )
    return _new_tuple(File, values)


def _add_special(directory: Directory, descriptor: int, name: str, status: os.stat_result, others: list[str]) -> None:
    if stat.S_ISLNK(status.st_mode):
        directory.links[name] = _read_link(name, descriptor)
        directory.link_facts[name] = (status.st_uid, status.st_mtime_ns)
    else:
        others.append(name)


def _read_link(name: str, descriptor: int) -> str:
    try:
        return os.readlink(name, dir_fd=descriptor)
    except OSError:
        return ""


def _descend(
    directory: Directory, descriptor: int, name: str, depth: int, budget: list[int], *, is_search: bool = False
) -> None:
    path = directory.join(name)
    if depth <= 0:
        directory.problems.append(Unknown(what=path, reason="deeper than the scan may go"))
        return
    try:
        child = open_below(name, descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        directory.problems.append(_problem(path, error))
        return
    try:
        directory.directories[name] = _list(child, path, depth - 1, budget, is_search=is_search)
    finally:
        os.close(child)
