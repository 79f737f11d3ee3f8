"""Converts core values to rows, and names the columns of statements; `row_values` converts rows to core values."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from ckptd.core.model import Attempt, Job, Resume
from ckptd.core.model.resume_json import encode_resume
from ckptd.store.row_values import (
    ATTEMPT_FIELDS,
    JOB_FIELDS,
    attempt_from_row,
    job_from_row,
    run_key,
    split,
)
from ckptd.store.table_base import Base
from ckptd.store.tables import AttemptTable, JobTable, RunTable

__all__ = [
    "ATTEMPT_COLUMNS",
    "JOB_COLUMNS",
    "JOB_FIELDS",
    "ROW_IDS",
    "RUN_KEY_COLUMNS",
    "attempt_from_row",
    "attempt_to_row",
    "job_from_row",
    "job_to_row",
    "list_columns",
    "resume_to_row",
    "run_key",
    "split",
    "table_of",
    "without_index",
]

# of a statement that is made once: to make one takes SQLAlchemy longer than SQLite takes to run it
ROW_IDS: sa.BindParameter[Any] = sa.bindparam("row_ids", expanding=True)


def table_of(mapped: type[Base]) -> sa.Table:
    """Return the table of a mapped class, for statements that change many rows."""
    table = mapped.__table__
    assert isinstance(table, sa.Table)
    return table


def without_index(column: sa.ColumnElement[Any] | sa.orm.InstrumentedAttribute[Any]) -> sa.ColumnElement[Any]:
    """Return a text column as an expression with the same value, so that no index of this column is used.

    Without statistics, SQLite takes the index with an equal cluster, although nearly all rows may be of one cluster.
    """
    return column.concat(sa.literal_column("''"))


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


JOB_COLUMNS = list_columns(JobTable, JOB_FIELDS)
ATTEMPT_COLUMNS = list_columns(AttemptTable, ("resume" if name == "resumed_from" else name for name in ATTEMPT_FIELDS))
RUN_KEY_COLUMNS = [RunTable.cluster, RunTable.uid, RunTable.directory]
