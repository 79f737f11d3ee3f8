"""What jobs of a directory's owner read of its checkpoints, and what of it a scan believes.

The owner can write anything into such a result. So it is refused whole if it differs from the schema in anything. Of
the rest, a scan takes only what it need not read itself: the content of a complete checkpoint, whose files are its
owner's own, and are by name, inode, size and times those that the scan has listed. A job cannot say that a checkpoint
is damaged: removals could follow from it, so this node reads such a file itself. It cannot say what is unsafe to load
either, because administrators are notified of that. Device numbers are left out, because those of one file system
differ between nodes.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ckptd.checkpoints.agent import field_checks
from ckptd.checkpoints.formats.interface import Claim, Examination
from ckptd.checkpoints.scanning import examination
from ckptd.checkpoints.scanning.tree import File
from ckptd.core.model import CheckpointState, Role
from ckptd.core.verification import task_results
from ckptd.core.verification.task_results import MAX_BYTES, MAX_NAME, ResultError, is_text, is_whole, require

VERSION = 1
MAX_PIECES = 200_000
MAX_ITEMS = 1000  # of a list or of the metrics
MAX_TEXT = 4096
_DIGEST_BYTES = 16
_FIELDS = frozenset({"path", "format", "files", "content"})
_NOT_SAID = ("state", "reason", "has_checksum", "unchecked")  # complete without a note; the others are of full checks
_ROLES = frozenset(each.value for each in Role)
_BLANK = Examination()


class ReadPiece(NamedTuple):
    """What a task says of one complete thing that a format recognised; its path is relative to the directory."""

    path: str
    format: str
    files: str  # as `identify_files` returns it
    content: Examination


class JobResults:
    """What jobs of one owner have read of one directory."""

    def __init__(self, pieces: Iterable[ReadPiece], uid: int) -> None:
        self._by_path = {piece.path: piece for piece in pieces}
        self._uid = uid

    def find(self, claims: Iterable[Claim]) -> dict[str, Examination]:
        """Return by path what is believed of the claims of a scan."""
        if not self._by_path:
            return {}
        return {
            claim.path: piece.content
            for claim in claims
            if (piece := self._by_path.get(claim.path)) is not None
            and piece.format == claim.format
            and {file.uid for file in claim.files} == {self._uid}  # of no file, nothing is believed
            and piece.files == identify_files(claim.files)
        }


def identify_files(files: Iterable[File]) -> str:
    """Return a digest of the names and identities of files, which is the same on each node that sees them."""
    seen = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for path, size, modified_ns, _device, inode, _uid, changed_ns in sorted(files):
        seen.update(f"{path}\0{inode} {size} {modified_ns} {changed_ns}\n".encode(errors="surrogatepass"))
    return seen.hexdigest()


def encode_result(task: int, read: Iterable[tuple[Claim, Examination]]) -> bytes:
    """Return the content of a task's result file, as long as it may be: what has no place in it is left to scans."""
    pieces: list[str] = []
    left = MAX_BYTES - 100  # for what is around the pieces
    for claim, found in read:
        piece = _encode_piece(claim, found)
        if piece is None:
            continue
        left -= len(piece) + 1
        if left < 0 or len(pieces) == MAX_PIECES:
            break
        pieces.append(piece)
    return f'{{"version":{VERSION},"task":{task},"pieces":[{",".join(pieces)}]}}'.encode()


def _encode_piece(claim: Claim, found: Examination) -> str | None:
    """Return a piece as JSON; None if no scan would believe it."""
    if found.state is not CheckpointState.COMPLETE or found.reason is not None or found.unsafe:
        return None
    content = examination.encode(found, _BLANK)
    for name in _NOT_SAID:
        content.pop(name, None)
    piece = {"path": claim.path, "format": claim.format, "files": identify_files(claim.files), "content": content}
    try:
        _decode_piece(json.loads(text := json.dumps(piece, separators=(",", ":"))))
    except ResultError:  # such as a metric that is no number
        return None
    return text


def parse_result(data: bytes, task: int) -> list[ReadPiece]:
    """Read the result file of a task.

    Raises:
        ResultError: it differs from the schema.

    """
    document = task_results.parse_document(data, parse_float=float)
    require(isinstance(document, dict) and document.keys() == {"version", "task", "pieces"}, "its fields")
    require(is_whole(document["version"]) and document["version"] == VERSION, "its version")
    require(is_whole(document["task"]) and document["task"] == task, "the number of its task")
    pieces = document["pieces"]
    require(isinstance(pieces, list) and len(pieces) <= MAX_PIECES, "its pieces")
    found = [_decode_piece(piece) for piece in pieces]
    require(len({each.path for each in found}) == len(found), "a piece that occurs twice")
    return found


def _decode_piece(piece: Any) -> ReadPiece:
    require(isinstance(piece, dict) and piece.keys() == _FIELDS, "the fields of a piece")
    require(is_text(piece["path"], MAX_NAME), "the path of a piece")
    require(is_text(piece["format"], 64), "the format of a piece")
    require(is_text(piece["files"], 2 * _DIGEST_BYTES), "the files of a piece")
    content = piece["content"]
    require(isinstance(content, dict) and content.keys() <= _CHECKS.keys(), "the content of a piece")
    for name, value in content.items():
        require(_CHECKS[name](value), f"the content of a piece: {name}")
    return ReadPiece(piece["path"], piece["format"], piece["files"], examination.decode(content, _BLANK))


def _is_long_text(value: Any) -> bool:
    return is_text(value, MAX_TEXT)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_ITEMS and all(map(_is_long_text, value))


def _are_metrics(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > MAX_ITEMS:
        return False
    return all(_is_long_text(name) and field_checks.is_number(number) for name, number in value.items())


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "epoch": field_checks.is_number,
    "step": field_checks.is_whole,
    "is_best": field_checks.is_flag,
    "best_paths": _are_texts,
    "goal_epoch": field_checks.is_number,
    "goal_step": field_checks.is_whole,
    "role": lambda value: isinstance(value, str) and value in _ROLES,
    "role_evidence": _is_long_text,
    "is_result": field_checks.is_flag,
    "continued_count": field_checks.is_whole,
    "continued_from_step": field_checks.is_whole,
    "computation": _is_long_text,
    "metrics": _are_metrics,
}
