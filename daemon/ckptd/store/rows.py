"""Converts core values to rows, and names the columns of statements; `row_values` converts rows to core values."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import Attempt, Job, RecordedCheckpoint, Resume
from ckptd.core.model.checkpoint_json import encode_checkpoint
from ckptd.core.model.resume_json import encode_resume
from ckptd.store.compact_columns import encode_files, encode_grouping, encode_identities
from ckptd.store.row_values import (
    ATTEMPT_FIELDS,
    CHECKPOINT_FIELDS,
    JOB_FIELDS,
    RECORD_FIELDS,
    SharedValues,
    attempt_from_row,
    checkpoint_from_row,
    hash_path,
    job_from_row,
    run_key,
    split,
)
from ckptd.store.table_base import Base
from ckptd.store.tables import AttemptTable, CheckpointTable, JobTable, RunTable

__all__ = [
    "ATTEMPT_COLUMNS",
    "CHECKPOINT_COLUMNS",
    "JOB_COLUMNS",
    "JOB_FIELDS",
    "RECORD_COLUMNS",
    "RUN_KEY_COLUMNS",
    "SharedValues",
    "attempt_from_row",
    "attempt_to_row",
    "checkpoint_from_row",
    "checkpoint_to_row",
    "job_from_row",
    "job_to_row",
    "list_columns",
    "resume_to_row",
    "run_key",
    "split",
    "table_of",
]


def table_of(mapped: type[Base]) -> sa.Table:
    """Return the table of a mapped class, for statements that change many rows."""
    table = mapped.__table__
    assert isinstance(table, sa.Table)
    return table


def list_columns(mapped: type[Base], names: Iterable[str]) -> list[sa.ColumnElement[Any]]:
    """Return the columns that hold the named fields, in their order."""
    return [getattr(mapped, name) for name in names]


def job_to_row(job: Job) -> dict[str, Any]:
    values = {name: getattr(job, name) for name in JOB_FIELDS}
    if job.work_dir is not None:
        values["work_dir"] = str(job.work_dir)
    return values


def attempt_to_row(attempt: Attempt) -> dict[str, Any]:
    values = {name: getattr(attempt, name) for name in ATTEMPT_FIELDS}
    pairs = [[instant and instant.isoformat() for instant in each] for each in attempt.suspensions]
    return values | {"suspensions": pairs or None} | resume_to_row(attempt.resumed_from)


def resume_to_row(resume: Resume | None) -> dict[str, Any]:
    """Return the columns that record what an attempt resumed from."""
    return {"resume": resume and encode_resume(resume), "resumed_from": resume and resume.path}


def checkpoint_to_row(recorded: RecordedCheckpoint) -> dict[str, Any]:
    checkpoint = recorded.checkpoint
    values = {name: getattr(recorded, name) for name in RECORD_FIELDS}
    values |= {name: getattr(checkpoint, name) for name in CHECKPOINT_FIELDS}
    values["path"] = str(checkpoint.path)
    values["path_hash"] = hash_path(values["path"])
    values["files"] = encode_files(checkpoint.path.name, checkpoint.files)
    values["identities"] = encode_identities(checkpoint.identities, checkpoint.modified_at, checkpoint.size_bytes)
    values["owner_uids"] = sorted(checkpoint.owner_uids)
    values["metrics"] = dict(checkpoint.metrics)
    values["unsafe"] = list(checkpoint.unsafe)
    values["grouping"] = encode_grouping(checkpoint.grouping)
    values["parts"] = [encode_checkpoint(part) for part in checkpoint.parts] or None
    return values


JOB_COLUMNS = list_columns(JobTable, JOB_FIELDS)
ATTEMPT_COLUMNS = list_columns(AttemptTable, ("resume" if name == "resumed_from" else name for name in ATTEMPT_FIELDS))
CHECKPOINT_COLUMNS = list_columns(CheckpointTable, CHECKPOINT_FIELDS)
RECORD_COLUMNS = list_columns(CheckpointTable, RECORD_FIELDS)
RUN_KEY_COLUMNS = [RunTable.cluster, RunTable.uid, RunTable.directory]
