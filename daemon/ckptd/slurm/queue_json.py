"""Jobs as `squeue --json` describes them, for the shapes of Slurm 22.05 to 26.05.

22.05 prints bare numbers with 0 or null for none; later versions print `{"set", "infinite", "number"}` and lists of
states. A document with errors is rejected with all its jobs: 22.05 prints an empty list when slurmctld is down.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from ckptd.core.model import ENDED_STATES, SUSPENDED_STATES, Job, JobState, QueueSnapshot, Unknown
from ckptd.core.queue import federation
from ckptd.slurm import array_tasks, failure_reasons, queue_text, times, tres
from ckptd.slurm.failure_reasons import FailureReason

# If job_state is a list, the flag that squeue would show comes before the state that it hides.
_SHOWN_FIRST = (
    JobState.COMPLETING,
    JobState.CONFIGURING,
    JobState.REQUEUE_FED,
    JobState.REQUEUE_HOLD,
    JobState.REQUEUED,
    JobState.RESIZING,
    JobState.SPECIAL_EXIT,
    JobState.STOPPED,
    JobState.SIGNALING,
    JobState.STAGE_OUT,
)
READ = (
    "account", "admin_comment", "array_job_id", "array_max_tasks", "array_task_id", "array_task_string", "batch_flag",
    "batch_host", "cluster", "command", "comment", "cpus", "current_working_directory", "dependency", "end_time",
    "het_job_id", "job_id", "job_state", "mail_user", "name", "node_count", "nodes", "partition", "pre_sus_time", "qos",
    "requeue", "restart_cnt", "start_time", "state_reason", "submit_line", "submit_time", "tasks", "time_limit",
    "tres_alloc_str", "tres_per_job", "tres_per_node", "tres_per_task", "tres_req_str", "user_id", "user_name",
)  # fmt: skip
_MINUTES_OF_INFINITE = 0xFFFFFFFE


def parse(text: str, now: datetime, cluster: str | None = None) -> QueueSnapshot | Unknown:
    """Parse one document; Unknown if it contains errors or is not of squeue's form.

    The snapshot's `slurm_name` is the cluster that the document names, if it names one.
    """
    try:
        document = json.loads(text, object_hook=_drop_unread)
        errors, rows = document["errors"], document["jobs"]
        if errors:
            return failure_reasons.classify("queue", 1, "\n".join(f"error: {_words(error)}" for error in errors))
        own_name = _cluster_of(document, rows)
        name = cluster or own_name
        jobs = tuple(build(row, name, now) for row in rows if has_number(row))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return failure_reasons.make_unknown("queue", FailureReason.GARBLED, f"{type(error).__name__}: {error}")
    return QueueSnapshot(cluster=name, polled_at=now, jobs=jobs, slurm_name=own_name or None)


def _drop_unread(row: dict[str, Any]) -> dict[str, Any]:
    """Remove what is not read of a job, a hundred values since 23.02, before the next job is parsed."""
    return {key: row[key] for key in READ if key in row} if "job_id" in row else row


def _words(error: Any) -> str:  # a part of a document
    return str(error.get("error") or error.get("description") or error) if isinstance(error, Mapping) else str(error)


def _cluster_of(document: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> str:
    """Return the cluster that a document names; before Slurm 23.11, only its jobs do. Empty if none is named."""
    meta = document.get("meta", {})
    named = [meta.get("slurm", {}).get("cluster"), *(row.get("cluster") for row in rows[:1])]
    return next((str(name) for name in named if name), "")


def has_number(row: Mapping[str, Any]) -> bool:
    """Whether a description has a job id, which those of a federation's other clusters lack."""
    return federation.has_number(_number(row["job_id"]))


