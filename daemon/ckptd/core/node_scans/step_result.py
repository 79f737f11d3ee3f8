"""What a step prints: its schema, and what of it is believed.

The owner can print anything there. So it is refused whole if it differs from the schema in anything, and says something
only about the owner's own files below the location. It is the owner's statement: docs/decisions/0026.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import Checkpoint, CheckpointState, Level, Scan, Unknown, checkpoint_json
from ckptd.errors import CkptdError

VERSION = 1
MAX_BYTES = 4 << 20
MAX_CHECKPOINTS = 2000
MAX_PARTS = 1000
MAX_FILES = 100_000  # of one checkpoint
MAX_TEXT = 4096
MAX_PROBLEMS = 21
_FIELDS = frozenset({"version", "checkpoints", "problems", "free_bytes", "total_bytes", "filesystem_type"})
_LEVELS = frozenset({Level.LISTED, Level.STRUCTURE})  # no step reads every byte
_UNCHECKED = "of its owner reported this, and this host cannot check it"


class StepResultError(CkptdError):
    """The step did not print what ckptd's own program prints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFindings:
    """What a step found on one node."""

    checkpoints: tuple[Checkpoint, ...]
    problems: tuple[Unknown, ...]
    free_bytes: int | None
    total_bytes: int | None
    filesystem_type: str | None


def encode_result(scan: Mapping[str, Any]) -> bytes:
    """Return what the program prints of an encoded scan."""
    kept = {name: scan[name] for name in _FIELDS - {"version"}}
    return json.dumps({"version": VERSION, **kept}, separators=(",", ":")).encode() + b"\n"


def encode_failure(reason: str) -> bytes:
    """Return what the program prints if it cannot scan the directory."""
    return json.dumps({"version": VERSION, "unknown": reason[:MAX_TEXT]}).encode()


def parse_document(data: bytes) -> Any:
    """Read the last line that a step printed as JSON, for `decode_result`; a TaskProlog of the site may print others.

    Raises:
        StepResultError: it is too large, or not JSON.

    """
    if len(data) > MAX_BYTES:
        raise StepResultError(f"the step printed more than {MAX_BYTES} bytes")
    try:
        return json.loads(
            data.rstrip(b"\n").rpartition(b"\n")[2],
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse,
            parse_float=_parse_number,
        )
    except (ValueError, RecursionError) as error:
        raise StepResultError(f"the step printed no JSON: {type(error).__name__}") from error


def decode_result(document: Any, directory: PurePosixPath, uid: int) -> NodeFindings:
    """Check a parsed document, and return what it says of this user's files.

    Raises:
        StepResultError: it differs from the schema, or says why the directory could not be scanned.

    """
    _require(isinstance(document, dict) and document.get("version") == VERSION, "its version")
    if document.keys() == {"version", "unknown"}:
        _require(_is_text(document["unknown"]), "its reason")
        raise StepResultError(f"the node could not read it: {document['unknown'][:200]}")
    _require(document.keys() == _FIELDS, "its fields")
    _require(_is_list(document["checkpoints"], MAX_CHECKPOINTS), "its checkpoints")
    _require(_is_list(document["problems"], MAX_PROBLEMS), "its problems")
    _require(all(_is_list(each, 2) and len(each) == 2 and all(map(_is_text, each)) for each in document["problems"]),
             "a problem")  # fmt: skip
    for name in ("free_bytes", "total_bytes"):
        _require(document[name] is None or _is_size(document[name]), name)
    _require(document["filesystem_type"] is None or _is_text(document["filesystem_type"]), "its file system")
    found = [_decode_checkpoint(each, directory) for each in document["checkpoints"]]
    _require(len({each.path for each in found}) == len(found), "a checkpoint that occurs twice")
    own = tuple(each for each in found if each.owner_uids <= {uid})
    problems = [Unknown(what=what, reason=reason) for what, reason in document["problems"]]
    if len(own) < len(found):
        problems.append(Unknown(what="checkpoints", reason=f"{len(found) - len(own)} have files of other users"))
    return NodeFindings(
        checkpoints=own,
        problems=tuple(problems),
        free_bytes=document["free_bytes"],
        total_bytes=document["total_bytes"],
        filesystem_type=document["filesystem_type"],
    )


