"""What users declare of a job's checkpoints: words in its comment, and keys of their `.ckptd.toml`.

All of it is hostile input: what is not understood is left out, never believed.
"""

import math
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ckptd.core.model import Job, RunHistory, Scan, Unknown, Wishes

NONE = "none"  # `ckpt=none`: the job does not checkpoint, by design
_STATED = re.compile(r"""(?:^|[\s,;])ckpt=(?:"([^"]+)"|'([^']+)'|([^\s,;]+))""")
MAX_MUTED = 100
LONGEST_PATH = 4096
WISH_KEYS = ("directory", "checkpoints", "signal", "epochs", "steps", "mute", "resubmit", "max_resubmits")


def stated_path(text: str) -> str | None:
    """Return what a comment says behind `ckpt=`, quoted or up to the next space, comma or semicolon."""
    found = _STATED.search(text)
    return found[1] or found[2] or found[3] if found else None


def declared_path(job: Job) -> str | None:
    """Return the path that a job names for its checkpoints, None where it names none."""
    for text in (job.comment, job.admin_comment):
        if stated := stated_path(text):
            return None if stated == NONE else stated
    return None


def is_declared_without(job: Job) -> bool:
    """Whether a job says of itself that it does not checkpoint."""
    stated = next((found for text in (job.comment, job.admin_comment) if (found := stated_path(text))), None)
    return stated == NONE


class Named(NamedTuple):
    """A place that was named for checkpoints, and where that stands."""

    where: str
    path: str


_TRUSTED = ("comment", "admin-comment", "user-file")  # who names a directory, as `located_by` calls it
_PLACES = ("comment", "admin comment", ".ckptd.toml")


def list_unmet(history: RunHistory, jobs: Collection[Job] | None = None) -> list[Named]:
    """Return the names that led to no directory, each once: most often one that is misspelt or not there yet.

    None where the last look could not tell, for then it says why. A name counts for less than one of greater trust
    that did lead there.
    """
    scan, is_located = history.scan, history.key.is_located
    if isinstance(scan, Unknown) or (isinstance(scan, Scan) and not is_located and not scan.is_whole):
        return []
    trust = _TRUSTED.index(history.located_by) if history.located_by in _TRUSTED else len(_TRUSTED)
    unmet = dict.fromkeys(
        named
        for job in (history.jobs if jobs is None else jobs)
        for named in _list_named(history.wishes, job)
        if _PLACES.index(named.where) < trust and not (is_located and _means(named.path, job, history.key.directory))
    )
    return list(unmet)


def _list_named(wishes: Wishes, job: Job) -> Iterator[Named]:
    if is_declared_without(job):
        return
    for where, path in zip(
        _PLACES, (stated_path(job.comment), stated_path(job.admin_comment), wishes.directory), strict=True
    ):
        if path and path != NONE:
            yield Named(where, path[:LONGEST_PATH])


def _means(path: str, job: Job, directory: str) -> bool:
    return posixpath.normpath(posixpath.join(str(job.work_dir or "/"), path)) == directory


def read_wishes(table: Mapping[str, Any]) -> Wishes:
    """Read what `.ckptd.toml` says to the rules: `checkpoints`, `signal`, `epochs`, `steps`, `mute`, and to acts.

    `resubmit = true` counts for nothing without `max_resubmits`.
    """
    muted = table.get("mute")
    steps = _positive(table.get("steps"))
    return Wishes(
        directory=table["directory"][:LONGEST_PATH] if isinstance(table.get("directory"), str) else None,
        is_saving=table.get("checkpoints") is not False,
        saves_on_signal=isinstance(table.get("signal"), str) and bool(table["signal"]),
        goal_epoch=_positive(table.get("epochs")),
        goal_step=None if steps is None else int(steps),
        signal=table["signal"] if isinstance(table.get("signal"), str) else None,
        is_resubmitted=table.get("resubmit") is True,
        max_resubmits=int(_positive(table.get("max_resubmits")) or 0),
        muted=frozenset(name for name in muted[:MAX_MUTED] if isinstance(name, str))
        if isinstance(muted, list)
        else frozenset(),
    )


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 < value < 2**53 and math.isfinite(value) else None
