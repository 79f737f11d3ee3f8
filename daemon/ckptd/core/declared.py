"""What users declare of a job's checkpoints: words in its comment, and keys of their `.ckptd.toml`.

All of it is hostile input: what is not understood is left out, never believed.
"""

import difflib
import math
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ckptd.core.model import Job, RunHistory, Scan, Unknown, Wishes

NONE = "none"  # `ckpt=none`: the job does not checkpoint, by design
_STATED = re.compile(r"""(?:^|[\s,;])ckpt=(?:"([^"]+)"|'([^']+)'|([^\s,;]+))""")
MAX_MUTED = 100
LONGEST_PATH = 4096
_SIGNAL = re.compile(r"(?:B:)?(?:SIG)?(USR1|USR2|TERM|HUP|INT)")
MAX_MISREAD = 10  # entries of one file of which it is said that they count for nothing
LONGEST_WORD = 60  # of such an entry
LONGEST_PROBLEM = 200
_Meant = tuple[str, Callable[[Any], bool]]  # what a value is, in words, and whether one is that
PROBLEM = "problem"  # stands for the whole of a file that could not be read
_STRAYS = "strays"  # stands for keys that mean nothing


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


def parse_signal(text: object) -> str | None:
    """Return a declared signal as Slurm writes it (`USR1`, `B:USR1` for the batch shell); None for anything else."""
    found = _SIGNAL.fullmatch(text) if isinstance(text, str) else None
    if found is None or not isinstance(text, str):
        return None
    return f"B:{found[1]}" if text.startswith("B:") else found[1]


def select_wishes(table: Mapping[str, Any], known: Mapping[str, Any], others: Collection[str]) -> dict[str, Any]:
    """Return the entries of a `.ckptd.toml` for rules and acts, and which of its keys mean nothing.

    Of a file that cannot be read only that is added to what is `known`: what it said before is still the best known.
    `others` are the keys that somebody else reads.
    """
    if PROBLEM in table:
        return {**known, PROBLEM: str(table[PROBLEM])[:LONGEST_PROBLEM]}
    strays = sorted(key[:LONGEST_WORD] for key in table if key not in _MEANT and key.casefold() not in others)
    return {key: table[key] for key in _MEANT if key in table} | ({_STRAYS: strays[:MAX_MISREAD]} if strays else {})


def list_misread(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each selected entry that counts for nothing, as it is written."""
    said = [f"cannot be read, so what it said before counts: {table[PROBLEM]}"] if PROBLEM in table else []
    for key, (meant, is_meant) in _MEANT.items():
        if key in table and not is_meant(table[key]):
            said.append(f"{key} is {meant}, not {_shorten(table[key])}")
    if table.get("resubmit") is True and "max_resubmits" not in table:
        said.append("resubmit counts for nothing without max_resubmits")
    for stray in table.get(_STRAYS, ()):
        near = difflib.get_close_matches(stray, list(_MEANT), n=1, cutoff=0.6)
        said.append(f"there is no {_shorten(stray)}" + (f"; did you mean {near[0]}?" if near else ""))
    return tuple(said[:MAX_MISREAD])


def _shorten(value: object) -> str:
    said = ascii(value)
    return said if len(said) <= LONGEST_WORD else f"{said[: LONGEST_WORD - 3]}..."


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
        misread=list_misread(table),
    )


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 < value < 2**53 and math.isfinite(value) else None


def _is_list_of_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_BOOLEAN: _Meant = ("true or false", lambda value: isinstance(value, bool))
_COUNT: _Meant = ("a number above 0", lambda value: _positive(value) is not None)
_MEANT: Mapping[str, _Meant] = {  # the keys of `.ckptd.toml` for rules and acts
    "directory": ("a path", lambda value: isinstance(value, str) and bool(value)),
    "checkpoints": _BOOLEAN,
    "signal": (
        "USR1, USR2, TERM, HUP or INT, behind B: for the batch shell",
        lambda value: parse_signal(value) is not None,
    ),
    "epochs": _COUNT,
    "steps": _COUNT,
    "mute": ('a list of rules such as ["too-sparse"]', lambda value: value is True or _is_list_of_words(value)),
    "resubmit": _BOOLEAN,
    "max_resubmits": _COUNT,
}
