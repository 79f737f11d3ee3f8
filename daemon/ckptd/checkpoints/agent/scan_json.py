"""Encodes scans as JSON, and decodes them with strict checks, because a hostile file may control the child."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from ckptd.checkpoints.agent.answer_pieces import count_items
from ckptd.checkpoints.agent.requests import MAX_CANDIDATES
from ckptd.checkpoints.scanning import declarations
from ckptd.checkpoints.scanning.pointers import decode_link
from ckptd.core.model import Checkpoint, CheckpointRead, Scan, Unknown
from ckptd.core.model.checkpoint_json import decode_checkpoint, encode_checkpoint
from ckptd.core.model.checkpoint_tables import decode_table, encode_tables
from ckptd.core.rows.stored_unrecognised import decode_unrecognised, encode_unrecognised
from ckptd.core.runs import declared_resume

MAX_DECODED = 500_000  # checkpoints: a row of a table has few bytes there, and takes 1.3 KiB here


def encode_scan(scan: Scan, known: Sequence[Checkpoint] = (), *, in_tables: bool = False) -> dict[str, Any]:
    """Encode a scan as JSON types; a checkpoint that is the same as a known one as its number among these.

    Where others are alike, they are tables (`checkpoint_tables`) if the receiver knows these.
    """
    checkpoints = _number_known(scan.checkpoints, known) if known else scan.checkpoints
    items = encode_tables(checkpoints, str(scan.directory)) if in_tables else checkpoints
    return {
        "directory": str(scan.directory),
        "scanned_at": scan.scanned_at.timestamp(),
        "finished_at": None if scan.finished_at is None else scan.finished_at.timestamp(),
        "checkpoints": [encode_checkpoint(each) if isinstance(each, Checkpoint) else each for each in items],
        "problems": [[problem.what, problem.reason] for problem in scan.problems],
        "leftovers": list(scan.leftovers),
        "free_bytes": scan.free_bytes,
        "total_bytes": scan.total_bytes,
        "quota_left_bytes": scan.quota_left_bytes,
        "quota_error": scan.quota_error,
        "is_quota_read": scan.quota_read_at is not None,
        "filesystem_type": scan.filesystem_type,
        "markers": list(scan.markers),
        "links": [list(link) for link in scan.links],
        "reads": [
            [path, checked.timestamp(), None if read is None else read.timestamp()]
            for path, checked, read in scan.reads
        ],
        "declared": [declared_resume.encode_resume(said) for said in scan.declared],
        "fingerprint": scan.fingerprint,
        "entry_count": scan.entry_count,
        "unread_count": scan.unread_count,
        "unrecognised": encode_unrecognised(scan.unrecognised),
    }


def _number_known(found: Iterable[Checkpoint], known: Sequence[Checkpoint]) -> Iterator[Checkpoint | int]:
    numbers = {str(each.path): (number, each) for number, each in enumerate(known)}
    for each in found:
        number, before = numbers.get(str(each.path), (0, None))
        yield number if each is before or each == before else each


def decode_scan(data: dict[str, Any], known_count: int = 0) -> Scan:
    """Decode a scan for which so many checkpoints were known; refuse checkpoints outside its directory.

    Raises:
        KeyError, TypeError, ValueError: the data is not of `encode_scan`'s form.

    """
    directory = PurePosixPath(data["directory"])
    unchanged: list[int] = []
    checkpoints: list[Checkpoint] = []
    most = min(count_items(data["checkpoints"]), MAX_DECODED)  # so many, the caller has memory for
    for each in data["checkpoints"]:  # once: pieces of a long list are parsed meanwhile
        if isinstance(each, int):
            unchanged.append(each)
        elif isinstance(each, list):
            checkpoints += decode_table(each, str(directory))
        else:
            checkpoints.append(_decode_below(each, str(directory)))
        if len(checkpoints) > most:
            raise ValueError(f"there are more than {most} checkpoints")
    if unchanged and not 0 <= min(unchanged) <= max(unchanged) < known_count:
        raise ValueError(f"only {known_count} checkpoints are known")
    if len(set(unchanged)) < len(unchanged):
        raise ValueError("one known checkpoint was found twice")
    return Scan(
        directory=directory,
        scanned_at=datetime.fromtimestamp(float(data["scanned_at"]), UTC),
        checkpoints=tuple(checkpoints),
        unchanged=tuple(unchanged),
        problems=tuple(Unknown(what=str(what), reason=str(reason)) for what, reason in data["problems"]),
        leftovers=tuple(str(name) for name in data["leftovers"]),
        free_bytes=None if data["free_bytes"] is None else int(data["free_bytes"]),
        total_bytes=None if data["total_bytes"] is None else int(data["total_bytes"]),
        quota_left_bytes=None if data["quota_left_bytes"] is None else int(data["quota_left_bytes"]),
        quota_error=_text(data["quota_error"]),
        quota_read_at=datetime.fromtimestamp(float(data["scanned_at"]), UTC) if data["is_quota_read"] else None,
        filesystem_type=_text(data["filesystem_type"]),
        markers=tuple(str(name) for name in data["markers"]),
        finished_at=None if data["finished_at"] is None else datetime.fromtimestamp(float(data["finished_at"]), UTC),
        links=tuple(decode_link(link) for link in data["links"]),
        reads=_decode_reads(data["reads"], directory),
        declared=declarations.decode(data["declared"]),
        fingerprint=_text(data["fingerprint"]),
        entry_count=max(int(data["entry_count"]), 0),
        unread_count=max(int(data["unread_count"]), 0),
        unrecognised=decode_unrecognised(data["unrecognised"]),
    )


def _decode_below(data: dict[str, Any], directory: str) -> Checkpoint:
    checkpoint = decode_checkpoint(data)
    if not _is_below(str(checkpoint.path), directory):
        raise ValueError(f"{checkpoint.path} is not below {directory}")
    return checkpoint


def _is_below(path: str, directory: str) -> bool:
    """Whether a normalised path is that of a directory or below it."""
    return f"{path}/".startswith(f"{directory.rstrip('/')}/") and "/../" not in f"{path}/"


def _decode_reads(data: Any, directory: PurePosixPath) -> tuple[CheckpointRead, ...]:  # of JSON
    if len(data) > MAX_CANDIDATES:
        raise ValueError(f"{len(data)} checkpoints were read or not, more than were asked about")
    return tuple(_decode_read(each, directory) for each in data)


def _decode_read(data: Any, directory: PurePosixPath) -> CheckpointRead:
    path, checked, read = data
    if not PurePosixPath(str(path)).is_relative_to(directory):
        raise ValueError(f"{path} is not below {directory}")
    checked_at = datetime.fromtimestamp(float(checked), UTC)
    return CheckpointRead(str(path), checked_at, None if read is None else datetime.fromtimestamp(float(read), UTC))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
