"""Reads the queue with one `squeue` per poll, which works with every installation of Slurm.

It never queries single jobs one by one. An empty answer counts as an empty queue only without an error on stderr,
because Slurm 22.05 reports some errors with exit status 0.
"""

import json
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from ckptd.core.model import Job, Unknown
from ckptd.slurm import failure_reasons, mail_user, queue_text
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.program_queries import ProgramSource
from ckptd.slurm.programs import ProgramResult, Programs

# --local omits the jobs of a federation's other clusters; --noconvert prints 2048 nodes not as "2K".
ARGUMENTS = ("--noheader", "--array", "--all", "--local", "--noconvert", "--states=all")

_FORGOTTEN = "Invalid job id specified"  # squeue's error if slurmctld knows none of the jobs


class SqueueSource(ProgramSource):
    """Reads jobs with `squeue`, and how they ended with `sacct`."""

    name = "squeue"

    def __init__(
        self, *, cluster: str | None = None, programs: Programs | None = None, only_user: str | None = None
    ) -> None:
        super().__init__(cluster=cluster, programs=programs, only_user=only_user)
        self._known = queue_text.KnownJobs({}, {})

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        return mail_user.read_mail_user(self._programs, job.job_id)

    def _read_all(self, now: datetime, cluster: str) -> tuple[Job, ...] | Unknown:
        known = self._read_jobs(now, cluster, (), self._known)
        if isinstance(known, Unknown):
            return known
        self._known = known
        return tuple(known.jobs.values())

    def _read_remembered(self, job_ids: Collection[int], now: datetime) -> tuple[Job, ...] | Unknown:
        chosen = (f"--jobs={','.join(map(str, sorted(job_ids)))}",)
        known = self._read_jobs(now, self._facts.name or "", chosen, None)
        if isinstance(known, Unknown) and _FORGOTTEN in known.reason:
            return ()
        return known if isinstance(known, Unknown) else tuple(known.jobs.values())

    def _read_jobs(
        self, now: datetime, cluster: str, chosen: tuple[str, ...], known: queue_text.KnownJobs | None
    ) -> queue_text.KnownJobs | Unknown:
        separators = queue_text.Separators.draw()
        reader = queue_text.QueueReader(cluster, separators, now, known)
        if self._only_user is not None:
            chosen = (*chosen, f"--user={self._only_user}")
        argv = ["squeue", *ARGUMENTS, *chosen, "--Format", queue_text.format_option(separators)]
        try:
            finished = self._programs.stream("queue", argv, reader.feed)
            if isinstance(finished, Unknown):
                return finished
            jobs = reader.finish() if finished.returncode == 0 else queue_text.KnownJobs({}, {})
        except queue_text.GarbledError as error:
            return failure_reasons.make_unknown("queue", FailureReason.GARBLED, str(error))
        if _has_failed(finished, bool(jobs.jobs)):
            return failure_reasons.classify("queue", finished.returncode, finished.stderr)
        return jobs


def _has_failed(finished: ProgramResult, has_jobs: bool) -> bool:
    """Whether squeue failed. With jobs, stderr has only notes of site plugins; without jobs, it has the reason."""
    return finished.returncode != 0 or (not has_jobs and not finished.is_clean)


def record_queue(
    path: Path, now: datetime, programs: Programs | None = None, cluster: str | None = None
) -> Unknown | None:
    """Write the raw output of one poll to a file for the replay source.

    If the poll fails, return Unknown and leave no file.

    Raises:
        OSError: the file cannot be written.

    """
    programs = programs or Programs()
    name = ClusterFacts(programs, cluster).read_name()
    if isinstance(name, Unknown):
        return name
    separators = queue_text.Separators.draw()
    argv = ["squeue", *ARGUMENTS, "--Format", queue_text.format_option(separators)]
    with path.open("wb") as file:
        file.write(json.dumps(queue_text.record_header(name, separators, now)).encode() + b"\n")
        finished = programs.stream("queue", argv, file.write)
    if isinstance(finished, ProgramResult) and finished.is_clean:
        return None
    path.unlink()
    if isinstance(finished, Unknown):
        return finished
    return failure_reasons.classify("queue", finished.returncode, finished.stderr)
