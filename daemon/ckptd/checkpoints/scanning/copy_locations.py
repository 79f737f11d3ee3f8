"""Resolves the further directories that are named for a job's checkpoints: runs in the agent's child as the job's user.

They are opened only as the user, below the site's allowed roots, and where the user may write. One inside another is
none of its own, because the scan of that one reads it.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.checkpoints.scanning.allowed_roots import is_allowed
from ckptd.checkpoints.scanning.user_paths import expand_home, explain_absence, find_directory, may_write
from ckptd.core.discovery.declared import LONGEST_PATH, MAX_LOCATIONS
from ckptd.core.model import NamedLocation


class Place(NamedTuple):
    """The primary location, and from where relative paths count."""

    work_dir: str | None
    primary: str  # its real path, or as it was named


def resolve(place: Place, named: Sequence[str], roots: Iterable[str]) -> list[NamedLocation]:
    """Return the further locations, in their order and without duplicates; at most MAX_LOCATIONS with the primary."""
    roots = tuple(roots)
    known = [_real_path(place.work_dir, place.primary) or place.primary]
    found: list[NamedLocation] = []
    for path in dict.fromkeys(named[: MAX_LOCATIONS - 1]):
        if (find_directory(place.work_dir, path) or _real_path(place.work_dir, path)) in known:
            continue
        location = _resolve_one(place.work_dir, path[:LONGEST_PATH], roots)
        if location.trouble is None:
            path_of = PurePosixPath(location.directory)
            if any(path_of.is_relative_to(each) for each in known):
                continue  # the scan of that one reads it
            if outer := next((each for each in known if PurePosixPath(each).is_relative_to(path_of)), None):
                location = location._replace(
                    trouble=f"{outer} is inside it: name a directory beside it", is_absent=False
                )
            else:
                known.append(location.directory)
        found.append(location)
    if len(named) > MAX_LOCATIONS - 1:
        trouble = f"{len(named) + 1} locations are named, and ckptd uses the first {MAX_LOCATIONS} only"
        found.append(NamedLocation(named[MAX_LOCATIONS - 1][:LONGEST_PATH], trouble))
    return found


def encode(locations: Iterable[NamedLocation]) -> list[list[Any]]:
    """Turn locations that a declaration names into JSON's types."""
    return [[each.directory, each.trouble, each.is_absent] for each in locations]


def decode(data: Any) -> tuple[NamedLocation, ...]:
    """Build locations again, no more than a declaration may have.

    Raises:
        TypeError, ValueError: the data is not what `encode` makes.

    """
    return tuple(
        NamedLocation(str(directory), None if trouble is None else str(trouble), bool(is_absent))
        for directory, trouble, is_absent in data[:MAX_LOCATIONS]
    )


def _resolve_one(work_dir: str | None, path: str, roots: tuple[str, ...]) -> NamedLocation:
    real = _real_path(work_dir, path)
    if real is None:
        return NamedLocation(path, "it is not a path that ckptd can resolve")
    directory = find_directory(work_dir, path)
    if not is_allowed(directory or real, roots):
        return NamedLocation(path, "it is outside the site's allowed roots")
    if directory is None:
        trouble = explain_absence(work_dir, path)
        return NamedLocation(real, trouble, is_absent=trouble is None)
    if not may_write(directory):
        return NamedLocation(path, "the job's user cannot write there")
    return NamedLocation(directory)


def _real_path(work_dir: str | None, path: str) -> str | None:
    path = expand_home(path) if "\0" not in path else ""
    if not path or (work_dir is None and not path.startswith("/")):
        return None
    return os.path.realpath(os.path.join(work_dir or "/", path))
