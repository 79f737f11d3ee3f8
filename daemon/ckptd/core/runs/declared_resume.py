"""The job's own word for what it loaded: lines of the file `.ckptd/resumed` in its working directory.

A line is a JSON object, `{"path": "/run/epoch_3.pt", "job": 4711, "restart": 1, "time": "2026-11-22T12:00:00+00:00"}`,
or nothing but a path, as a script without ckptd appends it. All of it is hostile input: what is malformed is left out.
The content is a claim of the user, no proof.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

DIRECTORY = ".ckptd"
FILE = "resumed"
LONGEST_PATH = 4096
MAX_LINES = 1000  # the newest: an attempt writes one
_LARGEST = 2**63 - 1
_LONGEST_LINE = 8 * LONGEST_PATH  # a byte of a path takes up to six in JSON
_LONGEST_CLUSTER = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredResume:
    """What one attempt says that it loaded. What is None was not said."""

    path: str  # absolute
    real_path: str | None = None  # without links, as they were when it was said
    cluster: str | None = None
    job_id: int | None = None
    restart_count: int | None = None
    said_at: datetime | None = None


def format_line(said: DeclaredResume) -> str:
    """Return a declaration as one line of ASCII with its newline; bytes that are not UTF-8 stay lone surrogates."""
    fields = {
        "path": said.path,
        "real_path": said.real_path,
        "cluster": said.cluster,
        "job": said.job_id,
        "restart": said.restart_count,
        "time": None if said.said_at is None else said.said_at.isoformat(timespec="milliseconds"),
    }
    return json.dumps({key: value for key, value in fields.items() if value is not None}) + "\n"


def parse_lines(text: str) -> tuple[DeclaredResume, ...]:
    """Return the declarations of a file, oldest first, each once."""
    lines = [line for line in text.split("\n") if line.strip()]
    found = (_parse_line(line) for line in lines[-MAX_LINES:])
    return tuple(dict.fromkeys(each for each in found if each is not None))


def find_of_attempt(
    declared: tuple[DeclaredResume, ...], cluster: str, job_id: int, restart_count: int
) -> DeclaredResume | None:
    """Return what an attempt said last, None where it said nothing."""
    return next(
        (
            each
            for each in reversed(declared)
            if (each.job_id, each.restart_count) == (job_id, restart_count) and each.cluster in {None, cluster}
        ),
        None,
    )


def _parse_line(line: str) -> DeclaredResume | None:
    if len(line) > _LONGEST_LINE:
        return None
    if not line.startswith("{"):
        return DeclaredResume(path=line.strip()) if _is_path(line.strip()) else None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not _is_path(said.get("path")):
        return None
    real_path, cluster = said.get("real_path"), said.get("cluster")
    return DeclaredResume(
        path=said["path"],
        real_path=real_path if _is_path(real_path) else None,
        cluster=cluster if isinstance(cluster, str) and 0 < len(cluster) <= _LONGEST_CLUSTER else None,
        job_id=_whole_number(said, "job"),
        restart_count=_whole_number(said, "restart"),
        said_at=_instant(said.get("time")),
    )


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and len(value) <= LONGEST_PATH and "\0" not in value


def _whole_number(said: Mapping[str, Any], key: str) -> int | None:
    value = said.get(key)
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST
    return value if is_one else None


def _instant(value: object) -> datetime | None:
    """Return an aware instant; a time without its zone may be any."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
