"""Checkpoint directories that users declare, or `none`: in a job's comment or in `.ckptd.toml`."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ckptd.core.model import Job, RunRecord, Scan, Unknown, UserSettings

MAX_LOCATIONS = 8  # directories of one run: its primary location, and copies
# where a directory is named, as `located_by` calls it: all but a search
NAMING_PLACES = frozenset({"comment", "admin-comment", "user-file", "watch", "batch-script"})
NONE = "none"  # `ckpt=none`: the job does not checkpoint, by design
_STATED = re.compile(r"""(?:^|[\s,;])ckpt=(?:"([^"]+)"|'([^']+)'|([^\s,;]+))""")
LONGEST_PATH = 4096


def stated_path(text: str) -> str | None:
    """Return the value of `ckpt=` in a comment, quoted or up to the next space, comma or semicolon."""
    found = _STATED.search(text) if "ckpt=" in text else None
    return found[1] or found[2] or found[3] if found else None


def split_locations(stated: str) -> tuple[str, ...]:
    """Return the directories of `ckpt=A:B`, the primary location first; empty parts are none."""
    return tuple(part for part in stated.split(":") if part)


def list_directories(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the directories that a `.ckptd.toml` names, the primary location first: `directory`, or `directories`."""
    named = settings.get("directory"), settings.get("directories")
    found = [named[0], *(named[1] if isinstance(named[1], list) else ())]
    return tuple(dict.fromkeys(each[:LONGEST_PATH] for each in found if isinstance(each, str) and each))


def without_stated(text: str) -> str:
    """Return a comment without its `ckpt=` and value."""
    return _STATED.sub(" ", text) if "ckpt=" in text else text


def declared_path(job: Job) -> str | None:
    """Return what a job names for its checkpoints, one path or several; None if it names none."""
    for text in (job.comment, job.admin_comment):
        if stated := stated_path(text):
            return None if stated == NONE else stated
    return None


def is_declared_without(job: Job) -> bool:
    """Whether a job declares that it does not checkpoint."""
    if not job.comment and not job.admin_comment:
        return False
    stated = next((found for text in (job.comment, job.admin_comment) if (found := stated_path(text))), None)
    return stated == NONE


class DeclaredPath(NamedTuple):
    """A directory that was named for checkpoints, and where it was named."""

    where: str
    path: str


_TRUSTED = ("comment", "admin-comment", "user-file")  # who names a directory, as `located_by` calls it
_PLACES = ("comment", "admin comment", ".ckptd.toml")


def list_unmet(history: RunRecord, jobs: Collection[Job] | None = None) -> list[DeclaredPath]:
    """Return the named paths that are no directory, without duplicates: misspelt or not yet created.

    Return none if the last search failed, because it then reports the reason. Paths from sources less trusted than the
    one that was found are ignored.
    """
    scan, is_located = history.scan, history.key.is_located
    if isinstance(scan, Unknown) or (isinstance(scan, Scan) and not is_located and not scan.is_whole):
        return []
    trust = _TRUSTED.index(history.located_by) if history.located_by in _TRUSTED else len(_TRUSTED)
    unmet = dict.fromkeys(
        named
        for job in (history.jobs if jobs is None else jobs)
        for named in _list_named(history.user_settings, job)
        if _PLACES.index(named.where) < trust and not (is_located and means(named.path, job, history.key.directory))
    )
    return list(unmet)


def _list_named(user_settings: UserSettings, job: Job) -> Iterator[DeclaredPath]:
    if is_declared_without(job):
        return
    for where, path in zip(
        _PLACES, (stated_path(job.comment), stated_path(job.admin_comment), user_settings.directory), strict=True
    ):
        if path and path != NONE:
            primary = path if where == _PLACES[-1] else next(iter(split_locations(path)), path)
            yield DeclaredPath(where, primary[:LONGEST_PATH])


def means(path: str, job: Job, directory: str) -> bool:
    """Return whether a path that a job names, or the first of several, is a directory, as its text says."""
    named = (path, *split_locations(path)[:1])
    return any(posixpath.normpath(posixpath.join(str(job.work_dir or "/"), each)) == directory for each in named)
