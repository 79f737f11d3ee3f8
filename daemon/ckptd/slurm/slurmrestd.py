"""Polls the queue of slurmrestd, with the newest version of its interface that both sides know.

Slurm 22.05 offers v0.0.38 by its plugin openapi/v0.0.38; later releases offer data_parser versions from v0.0.39. All
describe jobs as `squeue --json` of that release does. Accounting, scripts and pings use Slurm's programs.
"""

import json
import re
import time
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ckptd.core.model import Job, QueueSnapshot, Unknown
from ckptd.slurm import failure_reasons, queue_json
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.program_queries import ProgramSource
from ckptd.slurm.programs import Programs
from ckptd.slurm.rest_client import RestClient

LARGE_QUEUE = 10_000  # jobs in an answer; docs/performance.md has what it costs
NEWEST = 45  # v0.0.45 of Slurm 26.05; a still newer one is used only where no other is offered
OLDEST = 38
DESCRIPTION = "/openapi/v3"
_V38 = re.compile(r"/slurm/v0\.0\.38/")  # without MailUser
_JOBS = re.compile(r"/slurm/v0\.0\.(\d{1,4})/jobs/?", re.ASCII)


class SlurmrestdSource(ProgramSource):
    """Reads jobs from slurmrestd, and how they ended with `sacct`."""

    name = "slurmrestd"

    def __init__(
        self,
        client: RestClient,
        *,
        cluster: str | None = None,
        programs: Programs | None = None,
        only_user: str | None = None,
    ) -> None:
        super().__init__(cluster=cluster, programs=programs, only_user=only_user)
        self._client = client
        self._path: str | None = None
        self._warning: str | None = None
        self._named: str | None = None  # the cluster of the last answer

    def read_queue(self, now: datetime) -> QueueSnapshot | Unknown:
        snapshot = super().read_queue(now)
        if not isinstance(snapshot, Unknown):
            snapshot = self._check_cluster(snapshot)
        if isinstance(snapshot, Unknown) or self._only_user is not None:
            return snapshot
        # slurmrestd answers with the rights of its account or token, not with those of this process.
        hidden = self._facts.read_hidden_from_another(job.uid for job in snapshot.jobs)
        return replace(snapshot, warning=self._warning) if hidden is None else hidden

    def _check_cluster(self, snapshot: QueueSnapshot) -> QueueSnapshot | Unknown:
        """Return Unknown if slurmrestd answers for another cluster than Slurm's programs on this host."""
        named, own = self._named, self._facts.slurm_name
        if named and own and named.lower() != own.lower():
            reason = (
                f"slurmrestd answers for the cluster {named!r}, and slurm.conf here is of {own!r}: "
                "correct rest_url or SLURM_CONF"
            )
            return failure_reasons.make_unknown("queue", FailureReason.FAILED, f"{self._client.url}: {reason}")
        is_other = named is not None and named.lower() != snapshot.cluster.lower()
        return replace(snapshot, slurm_name=snapshot.slurm_name or (named if is_other else None))

    def read_mail_user(self, job: Job) -> str | Unknown | None:
        if job.mail_user is not None or (self._path is not None and not _V38.match(self._path)):
            return job.mail_user
        return super().read_mail_user(job)

    def _read_remembered(self, job_ids: Collection[int], now: datetime) -> tuple[Job, ...] | Unknown:
        wanted = frozenset(job_ids)
        jobs = self._read_all(now, self._facts.name or "")
        if isinstance(jobs, Unknown):
            return jobs
        return tuple(job for job in jobs if job.job_id in wanted or job.het_job_id in wanted)

    def _read_all(self, now: datetime, cluster: str) -> tuple[Job, ...] | Unknown:
        path = self._path or read_path(self._client)
        if isinstance(path, Unknown):
            return path
        began = time.monotonic()
        text = self._client.get("queue", path)
        seconds = time.monotonic() - began
        # After an upgrade of Slurm the next poll asks again what the server offers.
        self._path = None if isinstance(text, Unknown) else path
        if isinstance(text, Unknown):
            return text
        snapshot = queue_json.parse(text, now, cluster)
        if isinstance(snapshot, Unknown):
            return snapshot
        self._named = snapshot.slurm_name
        self._warning = warn_of_cost(len(snapshot.jobs), len(text), seconds)
        return tuple(job for job in snapshot.jobs if self._only_user in {None, job.user})


def read_path(client: RestClient) -> str | Unknown:
    """Return the path of the job list in the newest version that the server offers and ckptd knows."""
    text = client.get("queue", DESCRIPTION)
    return text if isinstance(text, Unknown) else choose_path(text)


def warn_of_cost(job_count: int, size_bytes: int, seconds: float) -> str | None:
    """Return a warning if a queue is so large that JSON becomes expensive."""
    if job_count < LARGE_QUEUE:
        return None
    return (
        f"slurmrestd took {seconds:.1f} s and {size_bytes / 2**20:.0f} MiB of JSON for {job_count} jobs; "
        f'from {LARGE_QUEUE} jobs on, slurm.source = "squeue" costs the cluster much less'
    )


def choose_path(description: str) -> str | Unknown:
    """Return the path of the job list in the newest version that is known, else in the oldest above it.

    Args:
        description: the server's OpenAPI document.

    """
    try:
        paths: list[object] = list(json.loads(description)["paths"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return _garbled(f"{DESCRIPTION}: {type(error).__name__}: {error}")
    offered: dict[int, str] = {
        int(match[1]): path for path in paths if isinstance(path, str) and (match := _JOBS.fullmatch(path))
    }
    known = [number for number in offered if OLDEST <= number <= NEWEST]
    newer = [number for number in offered if number > NEWEST]
    if known:
        return offered[max(known)]
    if newer:
        return offered[min(newer)]
    return _garbled(f"slurmrestd offers no /slurm/v0.0.{OLDEST}/jobs or later; is its plugin openapi/slurmctld loaded?")


def _garbled(detail: str) -> Unknown:
    return failure_reasons.make_unknown("queue", FailureReason.GARBLED, detail)
