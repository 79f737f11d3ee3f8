"""Tells which runs a job that has just begun may be loading from while nobody knows yet where its checkpoints are.

Such a job may have chosen any checkpoint by itself, and opens it at any moment.
"""

from collections.abc import Container, Iterable
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.model import Job, JobKey, RunKey
from ckptd.core.tracking import TrackedJob

Started = frozenset[tuple[JobKey, int]]  # attempts, by job and restart count


class Newcomer(NamedTuple):
    """A job whose latest attempt began a short while ago."""

    job: Job
    run: RunKey | None
    is_known: bool  # its attempt was known when the plan was made, and so judged by its guards
    is_searched: bool  # its directory was looked for


def list_started(tracked: Iterable[TrackedJob]) -> Started:
    """Return the attempts that are known to have begun and not to have ended."""
    return frozenset(
        (known.attempt.job, known.attempt.restart_count) for known in tracked if known.is_open and known.attempt
    )


def list_newcomers(
    tracked: Iterable[TrackedJob], known: Started, unsearched: Container[RunKey], since: datetime
) -> list[Newcomer]:
    """Return the open jobs that were first seen `since`, and those whose attempt is not among the known ones."""
    found = []
    for each in tracked:
        attempt = each.attempt
        if attempt is None or attempt.ended_at is not None or not each.is_open:
            continue
        is_known = (attempt.job, attempt.restart_count) in known
        if not is_known or attempt.first_seen_at > since:
            is_searched = each.run is not None and each.run not in unsearched
            found.append(Newcomer(each.job, each.run, is_known, is_searched))
    return found


def find_loader(newcomers: Iterable[Newcomer], run: RunKey, work_dir: PurePosixPath | None) -> Job | None:
    """Return a newcomer that may be loading one of a run's checkpoints; `work_dir` is where the run's jobs work.

    One whose directory is known loads from there. Of the others each may concern its owner's runs: all of them until
    its directory was looked for, then those near which it works. Nobody else's job counts unless it works inside the
    run's directory, so that nobody can keep the runs of others by starting jobs.
    """
    directory = PurePosixPath(run.directory)
    return next((each.job for each in newcomers if _may_load(each, run, directory, work_dir)), None)


def _may_load(newcomer: Newcomer, run: RunKey, directory: PurePosixPath, work_dir: PurePosixPath | None) -> bool:
    job = newcomer.job
    if newcomer.run is not None and newcomer.run.is_located:
        return not newcomer.is_known and newcomer.run.directory == run.directory
    is_inside = job.work_dir is not None and job.work_dir.is_relative_to(directory)
    if job.uid != run.uid:
        return is_inside
    if not newcomer.is_searched or job.work_dir is None:
        return True
    return is_inside or directory.is_relative_to(job.work_dir) or job.work_dir == work_dir
