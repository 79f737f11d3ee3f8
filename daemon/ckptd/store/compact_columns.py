"""Short forms of what every recorded checkpoint has: rows of checkpoints are most of a database.

What follows from other columns of the row is left out, and numbers are written as differences. Rows that earlier
versions wrote have the long forms; both are read.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ckptd.core.model import FileIdentity, Grouping
from ckptd.core.model.checkpoint_json import decode_grouping

_OWN = "/"  # begins a file's name that begins with that of its checkpoint: no relative name begins so
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORD_BEFORE, _WORD_AFTER = "the word ", " is beside the number"  # the usual evidence
_HAS_WORD, _IS_DIRECTORY = 1, 2


def encode_files(name: str, files: Sequence[str]) -> list[Any]:
    """Return the files of a checkpoint of this name without the name at their beginnings."""
    if any(file.startswith(_OWN) for file in files):  # only a subverted child says so: as it is, in a list of its own
        return [list(files)]
    return [_OWN + file.removeprefix(name) if file.startswith(name) else file for file in files]


def decode_files(name: str, files: Sequence[Any]) -> Sequence[str]:
    """Return the files that `encode_files` or an earlier version wrote."""
    if files and isinstance(files[0], list):
        found: list[str] = files[0]
        return found
    return [name + file[len(_OWN) :] if file.startswith(_OWN) else file for file in files]


def encode_identities(identities: Sequence[FileIdentity], modified_at: datetime, size_bytes: int) -> list[int | None]:
    """Return five numbers a file: how each differs from that of the file before, and the ctime from the mtime.

    The first is compared with what the checkpoint's own columns say. A ctime that was not recorded is None.
    """
    found: list[int | None] = []
    before = _first(len(identities), modified_at, size_bytes)
    for each in identities:
        found += [mine - other for mine, other in zip(each[:4], before[:4], strict=True)]
        found.append(each.changed_ns - each.modified_ns if each.changed_ns else None)
        before = each
    return found


def decode_identities(values: Sequence[Any], modified_at: datetime, size_bytes: int) -> tuple[FileIdentity, ...]:
    """Return the identities that `encode_identities` or an earlier version wrote."""
    if values and isinstance(values[0], list):
        return tuple(FileIdentity(*each) for each in values)
    found: list[FileIdentity] = []
    before = _first(len(values) // 5, modified_at, size_bytes)
    for start in range(0, len(values), 5):
        device, inode, size, modified, changed = values[start : start + 5]
        modified_ns = before.modified_ns + modified
        before = FileIdentity(
            before.device + device,
            before.inode + inode,
            before.size_bytes + size,
            modified_ns,
            0 if changed is None else modified_ns + changed,
        )
        found.append(before)
    return tuple(found)


def _first(file_count: int, modified_at: datetime, size_bytes: int) -> FileIdentity:
    modified_ns = (modified_at - _EPOCH) // timedelta(microseconds=1) * 1000
    return FileIdentity(0, 0, size_bytes // max(file_count, 1), modified_ns)


def encode_grouping(grouping: Grouping) -> list[Any] | None:
    """Return the fields of a grouping in their order, without those at the end that have their defaults."""
    flags = _HAS_WORD * grouping.has_progress_word + _IS_DIRECTORY * grouping.is_directory
    evidence: str | list[str] = grouping.evidence
    if grouping.evidence.startswith(_WORD_BEFORE) and grouping.evidence.endswith(_WORD_AFTER):
        evidence = [grouping.evidence[len(_WORD_BEFORE) : -len(_WORD_AFTER)]]
    values: list[Any] = [grouping.series, list(grouping.progress), evidence, flags, grouping.doubt]
    while values and not values[-1]:
        values.pop()
    return values or None


def decode_row_grouping(values: Any) -> Grouping:
    """Return the grouping that `encode_grouping` or an earlier version wrote."""
    if isinstance(values, dict):
        return decode_grouping(values)
    defaults: tuple[Any, ...] = ("", (), "", 0, None)
    series, progress, evidence, flags, doubt = tuple(values) + defaults[len(values) :]
    if isinstance(evidence, list):
        evidence = f"{_WORD_BEFORE}{evidence[0]}{_WORD_AFTER}"
    return Grouping(
        series=series,
        progress=tuple(progress),
        evidence=evidence,
        has_progress_word=bool(flags & _HAS_WORD),
        is_directory=bool(flags & _IS_DIRECTORY),
        doubt=doubt,
    )
