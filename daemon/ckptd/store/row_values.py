"""Makes core values of rows and names their fields once, without SQLAlchemy, so that commands read rows fast."""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, TypeVar

from ckptd.core.model import (
    Attempt,
    FreeSpaceSample,
    Job,
    JobKey,
    RunKey,
    SummedCheckpoints,
    Suspension,
)
from ckptd.core.model.resume_json import decode_resume
from ckptd.core.rows.text_escapes import encode_text

CHUNK_SIZE = 500  # values in one IN (...): far below what either database refuses
Item = TypeVar("Item")

# a job that started is one task; of its command line only what it names is recorded
JOB_FIELDS = tuple(field.name for field in fields(Job) if field.name not in {"task_count", "command"})
ATTEMPT_FIELDS = tuple(field.name for field in fields(Attempt) if field.name != "job")


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


def decode_free_space(samples: Sequence[Sequence[float]] | None) -> tuple[FreeSpaceSample, ...]:
    """Return the samples of free space in a run's row."""
    return tuple(FreeSpaceSample(_instant_of(at), int(free)) for at, free in samples or ())


@functools.lru_cache(maxsize=4096)  # the directories of one request were scanned at the same time
def _instant_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def encode_summed(summed: SummedCheckpoints) -> list[float]:
    """Return the sums over deleted checkpoints as a run's row has them."""
    return [
        summed.checkpoint_count,
        summed.size_bytes,
        summed.first_seen_at.timestamp(),
        summed.last_seen_at.timestamp(),
    ]


def decode_summed(values: Sequence[float] | None) -> SummedCheckpoints | None:
    """Return the sums over deleted checkpoints in a run's row."""
    if values is None:
        return None
    count, size_bytes, first, last = values
    return SummedCheckpoints(
        int(count), int(size_bytes), datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC)
    )


def run_key(row: Sequence[Any]) -> RunKey:
    """Return the run of a row whose first columns are RUN_KEY_COLUMNS."""
    return RunKey(*row[:3])
