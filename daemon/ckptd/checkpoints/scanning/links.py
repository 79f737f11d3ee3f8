"""Symbolic links among checkpoints: never followed, but a link with a checkpoint's name shows which one it means."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ckptd.checkpoints.formats.checkpoint_names import is_called_checkpoint, looks_like_checkpoint
from ckptd.checkpoints.scanning.tree import Directory
from ckptd.core.model import Checkpoint

_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".h5", ".keras", ".safetensors", ".npz", ".cpt", ".tar")
_WORDS = frozenset({"last", "latest", "best", "newest"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One link. `checkpoint` is its target; without one, `problem` is the reason."""

    path: str  # relative to the root of the tree
    target: str  # as the link has it
    checkpoint: Checkpoint | None = None
    problem: str | None = None


def find_links(tree: Directory, checkpoints: Sequence[Checkpoint], root: str) -> Iterator[Link]:
    """Yield the links to a checkpoint of the tree, and those with a checkpoint's name and no such target."""
    linking = [directory for directory in tree.walk() if directory.links]
    if not linking:
        return
    by_path = {str(checkpoint.path): checkpoint for checkpoint in checkpoints}
    for directory in linking:
        for name, target in directory.links.items():
            place = posixpath.join(root, directory.path)
            meant = by_path.get(posixpath.normpath(posixpath.join(place, target)))
            path = directory.join(name)
            if meant is not None:
                yield Link(path=path, target=target, checkpoint=meant)
            elif _is_named_like_one(name) and _is_listed_as_missing(tree, root, place, target):
                yield Link(path=path, target=target, problem=f"a link to {target!r}, which is not there")


def _is_named_like_one(name: str) -> bool:
    stem = name.partition(".")[0].lower()
    return (
        name.lower().endswith(_SUFFIXES)
        or stem in _WORDS
        or looks_like_checkpoint(name)
        or (is_called_checkpoint(name) and "." not in name)
    )


def _is_listed_as_missing(tree: Directory, root: str, place: str, target: str) -> bool:
    """Return whether the target would be in the tree and does not exist; targets outside were not checked."""
    path = posixpath.relpath(posixpath.normpath(posixpath.join(place, target)), root)
    here: Directory | None = tree
    *parents, name = path.split("/")
    for parent in parents:
        if parent in {"..", "."}:
            return False
        here = here.directories.get(parent) if here else None
    if name in {"..", "."}:
        return False
    return here is None or not (name in here.files or name in here.directories or name in here.links)
