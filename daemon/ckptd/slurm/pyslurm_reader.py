"""The child process that queries pyslurm and prints one line of JSON per job.

libslurm ends its process on a bad configuration, waits minutes for a hung munge and crashes on some versions, so it
is never loaded into the daemon. Run as `python -m ckptd.slurm.pyslurm_reader version|jobs`; the rows
have the keys of `squeue --json` 22.05, which is what the parent reads.
"""

import json
import pwd
import sys
from collections.abc import Iterator, Mapping
from typing import Any

NOT_INSTALLED = 3  # exit status; `pyslurm_source` has it too, because a module that is run must not be imported before
# Slurm's NO_VAL and INFINITE for 32 and 16 bits, as the older interface returns them.
_NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFE, 0xFFFF})


def main(argv: list[str]) -> int:
    """Print the version or the jobs; exit with NOT_INSTALLED if pyslurm is missing."""
    try:
        import pyslurm  # noqa: PLC0415  # the import itself may end the process
    except ImportError as error:
        sys.stderr.write(f"error: {error}\n")
        return NOT_INSTALLED
    if argv == ["version"]:
        sys.stdout.write(f"{pyslurm.__version__}\n")
        return 0
    if hasattr(pyslurm, "Jobs"):
        rows = (modern_row(job) for job in pyslurm.Jobs.load().values())
    else:
        rows = (older_row(job_id, job) for job_id, job in (pyslurm.job().get() or {}).items())
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.write('{"end": true}\n')
    return 0


def read_text(job: object, name: str) -> str:
    """Return a text attribute; pyslurm raises for bytes that are not UTF-8, and the error contains them."""
    try:
        value = getattr(job, name)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


def modern_row(job: Any) -> dict[str, Any]:  # pyslurm has no types
    """Describe a job of `pyslurm.Jobs.load()` (22.5 and later)."""
    waiting = job.array_tasks_waiting
    # 25.11 gives None for task 0, as it does for the record of an array's pending tasks.
    task_id = job.array_task_id if job.array_task_id or waiting or not job.array_id else 0
    return {
        "job_id": job.id,
        "array_job_id": job.array_id,
        "array_task_id": task_id,
        "array_task_string": str(waiting or ""),
        "array_max_tasks": job.array_tasks_parallel,
        "het_job_id": job.heterogeneous_id,
        "user_name": read_text(job, "user_name"),
        "user_id": job.user_id,
        **{key: read_text(job, key) for key in ("account", "partition", "qos", "name", "comment", "admin_comment")},
        "job_state": job.state,
        "state_reason": read_text(job, "state_reason"),
        "restart_cnt": job.requeue_count,
        "requeue": job.is_requeueable,
        "time_limit": job.time_limit,
        "submit_time": job.submit_time,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "pre_sus_time": getattr(job, "pre_suspension_time", None),
        "current_working_directory": read_text(job, "working_directory"),
        "command": read_text(job, "command"),
        "dependency": _dependency(job.dependencies),
        "nodes": job.allocated_nodes or "",
        "batch_host": job.batch_host or "",
        "node_count": job.num_nodes,
        "cpus": job.cpus,
        "gpu_count": _gpus(job),
        "batch_flag": job.is_batch_job,
        "mail_user": ",".join(job.mail_user or ()),
    }


def _gpus(job: Any) -> int:  # pyslurm has no types
    per_node = sum(_gpu_counts(job.gres_per_node)) * (job.num_nodes or 1)
    return sum(_gpu_counts(getattr(job, "gpus", None))) or per_node


def _gpu_counts(gres: object) -> Iterator[int]:
    if isinstance(gres, Mapping):
        yield from (int(count) for name, count in gres.items() if "gpu" in str(name))


def _dependency(value: object) -> str:
    """Write pyslurm's mapping as Slurm does, `afterok:1:2,singleton`."""
    if not isinstance(value, Mapping):
        return str(value or "")
    words = []
    for kind, jobs in value.items():
        if kind == "singleton":
            words += ["singleton"] if jobs else []
        elif kind != "satisfy" and jobs:
            words.append(":".join([str(kind), *map(str, jobs)]))
    return ("?" if value.get("satisfy") == "any" else ",").join(words)


def older_row(job_id: int, job: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a job of `pyslurm.job().get()` (up to 22.5)."""
    limit = job.get("time_limit")
    return {
        **{
            key: _plain(job.get(key))
            for key in (
                "array_job_id", "array_task_id", "het_job_id", "user_id", "account", "partition", "qos", "name",
                "job_state", "state_reason", "requeue", "submit_time", "start_time", "end_time", "pre_sus_time",
                "comment", "admin_comment", "command", "dependency", "nodes", "batch_host", "tres_alloc_str",
                "tres_per_node", "tres_per_job", "tres_per_task", "batch_flag", "mail_user", "restart_cnt",
            )
        },
        "job_id": int(job_id),
        "array_task_string": job.get("array_task_str") or "",
        "array_max_tasks": _plain(job.get("array_task_throttle")),
        "user_name": _user_name(job["user_id"]),
        "time_limit": None if isinstance(limit, str) else _plain(limit),
        "current_working_directory": job.get("work_dir") or "",
        "node_count": _plain(job.get("num_nodes")),
        "cpus": _plain(job.get("num_cpus")),
    }  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return None if isinstance(value, int) and value in _NO_VALUES else value


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
