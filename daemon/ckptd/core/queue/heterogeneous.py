"""Joins the components of a heterogeneous job, which Slurm lists as separate jobs, to one job.

Slurm starts and requeues all components together, and the script runs on the first one, whose id is used for the whole
job. If a component ends before the others, the job continues without its nodes.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.model import ENDED_STATES, EndedAttempt, Job, PastJob

# between what Slurm notes of parts that it starts, or ends, one after another at once
START_TOLERANCE = timedelta(seconds=5)
END_TOLERANCE = timedelta(seconds=2)


def join_parts(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs, with each heterogeneous job as its first component with the nodes of all running ones.

    Omit components whose first one is not in the queue.
    """
    shown: list[Job] = []
    parts: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.het_job_id is None or job.het_job_id == job.job_id:
            shown.append(job)
        else:
            parts[job.het_job_id].append(job)
    if not parts:
        return tuple(shown)
    return tuple(_join(job, parts[job.job_id]) if job.job_id in parts else job for job in shown)


def _join(first: Job, parts: Iterable[Job]) -> Job:
    has_ended = first.state in ENDED_STATES
    alike = [part for part in parts if (part.state in ENDED_STATES) == has_ended]
    if has_ended:
        alike = [part for part in alike if _lasted(part.ends_at, first.ends_at)]
    return replace(
        first,
        node_count=first.node_count + sum(part.node_count for part in alike),
        cpu_count=first.cpu_count + sum(part.cpu_count for part in alike),
        gpu_count=first.gpu_count + sum(part.gpu_count for part in alike),
    )


def join_ended(rows: Iterable[EndedAttempt]) -> tuple[EndedAttempt, ...]:
    """Return accounting's rows, with the components of an execution as one row with the nodes at its end.

    Omit components whose first one is missing, and executions that still run.
    """
    firsts: list[EndedAttempt] = []
    parts: dict[int, list[EndedAttempt]] = defaultdict(list)
    for row in rows:
        if row.het_job_id is None or row.het_job_id == row.job_id:
            firsts.append(row)
        else:
            parts[row.het_job_id].append(row)
    ended = [row for row in firsts if row.ended_at is not None]
    return tuple(_join_ended(row, parts[row.job_id]) if row.job_id in parts else row for row in ended)


def _join_ended(first: EndedAttempt, parts: Iterable[EndedAttempt]) -> EndedAttempt:
    own = [part for part in parts if _is_together(part, first) and _lasted(part.ended_at, first.ended_at)]
    return first._replace(
        node_list=",".join(row.node_list for row in (first, *own) if row.node_list),
        node_count=first.node_count + sum(part.node_count for part in own),
        cpu_count=first.cpu_count + sum(part.cpu_count for part in own),
        gpu_count=first.gpu_count + sum(part.gpu_count for part in own),
    )


def join_past(found: Iterable[PastJob]) -> tuple[PastJob, ...]:
    """Return the executions of ended jobs, joined in the same way, oldest end first."""
    firsts: list[PastJob] = []
    parts: dict[int, list[PastJob]] = defaultdict(list)
    for each in found:
        if each.job.het_job_id in {None, each.job.job_id}:
            firsts.append(each)
        elif each.job.het_job_id is not None:
            parts[each.job.het_job_id].append(each)
    joined = (_join_past(each, parts[each.job.job_id]) if each.job.job_id in parts else each for each in firsts)
    return tuple(sorted(joined, key=lambda each: (each.ended_at, each.job.job_id)))


def _join_past(first: PastJob, parts: Iterable[PastJob]) -> PastJob:
    own = [part.job for part in parts if _is_together(part, first)]
    return replace(first, job=_join(first.job, own))


def _is_together(part: EndedAttempt | PastJob, first: EndedAttempt | PastJob) -> bool:
    """Whether two rows belong to one execution; a job id has a row for each execution."""
    if part.started_at is None or first.started_at is None:
        return part.started_at == first.started_at
    return abs(part.started_at - first.started_at) <= START_TOLERANCE


def _lasted(ended_at: datetime | None, until: datetime | None) -> bool:
    """Whether a component ran until the end of the first one."""
    return ended_at is None or until is None or ended_at >= until - END_TOLERANCE