def make_scan(found: NodeFindings, directory: PurePosixPath, host: str, node_count: int, now: datetime) -> Scan:
    """Return what a step on one of a job's nodes found, as a scan.

    Of a job of several nodes, the others may have the rest: a checkpoint that is not complete is Unknown.
    """
    checkpoints = found.checkpoints
    if node_count > 1:
        reason = f"only {host} of {node_count} nodes was scanned, and the others may have the rest"
        checkpoints = tuple(
            each
            if each.state is CheckpointState.COMPLETE
            else replace(each, state=CheckpointState.UNKNOWN, reason=reason)
            for each in checkpoints
        )
    return Scan(
        directory=directory,
        scanned_at=now,
        checkpoints=checkpoints,
        problems=found.problems,
        free_bytes=found.free_bytes,
        total_bytes=found.total_bytes,
        filesystem_type=found.filesystem_type,
    )


def explain_witness(host: str, job_name: str) -> Unknown:
    """Return the problem that every such scan has: so no scan of a node lets anything be removed, or a flag open."""
    return Unknown(what=host, reason=f"a step in job {job_name} {_UNCHECKED}")


def is_witness(problem: Unknown) -> bool:
    """Whether a problem only says that a step in a job did the scan, which may be complete."""
    return problem.reason.endswith(_UNCHECKED)


def _decode_checkpoint(data: Any, directory: PurePosixPath) -> Checkpoint:
    _require(isinstance(data, dict) and _is_bounded(data), "a value of a checkpoint")
    try:
        found = checkpoint_json.decode_checkpoint(data)
        same = json.loads(json.dumps(checkpoint_json.encode_checkpoint(found)))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError, RecursionError) as error:
        raise StepResultError(f"the result differs from its schema: {type(error).__name__}") from error
    _require(same == data, "the fields of a checkpoint")
    _require(len(found.parts) <= MAX_PARTS and not any(each.parts for each in found.parts), "the parts of a checkpoint")
    for each in (found, *found.parts):
        _require(_is_below(each.path, directory), "the path of a checkpoint")
        _require(len(each.files) <= MAX_FILES and len(each.files) == len(each.identities), "the files of a checkpoint")
        _require(all(_is_relative(file) for file in each.files), "the files of a checkpoint")
        _require(each.level in _LEVELS, "the level of a checkpoint")
        _require(_is_size(each.size_bytes) and all(_is_size(file.size_bytes) for file in each.identities), "a size")
    return found


def _is_bounded(value: Any, depth: int = 6) -> bool:
    """Whether all texts and numbers in a value have a length that everything that follows can handle."""
    if isinstance(value, str):
        return _is_text(value) and "\0" not in value
    if isinstance(value, bool | None):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) < 2**63
    if depth == 0 or not isinstance(value, list | dict):
        return False
    inside = value if isinstance(value, list) else [*value, *value.values()]
    return all(_is_bounded(each, depth - 1) for each in inside)


def _require(is_right: bool, what: str) -> None:
    if not is_right:
        raise StepResultError(f"the result differs from its schema in {what}")


def _is_below(path: PurePosixPath, directory: PurePosixPath) -> bool:
    return path != directory and path.is_relative_to(directory) and ".." not in path.parts


def _is_relative(file: str) -> bool:
    return not file.startswith("/") and {"", ".", ".."}.isdisjoint(file.split("/"))


def _is_list(value: Any, longest: int) -> bool:
    return isinstance(value, list) and len(value) <= longest


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be a file's name; its bytes that are not UTF-8 are lone surrogates."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        return False
    try:
        value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _without_duplicates(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _parse_number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:20]} is no number of JSON")
