"""Detect a job that could resume after a preemption but is set not to be requeued."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import EndCause, Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class NotRequeueable:
    """Flag a job that checkpoints and is not requeueable, in a partition where jobs are preempted.

    These are `partitions` (shell patterns) and all partitions in which ckptd has seen preemptions.
    """

    name: ClassVar[str] = "not-requeueable"
    partitions: tuple[str, ...] = ()

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        saves = facts.complete_now(history)
        if not saves:
            return ()
        seen = sum(attempt.cause is EndCause.PREEMPTION for attempt in history.attempts)
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            is_named = any(fnmatchcase(job.partition, pattern) for pattern in self.partitions)
            if job.is_requeueable or not (is_named or seen or history.context.is_preempted_there):
                continue
            evidence: dict[str, Evidence] = {
                "partition": job.partition,
                "preemptions_of_run": seen,
                "checkpoints": len(saves),
            }
            findings.append(FindingBuilder(self.name, history).make_finding(job, Severity.INFO, evidence))
        return findings
