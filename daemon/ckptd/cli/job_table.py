"""The columns and cells of the table that `ckptd jobs` prints."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ckptd.present.formatting import format_duration, format_size

if TYPE_CHECKING:
    from ckptd.present.responses.job_documents import ListedJobDocument

JOB_COLUMNS = ("job", "user", "name", "state", "left", "restarts", "epoch", "step", "saved", "size", "flags")
DISPENSABLE_COLUMNS = ("step", "size", "restarts", "state")  # a narrow terminal leaves out the first of them


def name_job(row: Mapping[str, Any]) -> object:
    """Return a job's id as Slurm prints it: `ARRAY_TASK` for an array task."""
    is_task = row["array_job_id"] is not None and row["array_task_id"] is not None
    return f"{row['array_job_id']}_{row['array_task_id']}" if is_task else row["job_id"]


def job_cells(row: "ListedJobDocument") -> tuple[object, ...]:
    """Return one job's row of the table."""
    age = row["newest_checkpoint_age_seconds"]
    return (
        name_job(row),
        row["user"],
        row["name"],
        row["state"],
        _duration(row["time_left_seconds"]),
        row["restart_count"],
        row["epoch"],
        row["step"],
        "never" if age is None else f"{_duration(age)} ago",
        format_size(row["checkpoint_bytes"]),
        ", ".join(row["flags"]) or "-",
    )


def _duration(seconds: int | None) -> str:
    return format_duration(None if seconds is None else timedelta(seconds=seconds))
