"""Detect checkpoints that a verification job of their owner calls damaged, and that ckptd itself has not read since."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder, not_whole
from ckptd.core.model import Evidence, Finding, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts

SHOWN_COUNT = 10


@dataclass(frozen=True, slots=True)
class ReportedDamage:
    """Flag a run with checkpoints that a verification job of its owner calls damaged."""

    name: ClassVar[str] = "reported-damage"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        job = facts.current_job(history)
        if not isinstance(history.scan, Scan) or job is None:
            return not_whole(self.name)
        reported = [each for each in facts.present(history) if each.owner_damage is not None]
        if not reported:
            return () if history.scan.is_whole else not_whole(self.name)
        newest = reported[-1]
        evidence: dict[str, Evidence] = {
            "path": str(newest.checkpoint.path),
            "reason": newest.owner_damage,
            "paths": [str(each.checkpoint.path) for each in reported[-SHOWN_COUNT:]],
            "checkpoint_count": len(reported),
        }
        return (FindingBuilder(self.name, history).make_finding(job, Severity.WARNING, evidence),)
