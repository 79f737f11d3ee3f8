"""Reads the queue with pyslurm in a child process; `pyslurm_reader` explains why.

Accounting, scripts and pings use Slurm's programs, as in the squeue source.
"""

import json
import sys
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from ckptd.core.model import Job, Unknown
from ckptd.slurm import failure_reasons, queue_json
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.program_queries import ProgramSource
from ckptd.slurm.programs import ProgramResult

READER = "ckptd.slurm.pyslurm_reader"
NOT_INSTALLED = 3  # its exit status


class PyslurmSource(ProgramSource):
    """Reads jobs with the pyslurm of ckptd's Python environment."""

    name = "pyslurm"

    def read_version(self) -> str | Unknown:
        """Return pyslurm's version; Unknown if it is not installed or cannot be loaded."""
        answer = self._programs.read("pyslurm", self._argv("version"))
        if isinstance(answer, Unknown):
            return answer
        text, finished = answer
        return text.strip() if finished.returncode == 0 else _classify(finished)

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        return job.mail_user

    def _read_remembered(self, job_ids: Collection[int], now: datetime) -> tuple[Job, ...] | Unknown:
        wanted = frozenset(job_ids)
        jobs = self._read_all(now, self._facts.name or "")
        return (
            jobs
            if isinstance(jobs, Unknown)
            else tuple(job for job in jobs if job.job_id in wanted or job.het_job_id in wanted)
        )

    def _read_all(self, now: datetime, cluster: str) -> tuple[Job, ...] | Unknown:
        reader = _RowReader(cluster, now)
        try:
            finished = self._programs.stream("queue", self._argv("jobs"), reader.feed)
            if isinstance(finished, Unknown):
                return finished
            if finished.returncode != 0:
                return _classify(finished)
            jobs = reader.finish()
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return failure_reasons.make_unknown("queue", FailureReason.GARBLED, f"{type(error).__name__}: {error}")
        return tuple(job for job in jobs if self._only_user in {None, job.user})

    @staticmethod
    def _argv(question: str) -> list[str]:
        # -P: a file in the working directory must not stand in for a module.
        return [sys.executable, "-P", "-m", READER, question]


class _RowReader:
    """Parses the child's lines into jobs while they arrive."""

    def __init__(self, cluster: str, now: datetime) -> None:
        self._cluster = cluster
        self._now = now
        self._tail = b""
        self._jobs: list[Job] = []
        self._is_whole = False

    def feed(self, piece: bytes) -> None:
        *lines, self._tail = (self._tail + piece).split(b"\n")
        for line in lines:
            row = json.loads(line)
            if "end" in row:
                self._is_whole = True
            elif queue_json.has_number(row):
                self._jobs.append(build(row, self._cluster, self._now))

    def finish(self) -> list[Job]:
        if not self._is_whole:
            raise ValueError("the answer of pyslurm is cut short")
        return self._jobs


def build(row: dict[str, Any], cluster: str, now: datetime) -> Job:
    """Build a job from the reader's row."""
    job = queue_json.build(row, cluster, now)
    return replace(job, gpu_count=row["gpu_count"]) if "gpu_count" in row else job


def _classify(finished: ProgramResult) -> Unknown:
    if finished.returncode == NOT_INSTALLED:
        return failure_reasons.make_unknown("pyslurm", FailureReason.MISSING, finished.stderr.strip())
    return failure_reasons.classify("queue", finished.returncode, finished.stderr)
