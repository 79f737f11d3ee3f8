"""Digests of the files of a checkpoint: which files are asked for, and what of an answer is believed.

Two checkpoints have the same content if the digests of all their files are equal. A digest counts only with the
identity that its file had while it was read, and only if that is the one which the last scan found.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ckptd.core.model import Checkpoint, Unknown
from ckptd.core.verification.task_results import (
    MAX_PIECES,
    MAX_REASON,
    is_identity,
    is_text,
    is_whole,
    parse_document,
    require,
)

DIGEST = "sha256"  # processors and libraries compute it fast, and users can check it with `sha256sum`
VERSION = 1
CHANGED = "its files have changed since the last scan"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class DigestedFile(NamedTuple):
    """A file as it was read to its end."""

    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int
    digest: str


Digests = tuple[DigestedFile, ...]  # of a checkpoint, in the order of its files


class WantedFiles(NamedTuple):
    """The files of a checkpoint below the directory to open, each with the size that it shall have."""

    directory: str
    files: tuple[tuple[str, int], ...]


def list_wanted_files(found: Checkpoint) -> WantedFiles:
    """Return the files of a checkpoint: below the checkpoint itself if all are, and otherwise beside it.

    A location may be the checkpoint itself, and then nothing above it may be opened.
    """
    sizes = tuple(each.size_bytes for each in found.identities)
    within = f"{found.path.name}/"
    if all(file.startswith(within) for file in found.files):
        names = tuple(file.removeprefix(within) for file in found.files)
        return WantedFiles(str(found.path), tuple(zip(names, sizes, strict=False)))
    return WantedFiles(str(found.path.parent), tuple(zip(found.files, sizes, strict=False)))


def decode_digests(data: Any, found: Checkpoint) -> Digests | Unknown:
    """Check what somebody answered who may be subverted: the digests of all files of this checkpoint, or why not.

    Raises:
        ResultError: it differs from the schema.

    """
    _check_digests(data)
    if "refused" in data:
        return Unknown(what=str(found.path), reason=data["refused"])
    require(len(data["files"]) == len(found.files), "the number of files of a checkpoint")
    digests = tuple(DigestedFile(*each) for each in data["files"])
    return digests if are_of(digests, found) else Unknown(what=str(found.path), reason=CHANGED)


def are_of(digests: Digests, found: Checkpoint) -> bool:
    """Return whether just these files of a checkpoint were read. Device numbers differ between nodes and mounts."""
    expected = [(each.inode, each.size_bytes, each.modified_ns, each.changed_ns) for each in found.identities]
    return [each[:4] for each in digests] == expected


def parse_result(data: bytes, task: int) -> dict[str, Any]:
    """Return the content of the result file of this task, which may take much memory if it is not checked first.

    Raises:
        ResultError: it differs from the schema.

    """
    document: dict[str, Any] = parse_document(data)
    _check_result(document, task)
    return document


def decode_result(document: Any, task: int, pieces: Sequence[Checkpoint]) -> tuple[Digests | Unknown, ...]:
    """Check the parsed result of a task, and return what it says of each of these checkpoints.

    Raises:
        ResultError: it differs from the schema.

    """
    _check_result(document, task)
    found = document["checkpoints"]
    require(len(found) == len(pieces), "the number of its checkpoints")
    return tuple(decode_digests(each, piece) for each, piece in zip(found, pieces, strict=True))


def find_difference(original: Checkpoint, digests: Digests, copy: Checkpoint, copied: Digests) -> str | None:
    """Return the first file whose content differs, by its name in the checkpoint; None: all are the same."""
    theirs = dict(zip(copy.files, copied, strict=True))
    for file, read in sorted(zip(original.files, digests, strict=True)):
        if file not in theirs or theirs[file].digest != read.digest:
            return file
    return next((file for file in copy.files if file not in set(original.files)), None)


def _check_result(document: Any, task: int) -> None:
    require(isinstance(document, dict) and document.keys() == {"version", "task", "checkpoints"}, "its fields")
    require(is_whole(document["version"]) and document["version"] == VERSION, "its version")
    require(is_whole(document["task"]) and document["task"] == task, "the number of its task")
    found = document["checkpoints"]
    require(isinstance(found, list) and len(found) <= MAX_PIECES, "the number of its checkpoints")
    for each in found:
        _check_digests(each)


def _check_digests(data: Any) -> None:
    require(isinstance(data, dict) and data.keys() in ({"files"}, {"refused"}), "the fields of a checkpoint")
    if "refused" in data:
        require(is_text(data["refused"], MAX_REASON), "the reason of a checkpoint")
    else:
        require(isinstance(data["files"], list) and all(map(_is_digested, data["files"])), "the files of a checkpoint")


def _is_digested(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 5:
        return False
    return is_identity(value[:4]) and isinstance(value[4], str) and bool(_DIGEST.fullmatch(value[4]))
