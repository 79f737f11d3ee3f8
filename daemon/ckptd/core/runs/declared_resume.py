"""The job's own word for what it loaded: lines of the file `.ckptd/resumed` in its working directory.

A line is a JSON object, `{"path": "/run/epoch_3.pt", "job": 4711, "restart": 1, "time": "2026-11-22T12:00:00+00:00"}`,
or nothing but a path, as a script without ckptd appends it. All of it is hostile input: what is malformed is left out.
The content is a claim of the user, no proof.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ckptd.core.model import Attempt, DeclaredResume

DIRECTORY = ".ckptd"
FILE = "resumed"
LONGEST_PATH = 4096
MAX_LINES = 1000  # the newest: an attempt writes one
MAX_DECLARED = 100  # the newest that a scan tells
CLOCKS = timedelta(minutes=5)  # by which those of a cluster differ at most: beyond, MUNGE refuses
WHOLE_SECONDS = timedelta(seconds=2)  # in which Slurm tells instants
_LARGEST = 2**63 - 1
_LONGEST_LINE = 8 * LONGEST_PATH  # a byte of a path takes up to six in JSON
_LONGEST_CLUSTER = 255


def format_line(said: DeclaredResume) -> str:
    """Return a declaration as one line of ASCII with its newline; bytes that are not UTF-8 stay lone surrogates."""
    return json.dumps(encode_resume(said)) + "\n"


def encode_resume(said: DeclaredResume) -> dict[str, Any]:
    """Return a declaration as JSON's types."""
    fields = {
        "path": said.path,
        "real_path": said.real_path,
        "cluster": said.cluster,
        "job": said.job_id,
        "restart": said.restart_count,
        "time": None if said.said_at is None else said.said_at.isoformat(timespec="milliseconds"),
    }
    return {key: value for key, value in fields.items() if value is not None}


def decode_resume(said: object) -> DeclaredResume | None:
    """Return the declaration of JSON's types, None where it names no path; what else is malformed was not said."""
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


def parse_lines(text: str, written_at: datetime | None = None) -> tuple[DeclaredResume, ...]:
    """Return the declarations of a file, oldest first, each once.

    A last line without a time was written when the file was last written, at `written_at`.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    found = [_parse_line(line) for line in lines[-MAX_LINES:]]
    if found and found[-1] is not None and found[-1].said_at is None:
        found[-1] = replace(found[-1], said_at=written_at)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def select_of_jobs(declared: Iterable[DeclaredResume], job_ids: Iterable[int]) -> tuple[DeclaredResume, ...]:
    """Return the declarations that may be those of some jobs, oldest first, and of each execution the last one."""
    wanted = set(job_ids)
    last: dict[tuple[str | None, int | None, int | None], DeclaredResume] = {}
    for each in declared:
        if each.job_id in wanted or (each.job_id is None and each.said_at is not None):
            name = (each.cluster, each.job_id, each.restart_count)
            last.pop(name, None)
            last[name] = each
    return tuple(last.values())[-MAX_DECLARED:]


def find_of_attempt(
    declared: Sequence[DeclaredResume], attempt: Attempt, attempts: Iterable[Attempt], directory: str
) -> DeclaredResume | None:
    """Return what an attempt said last, None where it said nothing.

    A line without a job or a restart count is that of the attempt of the run that was under way when it was written,
    where only one was; without a job, it has to name something in the run's directory.
    """
    others = [each for each in attempts if (each.job, each.restart_count) != (attempt.job, attempt.restart_count)]
    return next((each for each in reversed(declared) if _is_said_by(each, attempt, others, directory)), None)


def _is_said_by(said: DeclaredResume, attempt: Attempt, others: Iterable[Attempt], directory: str) -> bool:
    if not _may_be_said_by(said, attempt) or (said.said_at and not _ran_at(attempt, said.said_at, CLOCKS)):
        return False
    if said.job_id is not None and said.restart_count is not None:
        return True
    if said.said_at is None or not _ran_at(attempt, said.said_at, WHOLE_SECONDS):
        return False
    if said.job_id is None and not (said.real_path or said.path).startswith(f"{directory.rstrip('/')}/"):
        return False
    return not any(_may_be_said_by(said, other) and _ran_at(other, said.said_at, WHOLE_SECONDS) for other in others)


def _may_be_said_by(said: DeclaredResume, attempt: Attempt) -> bool:
    return (
        said.cluster in {None, attempt.job.cluster}
        and said.job_id in {None, attempt.job.job_id}
        and said.restart_count in {None, attempt.restart_count}
    )


def _ran_at(attempt: Attempt, instant: datetime, slack: timedelta) -> bool:
    return attempt.started_at - slack <= instant and (attempt.ended_at is None or instant <= attempt.ended_at + slack)


def _parse_line(line: str) -> DeclaredResume | None:
    if len(line) > _LONGEST_LINE:
        return None
    if not line.startswith("{"):
        return DeclaredResume(path=line.strip()) if _is_path(line.strip()) else None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return decode_resume(said)


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
