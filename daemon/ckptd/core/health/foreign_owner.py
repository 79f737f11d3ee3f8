"""Detect checkpoints in a run's directory that belong to another user."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder, not_whole
from ckptd.core.model import Evidence, Finding, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts

SHOWN_COUNT = 10


@dataclass(frozen=True, slots=True)
class ForeignOwner:
    """Flag a checkpoint that belongs neither to the job's user nor to one of `service_uids` (names or numbers)."""

    name: ClassVar[str] = "foreign-owner"
    service_uids: tuple[int, ...] = ()

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        job = facts.current_job(history)
        if not isinstance(history.scan, Scan) or job is None:
            return not_whole(self.name)
        allowed = {history.key.uid, *self.service_uids}
        foreign = [each.checkpoint for each in facts.present(history) if each.checkpoint.owner_uids - allowed]
        if not foreign:
            return () if history.scan.is_whole else not_whole(self.name)
        uids = sorted(set().union(*(checkpoint.owner_uids for checkpoint in foreign)) - allowed)
        evidence: dict[str, Evidence] = {
            "owner_uids": [str(uid) for uid in uids],
            "job_uid": history.key.uid,
            "paths": [str(checkpoint.path) for checkpoint in foreign[:SHOWN_COUNT]],
            "checkpoint_count": len(foreign),
        }
        return (FindingBuilder(self.name, history, audience=("admin",)).make_finding(job, Severity.WARNING, evidence),)
