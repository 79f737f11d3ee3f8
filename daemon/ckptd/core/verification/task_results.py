"""The result file of one task: its schema, and what of it is believed.

The owner can write anything into it. So it is refused whole if it differs from the schema in anything, and says
something only about the pieces that were requested: docs/decisions/0020.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ckptd.core.model import Checkpoint, CheckpointState, FileIdentity, Level
from ckptd.errors import CkptdError

VERSION = 1
MAX_BYTES = 16 << 20  # of one file; a piece of 100,000 files takes about 10 MB
MAX_PIECES = 100_000
MAX_FILES = 1_000_000  # of one piece
MAX_NAME = 4096  # characters of a path
MAX_REASON = 500
_FIELDS = frozenset({"path", "format", "state", "reason", "files", "identities"})
_STATES = frozenset({CheckpointState.COMPLETE, CheckpointState.DAMAGED, CheckpointState.UNKNOWN})


class ResultError(CkptdError):
    """The result file of a verification job is not what ckptd's own program writes."""


class PieceVerdict(NamedTuple):
    """What a task says of one piece. The path is relative to the run's directory."""

    path: str
    format: str
    state: CheckpointState
    reason: str | None
    files: tuple[str, ...]
    identities: tuple[tuple[int, int, int, int], ...]  # inode, size, times of modification and of change; no device


def judge_piece(piece: Checkpoint, directory: PurePosixPath) -> PieceVerdict:
    """Return the verdict on a piece that was read at level full."""
    state, reason = piece.state, piece.reason
    if state is CheckpointState.COMPLETE and piece.level is not Level.FULL:
        state, reason = CheckpointState.UNKNOWN, "its format has nothing that tells whether every byte is right"
    elif state not in _STATES:
        state, reason = CheckpointState.UNKNOWN, f"it is {state.value}"
    identities = tuple(_without_device(each) for each in piece.identities)
    reason = None if reason is None else reason[:MAX_REASON]
    return PieceVerdict(str(piece.path.relative_to(directory)), piece.format, state, reason, piece.files, identities)


def encode_result(task: int, verdicts: Iterable[PieceVerdict]) -> bytes:
    """Return the content of a task's result file."""
    pieces = [each._asdict() for each in verdicts]
    return json.dumps({"version": VERSION, "task": task, "pieces": pieces}, separators=(",", ":")).encode()


def parse_result(data: bytes, task: int) -> tuple[PieceVerdict, ...]:
    """Read the result file of this task.

    Raises:
        ResultError: it differs from the schema.

    """
    return decode_result(parse_document(data), task)


def parse_document(data: bytes, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Return the JSON types in a result file; without `parse_float`, no result has a number that is not whole.

    Raises:
        ResultError: it is too large, no JSON, or has what no result has.

    """
    if len(data) > MAX_BYTES:
        raise ResultError(f"the result is larger than {MAX_BYTES} bytes")
    try:
        return json.loads(
            data, object_pairs_hook=_without_duplicates, parse_constant=_refuse, parse_float=parse_float or _refuse
        )
    except (ValueError, RecursionError) as error:
        raise ResultError(f"the result is not JSON: {type(error).__name__}") from error


def decode_result(document: Any, task: int) -> tuple[PieceVerdict, ...]:
    """Check a parsed document, and return the verdicts in it.

    Raises:
        ResultError: it differs from the schema.

    """
    require(isinstance(document, dict) and document.keys() == {"version", "task", "pieces"}, "its fields")
    require(is_whole(document["version"]) and document["version"] == VERSION, "its version")
    require(is_whole(document["task"]) and document["task"] == task, "the number of its task")
    pieces = document["pieces"]
    require(isinstance(pieces, list) and len(pieces) <= MAX_PIECES, "its pieces")
    verdicts = tuple(map(_decode_verdict, pieces))
    require(len({(each.path, each.format) for each in verdicts}) == len(verdicts), "a piece that occurs twice")
    return verdicts


def apply_verdicts(
    requested: Iterable[Checkpoint], verdicts: Iterable[PieceVerdict], directory: PurePosixPath
) -> tuple[Checkpoint, ...]:
    """Return the requested pieces with what was said about them; verdicts about anything else are discarded.

    Where the job saw other files than the last scan on this node, the piece has the identities that the job saw, so
    that nobody takes the verdict for one about the recorded files. Device numbers differ between nodes.
    """
    known = {(str(piece.path.relative_to(directory)), piece.format): piece for piece in requested}
    found: list[Checkpoint] = []
    for verdict in verdicts:
        piece = known.get((verdict.path, verdict.format))
        if piece is None:
            continue
        same = verdict.files == piece.files and verdict.identities == tuple(map(_without_device, piece.identities))
        seen = piece.identities if same else tuple(FileIdentity(0, *each) for each in verdict.identities)
        found.append(
            replace(piece, state=verdict.state, reason=verdict.reason, level=Level.FULL, identities=seen, parts=())
        )
    return tuple(found)


def _decode_verdict(data: Any) -> PieceVerdict:
    require(isinstance(data, dict) and data.keys() == _FIELDS, "the fields of a piece")
    require(_is_path(data["path"]), "the path of a piece")
    require(is_text(data["format"], 64), "the format of a piece")
    require(isinstance(data["state"], str) and data["state"] in _STATES, "the state of a piece")
    require(data["reason"] is None or is_text(data["reason"], MAX_REASON), "the reason of a piece")
    files, identities = data["files"], data["identities"]
    require(_is_list(files) and all(map(_is_path, files)), "the files of a piece")
    require(_is_list(identities) and all(map(is_identity, identities)), "the identities of a piece")
    require(len(files) == len(identities), "the number of identities of a piece")
    return PieceVerdict(
        path=data["path"],
        format=data["format"],
        state=CheckpointState(data["state"]),
        reason=data["reason"],
        files=tuple(files),
        identities=tuple((each[0], each[1], each[2], each[3]) for each in identities),
    )


def require(is_right: bool, what: str) -> None:
    """Raise ResultError unless a result is as the schema has it."""
    if not is_right:
        raise ResultError(f"the result differs from its schema in {what}")


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_text(value: Any, longest: int) -> bool:
    """Return whether a value is a text, not empty and of so many characters at most."""
    return isinstance(value, str) and 0 < len(value) <= longest


def _is_path(value: Any) -> bool:
    """Whether a value is a relative path that stays below its directory."""
    if not is_text(value, MAX_NAME) or "\0" in value:
        return False
    return not value.startswith("/") and {"", ".", ".."}.isdisjoint(value.split("/"))


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_FILES


def is_identity(value: Any) -> bool:
    """Return whether a value is an inode, a size and two times.

    Inodes use all 64 bits, and times may be before 1970.
    """
    if not isinstance(value, list) or len(value) != 4:
        return False
    return all(isinstance(each, int) and not isinstance(each, bool) and -(2**63) <= each < 2**64 for each in value)


def _without_device(identity: FileIdentity) -> tuple[int, int, int, int]:
    return identity.inode, identity.size_bytes, identity.modified_ns, identity.changed_ns


def _without_duplicates(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:20]} is no whole number")