def build(row: Mapping[str, Any], cluster: str, now: datetime) -> Job:
    """Build one job from its description.

    Raises:
        ValueError, KeyError, TypeError: the description does not have the expected form.

    """
    state = _state(row["job_state"])
    limit = _minutes(row.get("time_limit"))
    ends_at = times.from_epoch(_number(row.get("end_time"))) if limit is not None or state in ENDED_STATES else None
    array_job_id = _number(row.get("array_job_id")) or None
    task_id, task_count = _tasks(row, array_job_id)
    nodes = _number(row.get("node_count")) or 0
    reason = _text(row, "state_reason")
    return Job(
        cluster=cluster,
        job_id=int(row["job_id"]),
        array_job_id=array_job_id,
        array_task_id=task_id,
        array_task_limit=_number(row.get("array_max_tasks")) or None,
        task_count=task_count,
        het_job_id=_number(row.get("het_job_id")) or None,
        user=_text(row, "user_name"),
        uid=int(row["user_id"]),
        account=_text(row, "account"),
        partition=_text(row, "partition"),
        qos=_text(row, "qos"),
        name=_text(row, "name"),
        state=state,
        reason="" if reason == "None" else reason,
        restart_count=int(row["restart_cnt"]),
        is_requeueable=bool(row["requeue"]),
        time_limit=limit,
        time_left=_time_left(row, state, limit, ends_at, now),
        submitted_at=times.from_epoch(_number(row.get("submit_time"))),
        started_at=times.from_epoch(_number(row.get("start_time"))),
        ends_at=ends_at,
        work_dir=PurePosixPath(work_dir) if (work_dir := _text(row, "current_working_directory")) else None,
        comment=_text(row, "comment"),
        admin_comment=_text(row, "admin_comment"),
        command=_text(row, "command") or _text(row, "submit_line"),  # the second since 26.05, also for --wrap
        dependency=_text(row, "dependency"),
        node_list=_text(row, "nodes"),
        batch_host=_text(row, "batch_host"),
        node_count=nodes,
        cpu_count=_number(row.get("cpus")) or 0,
        gpu_count=_gpus(row, nodes),
        is_batch=bool(row.get("batch_flag", True)),
        mail_user=_mail_user(row),
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    """Return a text, which is empty if it is absent; any other type is an error."""
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{key} is no text: {str(value)[:80]}")
    return value or ""


def _mail_user(row: Mapping[str, Any]) -> str | None:
    """Return whom the job's user asked to mail; since 23.02, Slurm fills in the user's own name if nobody is named."""
    name = _text(row, "mail_user")
    return name if name != _text(row, "user_name") and name else None


def _number(value: Any) -> int | None:  # a part of a document
    """Return a number in any of the forms; None if it is unset or infinite."""
    if isinstance(value, Mapping):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value["number"]
    return None if value is None or value == "" else int(value)


def _minutes(value: Any) -> timedelta | None:  # a part of a document
    minutes = _number(value)
    return None if minutes is None or minutes >= _MINUTES_OF_INFINITE else timedelta(minutes=minutes)


def _state(value: str | list[str]) -> JobState:
    words = [value] if isinstance(value, str) else value
    states = [queue_text.STATES.get(word, JobState.UNKNOWN) for word in words]
    return next((state for state in _SHOWN_FIRST if state in states), states[0])


def _tasks(row: Mapping[str, Any], array_job_id: int | None) -> tuple[int | None, int]:
    """Return a task's id, or the number of tasks in the one record that an array's pending tasks share."""
    if array_job_id is None:
        return None, 1
    task_id = _number(row.get("array_task_id"))
    if task_id is not None:
        return task_id, 1
    waiting = array_tasks.parse(row.get("array_task_string") or "")
    return waiting.only, waiting.task_count


def _time_left(
    row: Mapping[str, Any], state: JobState, limit: timedelta | None, ends_at: datetime | None, now: datetime
) -> timedelta | None:
    if limit is None or state in ENDED_STATES:
        return None
    if state is JobState.PENDING or ends_at is None:
        return limit
    if state in SUSPENDED_STATES:
        return max(timedelta(), limit - timedelta(seconds=_number(row.get("pre_sus_time")) or 0))
    return min(limit, max(timedelta(), ends_at - now))


def _gpus(row: Mapping[str, Any], nodes: int) -> int:
    named = row.get("tres_alloc_str") or row.get("tres_req_str") or ""
    return tres.count_gpus(named) or tres.count_requested_gpus(
        row.get("tres_per_node") or "",
        row.get("tres_per_job") or "",
        row.get("tres_per_task") or "",
        nodes,
        _number(row.get("tasks")) or 1,
    )
