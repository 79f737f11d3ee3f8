"""Report a job that ckptd held, and how its user can release it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class JobHeld:
    """Flag a job while it is pending because ckptd held it."""

    name: ClassVar[str] = "job-held"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        builder = FindingBuilder(self.name, history)
        held = [job for job in history.jobs if facts.is_held_by_ckptd(history, job)]
        return tuple(self._make_finding(builder, job) for job in held)

    def _make_finding(self, builder: FindingBuilder, job: Job) -> Finding:
        evidence: dict[str, Evidence] = {
            "restart_count": job.restart_count,
            "release_with": f"scontrol release {job.slurm_name}",
        }
        return builder.make_finding(job, Severity.WARNING, evidence)
