"""Tells which runs a job that has just begun may be loading from while nobody knows yet where its checkpoints are.

Such a job may have chosen any checkpoint by itself, and opens it at any moment.
"""

from collections.abc import Container, Iterable
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.model import Job, RunKey
from ckptd.core.queue import TrackedJob


class Newcomer(NamedTuple):
    """A job whose latest attempt began a short while ago."""

    job: Job
    run: RunKey | None
    is_searched: bool  # its directory was looked for


def list_newcomers(tracked: Iterable[TrackedJob], unsearched: Container[RunKey], since: datetime) -> list[Newcomer]:
    """Return the open jobs whose latest attempt was first seen after an instant."""
    return [
        Newcomer(each.job, each.run, is_searched=each.run is not None and each.run not in unsearched)
        for each in tracked
        if each.is_open and each.attempt and each.attempt.ended_at is None and each.attempt.first_seen_at > since
    ]


def find_loader(newcomers: Iterable[Newcomer], run: RunKey, work_dir: PurePosixPath | None) -> Job | None:
    """Return a newcomer that may be loading one of a run's checkpoints; `work_dir` is where the run's jobs work.

    One whose directory is known loads from there, if that is its owner's run: anybody may name any directory. Of the
    others each may concern its owner's runs: all of them until
    its directory was looked for, then those near which it works. Anybody else's counts only until then, and only where
    it works inside the run's directory: nobody can keep the runs of others for long by starting jobs.
    """
    directory = PurePosixPath(run.directory)
    return next((each.job for each in newcomers if _may_load(each, run, directory, work_dir)), None)


def _may_load(newcomer: Newcomer, run: RunKey, directory: PurePosixPath, work_dir: PurePosixPath | None) -> bool:
    job = newcomer.job
    if newcomer.run is not None and newcomer.run.is_located:
        return newcomer.run.directory == run.directory and newcomer.run.uid == run.uid
    is_inside = job.work_dir is not None and job.work_dir.is_relative_to(directory)
    if job.uid != run.uid:
        return is_inside and not newcomer.is_searched
    if not newcomer.is_searched or job.work_dir is None:
        return True
    return is_inside or directory.is_relative_to(job.work_dir) or job.work_dir == work_dir
