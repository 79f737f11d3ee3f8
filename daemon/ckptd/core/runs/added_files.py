"""Finds the files in a checkpoint's directory that were not saved with it: a person works there, so it stays."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from math import inf

from ckptd.core.model import Checkpoint, FileIdentity

# Text, which people write by hand, and which programs also put beside the bytes of a state.
_TEXT = frozenset(
    [
        *("cfg", "conf", "csv", "html", "ini", "ipynb", "j2", "jinja", "json", "jsonl", "log", "md", "org", "py"),
        *("rst", "sh", "tex", "toml", "tsv", "txt", "yaml", "yml"),
    ]
)
_NS = 1_000_000_000
_SHOWN = 3


def carries_state(file: str, parts: Collection[str]) -> bool:
    """Whether the bytes of a state are in a file; `parts` are the files that formats recognised, empty: all."""
    suffix = file.rpartition("/")[2].rpartition(".")[2].lower()
    return (not parts or file in parts) and suffix not in _TEXT


def list_recognised(found: Checkpoint) -> frozenset[str]:
    """Return the files of a set that formats recognised, relative to its parent; empty where it is one such thing."""
    base = f"{str(found.path.parent).rstrip('/')}/"
    return frozenset(str(part.path.parent / file).removeprefix(base) for part in found.parts for file in part.files)


def explain(found: Checkpoint, tolerance: timedelta) -> str | None:
    """Return which files were written, changed or moved in at another time than the state; None: all belong to it.

    The change time (ctime) tells of a file that was moved in with an old modification time.
    """
    if len(found.files) < 2 or _is_short(found.identities, round(tolerance.total_seconds() * _NS)):
        return None
    margin = round(tolerance.total_seconds() * _NS)
    parts = list_recognised(found)
    pairs = list(zip(found.files, found.identities, strict=False))
    state = [each for file, each in pairs if carries_state(file, parts)]
    if not state:
        return None
    written_until = max(each.modified_ns for each in state) + margin
    changed = [each.changed_ns for each in state]
    span = (min(changed) - margin, max(changed) + margin) if all(changed) else (0, inf)
    added = [
        file.rpartition("/")[2]
        for file, each in pairs
        if not carries_state(file, parts)
        and (each.modified_ns > written_until or not _is_within(each.changed_ns, span))
    ]
    return f"it contains files that are not of the checkpoint: {', '.join(sorted(added)[:_SHOWN])}" if added else None


def _is_within(changed_ns: int, span: tuple[float, float]) -> bool:
    return changed_ns == 0 or span[0] <= changed_ns <= span[1]  # 0: it was not recorded


def _is_short(identities: Iterable[FileIdentity], margin: int) -> bool:
    """Whether all files were written within the margin, which is so nearly always."""
    columns = list(zip(*identities, strict=True))  # this is done for every file of every run
    modified, changed = (list(map(int, columns[at])) for at in (3, 4))
    return max(modified) - min(modified) <= margin and max(changed) - min(changed) <= margin
