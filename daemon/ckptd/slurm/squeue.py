"""Reads the queue with one `squeue` per poll, which works with every installation of Slurm.

It never queries single jobs one by one. An empty answer counts as an empty queue only without an error on stderr,
because Slurm 22.05 reports some errors with exit status 0.

Tasks of an array that wait for their first start are one record; with --array, each would be a row. But without
--array, squeue of 22.05, 25.11 and 26.05 adds requeued tasks to that record, and their restart counts are lost. In
22.05, SQUEUE_ARRAY_UNIQUE prevents this; later releases have no such option. So an array with waiting tasks is queried
again with --array in the first poll, and later if these tasks include one that had a separate record before. The number
of waiting tasks is that of the first query: with --array, squeue of 22.05 omits the last task of `1-100:7`.
"""

import json
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from ckptd.core.model import Job, Unknown
from ckptd.slurm import failure_reasons, queue_text
from ckptd.slurm.cluster_facts import ClusterFacts
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.program_queries import ProgramSource
from ckptd.slurm.programs import ProgramResult, Programs

# --local omits the jobs of a federation's other clusters; --noconvert prints 2048 nodes not as "2K".
ARGUMENTS = ("--noheader", "--all", "--local", "--noconvert", "--states=all")
EACH_TASK = "--array"  # a row for each task of an array, also for those that wait for their first start

MAX_CHOSEN = 5000  # arrays in one query: Linux limits an argument to 128 KiB
_FORGOTTEN = "Invalid job id specified"  # squeue's error if slurmctld knows none of the jobs


class SqueueSource(ProgramSource):
    """Reads jobs with `squeue`, and how they ended with `sacct`."""

    name = "squeue"

    def __init__(
        self, *, cluster: str | None = None, programs: Programs | None = None, only_user: str | None = None
    ) -> None:
        super().__init__(cluster=cluster, programs=programs, only_user=only_user)
        self._known: queue_text.KnownJobs | None = None

    def _read_all(self, now: datetime, cluster: str) -> tuple[Job, ...] | Unknown:
        before = self._known
        known = self._read_jobs(now, cluster, (), before)
        if not isinstance(known, Unknown):
            known = self._with_requeued_tasks(now, cluster, before, known)
        if isinstance(known, Unknown):
            return known
        self._known = known
        return tuple(known.jobs.values())

    def _with_requeued_tasks(
        self, now: datetime, cluster: str, before: queue_text.KnownJobs | None, known: queue_text.KnownJobs
    ) -> queue_text.KnownJobs | Unknown:
        """Read the arrays again to whose waiting tasks squeue has added others; in the first poll, any may be."""
        arrays = (
            queue_text.list_waiting_arrays(known)
            if before is None
            else queue_text.list_arrays_with_added_tasks(before, known)
        )
        if not arrays:
            return known
        chosen = _choose(arrays) if len(arrays) <= MAX_CHOSEN else ()
        separate = self._read_jobs(now, cluster, (EACH_TASK, *chosen), None)
        if isinstance(separate, Unknown):
            return known.without_arrays(arrays) if _FORGOTTEN in separate.reason else separate
        return known.with_separate_tasks(arrays, separate)

    def _read_remembered(self, job_ids: Collection[int], now: datetime) -> tuple[Job, ...] | Unknown:
        known = self._read_jobs(now, self._facts.name or "", (EACH_TASK, *_choose(job_ids)), None)
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
            jobs = reader.finish() if finished.returncode == 0 else queue_text.KnownJobs()
        except queue_text.GarbledError as error:
            return failure_reasons.make_unknown("queue", FailureReason.GARBLED, str(error))
        if _has_failed(finished, bool(jobs.jobs)):
            return failure_reasons.classify("queue", finished.returncode, finished.stderr)
        return jobs


def _choose(job_ids: Collection[int]) -> tuple[str]:
    return (f"--jobs={','.join(map(str, sorted(job_ids)))}",)


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
    argv = ["squeue", *ARGUMENTS, EACH_TASK, "--Format", queue_text.format_option(separators)]
    with path.open("wb") as file:
        file.write(json.dumps(queue_text.record_header(name, separators, now)).encode() + b"\n")
        finished = programs.stream("queue", argv, file.write)
    if isinstance(finished, ProgramResult) and finished.is_clean:
        return None
    path.unlink()
    if isinstance(finished, Unknown):
        return finished
    return failure_reasons.classify("queue", finished.returncode, finished.stderr)
