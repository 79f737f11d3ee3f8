"""Collects what the jobs of a run say in `.ckptd/resumed` that they loaded: hostile files, read as their owner.

A file is read below the site's allowed roots only, and in a child that is given up where a dead file system does not
answer. Where a file cannot be read, nothing was said.
"""

import functools
import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from ckptd.checkpoints.agent import abandonable_child
from ckptd.checkpoints.scanning import resumed_file
from ckptd.checkpoints.scanning.allowed_roots import OutsideRootsError, open_allowed
from ckptd.core.model import DeclaredResume, Unknown
from ckptd.core.runs import declared_resume

MAX_PLACES = 9  # the working directories of a scan, and the directory itself
SECONDS = 5.0  # that one directory may take


def collect(places: Iterable[str], roots: Sequence[str], job_ids: Sequence[int]) -> tuple[DeclaredResume, ...]:
    """Return the declared resumes of these jobs in some directories, oldest first, and those that name no job.

    It forks: call it from a process with one thread.
    """
    wanted = list(islice(dict.fromkeys(places), MAX_PLACES))
    if not job_ids or not wanted:
        return ()

    found: list[DeclaredResume] = []
    for place in wanted:
        answer = abandonable_child.run(functools.partial(_read_words, place, roots, job_ids), SECONDS)
        if isinstance(answer, Unknown):
            break  # of what a child was given up for, the next may be, too
        with suppress(ValueError):
            found += decode(answer)
    ordered = sorted(dict.fromkeys(found), key=lambda each: each.said_at.timestamp() if each.said_at else 0.0)
    return declared_resume.select_of_jobs(ordered, job_ids)


def decode(data: object) -> tuple[DeclaredResume, ...]:
    """Build declarations from their JSON.

    Raises:
        ValueError: the data is none, or is more than a scan tells.

    """
    if not isinstance(data, list) or len(data) > declared_resume.MAX_DECLARED:
        raise ValueError("no list of declared resumes")
    found = tuple(declared_resume.decode_resume(each) for each in data)
    if None in found:
        raise ValueError("a declared resume names no path")
    return tuple(each for each in found if each is not None)


def _read_words(
    place: str, roots: Sequence[str], job_ids: Sequence[int], _progress: Callable[[], None]
) -> list[dict[str, Any]]:
    said = declared_resume.select_of_jobs(_read(place, roots), job_ids)
    return [declared_resume.encode_resume(_without_links(each)) for each in said]


def _read(place: str, roots: Sequence[str]) -> tuple[DeclaredResume, ...]:
    real = os.path.realpath(place)
    with suppress(OSError, OutsideRootsError, resumed_file.NotOwnFileError), open_allowed(real, roots) as descriptor:
        return resumed_file.read(descriptor)
    return ()


def _without_links(said: DeclaredResume) -> DeclaredResume:
    """Add the path without links on the way; one at the end may have led elsewhere when the job read it."""
    if said.real_path is not None:
        return said
    parent, name = posixpath.split(posixpath.normpath(said.path))
    return replace(said, real_path=posixpath.join(os.path.realpath(parent), name))
