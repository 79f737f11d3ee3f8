"""Finds the jobs that have just started and may be loading a checkpoint, before their directory is known.

Such a job may have chosen any checkpoint itself and may open it at any moment.
"""

from collections.abc import Container, Iterable
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.model import Job, RunKey
from ckptd.core.queue import TrackedJob


class StartingJob(NamedTuple):
    """A job whose latest attempt began a short while ago."""

    job: Job
    run: RunKey | None
    is_searched: bool  # its directory was searched for


def list_newcomers(tracked: Iterable[TrackedJob], unsearched: Container[RunKey], since: datetime) -> list[StartingJob]:
    """Return the open jobs whose latest attempt was first seen after an instant."""
    return [
        StartingJob(each.job, each.run, is_searched=each.run is not None and each.run not in unsearched)
        for each in tracked
        if each.is_open and each.attempt and each.attempt.ended_at is None and each.attempt.first_seen_at > since
    ]


def find_loader(newcomers: Iterable[StartingJob], run: RunKey, work_dir: PurePosixPath | None) -> Job | None:
    """Return a newly started job that may be loading a checkpoint of a run; `work_dir` is where the run's jobs work.

    - The job's directory is known: it may load from this run if that is the run's directory, and if the job and the run
      have the same owner (anybody may name any directory).
    - The job has the same owner, and its directory was not searched yet: it may load from any run of the owner. After
      the search, it may load from the runs near its working directory.
    - The job has another owner: it counts only until the search, and only if it works inside the run's directory, so
      that nobody can keep other users' runs by starting jobs.
    """
    directory = PurePosixPath(run.directory)
    return next((each.job for each in newcomers if _may_load(each, run, directory, work_dir)), None)


def _may_load(newcomer: StartingJob, run: RunKey, directory: PurePosixPath, work_dir: PurePosixPath | None) -> bool:
    job = newcomer.job
    if newcomer.run is not None and newcomer.run.is_located:
        return newcomer.run.directory == run.directory and newcomer.run.uid == run.uid
    is_inside = job.work_dir is not None and job.work_dir.is_relative_to(directory)
    if job.uid != run.uid:
        return is_inside and not newcomer.is_searched
    if not newcomer.is_searched or job.work_dir is None:
        return True
    return is_inside or directory.is_relative_to(job.work_dir) or job.work_dir == work_dir
