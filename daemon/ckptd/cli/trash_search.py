"""Finds the trashes below directories by their names; reads nothing in them and follows no link."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.checkpoints.agent.trash_client import TrashLocation
from ckptd.checkpoints.trash import TRASH, TrashEntry, list_places
from ckptd.core.model import Unknown

MAX_DEPTH = 10
MAX_NAMES = 2_000_000  # below all given directories together


class TrashSearch(NamedTuple):
    """The trashes that were found, and the directories that could not be searched."""

    places: tuple[TrashLocation, ...]
    problems: tuple[Unknown, ...]


def find_trashes(directories: Iterable[str]) -> TrashSearch:
    """Find the trashes beside, in and below these directories that this process may read."""
    problems: list[Unknown] = []
    places: dict[TrashLocation, None] = {}
    names_left = [MAX_NAMES]
    for directory in directories:
        path = os.path.realpath(directory)
        beside = [str(place) for place in list_places(PurePosixPath(path)) if place.parent != PurePosixPath(path)]
        for found in (*beside, *_walk(path, MAX_DEPTH, names_left, problems)):
            place = _check(found)
            if place is not None:
                places[place] = None
    return TrashSearch(tuple(places), tuple(problems))


def _walk(path: str, depth: int, names_left: list[int], problems: list[Unknown]) -> Iterator[str]:
    below: list[str] = []
    try:
        with os.scandir(path) as found:
            for each in found:
                names_left[0] -= 1
                if names_left[0] < 0:
                    break
                if each.is_dir(follow_symlinks=False):
                    below.append(each.path)
    except OSError as error:
        problems.append(Unknown(what=path, reason=error.strerror or str(error)))
    if names_left[0] < 0:
        reason = f"it has more than {MAX_NAMES} entries: name a subdirectory"
        problems.append(Unknown(what=path, reason=reason))
        return
    for child in sorted(below):
        if os.path.basename(child) == TRASH:
            yield child
        elif depth == 0:
            problems.append(Unknown(what=child, reason="it is too deep to search: name it explicitly"))
        elif names_left[0] >= 0:
            yield from _walk(child, depth - 1, names_left, problems)


def _check(path: str) -> TrashLocation | None:
    """Return the trash at a path with its owner; None if it is none or this process may not read it."""
    with suppress(OSError):
        status = os.stat(path, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and os.geteuid() in {0, status.st_uid}:
            return TrashLocation(status.st_uid, PurePosixPath(path))
    return None


def is_of_owner(entry: TrashEntry, uid: int) -> bool:
    """Whether the directory to which an entry would be restored belongs to this uid."""
    for path in (entry.run.directory, str(entry.place.parent)):
        with suppress(FileNotFoundError):
            return os.stat(path, follow_symlinks=False).st_uid == uid
    return False
