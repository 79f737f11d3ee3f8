"""Heterogeneous jobs as what they are: one program, whose parts Slurm numbers and lists as jobs of their own.

Slurm starts and requeues all parts together, and the script runs on the first, by whose number people call the whole.
A part may end before the others; the job goes on without its nodes.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from ckptd.core.model import ENDED_STATES, Job


def join_parts(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs with all parts of each heterogeneous one as the first of them, with the nodes of all that run.

    Parts whose first one is not shown are left out: by themselves they are no job.
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
    return replace(
        first,
        node_count=first.node_count + sum(part.node_count for part in alike),
        cpu_count=first.cpu_count + sum(part.cpu_count for part in alike),
        gpu_count=first.gpu_count + sum(part.gpu_count for part in alike),
    )
