"""Makes core values of rows and names their fields once, without SQLAlchemy, so that commands read rows fast."""

import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, TypeVar

from ckptd.core.model import (
    Attempt,
    Checkpoint,
    FreeSpaceSample,
    Grouping,
    Job,
    JobKey,
    RecordedCheckpoint,
    Role,
    RunKey,
    Suspension,
)
from ckptd.core.model.checkpoint_json import decode_checkpoint
from ckptd.core.model.resume_json import decode_resume
from ckptd.store.compact_columns import decode_files, decode_identities, decode_row_grouping
from ckptd.store.text_escapes import encode_text

CHUNK_SIZE = 500  # values in one IN (...): far below what either database refuses
Item = TypeVar("Item")

# a job that started is one task; of its command line only what it names is recorded
JOB_FIELDS = tuple(field.name for field in fields(Job) if field.name not in {"task_count", "command"})
ATTEMPT_FIELDS = tuple(field.name for field in fields(Attempt) if field.name != "job")
CHECKPOINT_FIELDS = tuple(field.name for field in fields(Checkpoint))
RECORD_FIELDS = tuple(field.name for field in fields(RecordedCheckpoint) if field.name not in {"checkpoint", "attempt"})


def hash_path(path: str) -> str:
    """Return 32 hexadecimal digits that represent a path of any length in an index."""
    return hashlib.blake2b(encode_text(path).encode(), digest_size=16).hexdigest()


def split(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the items in chunks that fit one statement."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK_SIZE)):
        yield chunk


def job_from_row(row: Sequence[Any]) -> Job:
    """Return the job of a row whose first columns are JOB_FIELDS."""
    values = dict(zip(JOB_FIELDS, row, strict=False))
    if values["work_dir"] is not None:
        values["work_dir"] = PurePosixPath(values["work_dir"])
    return Job(**values)


def attempt_from_row(key: JobKey, row: Sequence[Any]) -> Attempt:
    """Return the attempt of a row whose columns are ATTEMPT_FIELDS."""
    values = dict(zip(ATTEMPT_FIELDS, row, strict=True))
    values["suspensions"] = tuple(_suspension(pair) for pair in values["suspensions"] or ())
    values["resumed_from"] = decode_resume(values["resumed_from"]) if values["resumed_from"] else None
    return Attempt(job=key, **values)


def _suspension(pair: Sequence[str | None]) -> Suspension:
    began_at, ended_at = (None if text is None else datetime.fromisoformat(text) for text in pair)
    assert began_at is not None
    return Suspension(began_at, ended_at)


_NO_METRICS: Mapping[str, float] = {}
_NO_GROUPING = Grouping()
_share_uids = functools.lru_cache(maxsize=4096)(frozenset[int])


class SharedValues:
    """Makes equal values of many rows one object, because checkpoints take most of the daemon's memory."""

    def __init__(self) -> None:
        self._instants: dict[datetime, datetime] = {}
        self._attempts: dict[tuple[JobKey, int], tuple[JobKey, int]] = {}

    def attempt(self, key: JobKey, restart_count: int) -> tuple[JobKey, int]:
        name = (key, restart_count)
        return self._attempts.setdefault(name, name)

    def instant(self, value: Any) -> Any:  # a field of any type
        return self._instants.setdefault(value, value) if isinstance(value, datetime) else value


def checkpoint_from_row(
    record: Sequence[Any], content: Sequence[Any], attempt: tuple[JobKey, int] | None, shared: SharedValues
) -> RecordedCheckpoint:
    """Return the checkpoint of a row in two parts: RECORD_FIELDS and CHECKPOINT_FIELDS."""
    values = dict(zip(CHECKPOINT_FIELDS, content, strict=True))
    values["path"] = PurePosixPath(values["path"])
    values["files"] = tuple(map(sys.intern, decode_files(values["path"].name, values["files"])))
    values["format"] = sys.intern(values["format"])
    values["identities"] = decode_identities(values["identities"], values["modified_at"], values["size_bytes"])
    values["owner_uids"] = _share_uids(tuple(values["owner_uids"]))
    values["unsafe"] = tuple(values["unsafe"])
    values["metrics"] = values["metrics"] or _NO_METRICS
    values["modified_at"] = shared.instant(values["modified_at"])
    values["role"] = values["role"] or Role.DATA
    values["role_evidence"] = sys.intern(values["role_evidence"] or "")
    values["is_result"] = bool(values["is_result"])
    values["grouping"] = decode_row_grouping(values["grouping"]) if values["grouping"] else _NO_GROUPING
    values["parts"] = tuple(decode_checkpoint(part) for part in values["parts"] or ())
    times = dict(zip(RECORD_FIELDS, map(shared.instant, record), strict=True))
    return RecordedCheckpoint(checkpoint=Checkpoint(**values), attempt=attempt, **times)


def decode_free_space(samples: Sequence[Sequence[float]] | None) -> tuple[FreeSpaceSample, ...]:
    """Return the samples of free space in a run's row."""
    return tuple(FreeSpaceSample(datetime.fromtimestamp(at, UTC), int(free)) for at, free in samples or ())


def run_key(row: Sequence[Any]) -> RunKey:
    """Return the run of a row whose first columns are RUN_KEY_COLUMNS."""
    return RunKey(*row[:3])
