"""Report a restart of which nobody can say whether it had a checkpoint, because ckptd does not know where it saves."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.nearby_candidates import summarize_doubt
from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class CheckpointsNotLocated:
    """Flag a restart whose checkpoint directory ckptd cannot resolve or read; it makes no claim about lost work.

    A run that had run for less than `min_loss` before is skipped, as in `restarted-without-checkpoint`.
    """

    name: ClassVar[str] = "checkpoints-not-located"
    min_loss: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        if history.key.is_located:
            return ()
        if history.scan is None:
            return Unknown(what=self.name, reason="the directory was not searched for yet")
        doubt = summarize_doubt(history.scan)
        if doubt is None:
            return ()
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or not facts.is_restart(attempt):
                continue
            before = facts.run_before(history, attempt)
            if before is not None and before < self.min_loss:
                continue
            evidence: dict[str, Evidence] = {
                "reason": doubt.reason,
                "restart_count": attempt.restart_count,
                "kind": attempt.kind.value if attempt.kind else None,
                "started_at": attempt.started_at.isoformat(),
                "searched": str(job.work_dir) if job.work_dir is not None else None,
            }
            findings.append(FindingBuilder(self.name, history).make_finding(job, Severity.INFO, evidence))
        return findings
