"""Compares what the squeue and pyslurm sources say of every job of one real cluster; exit status 1 on a difference.

Run by pyslurm-for-real. Times left may differ by the two seconds between the two polls.
"""

import dataclasses
import sys
import time
from datetime import UTC, datetime, timedelta

from ckptd.core.model import Unknown
from ckptd.slurm.pyslurm_source import PyslurmSource
from ckptd.slurm.squeue import SqueueSource

# squeue -r does not print these; Slurm words the others differently in its listings.
NOT_IN_SQUEUE = {"array_task_limit", "mail_user"}


def is_same(field, left, right):
    if field == "time_left" and left is not None and right is not None:
        return abs(left - right) <= timedelta(seconds=2)
    return left == right


def compare(left, right):
    for field in dataclasses.fields(left):
        mine, other = getattr(left, field.name), getattr(right, field.name)
        if field.name not in NOT_IN_SQUEUE and not is_same(field.name, mine, other):
            yield f"job {left.job_id} ({left.name!r}): {field.name}: squeue {mine!r}, pyslurm {other!r}"


def main():
    now = datetime.now(UTC)
    snapshots = []
    for source in (SqueueSource(), PyslurmSource()):
        started = time.monotonic()
        snapshot = source.read_queue(now)
        if isinstance(snapshot, Unknown):
            sys.exit(f"{source.name}: {snapshot}")
        print(f"{source.name}: {len(snapshot.jobs)} jobs in {time.monotonic() - started:.3f} s")
        snapshots.append({job.job_id: job for job in snapshot.jobs})
    by_squeue, by_pyslurm = snapshots
    differences = [f"only one source shows job {job_id}" for job_id in by_squeue.keys() ^ by_pyslurm.keys()]
    for job_id in by_squeue.keys() & by_pyslurm.keys():
        differences += compare(by_squeue[job_id], by_pyslurm[job_id])
    print("\n".join(differences) or f"the same in every field of {len(by_squeue)} jobs")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
