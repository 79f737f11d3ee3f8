"""Detect a checkpoint that would run unexpected code when it is loaded."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder, not_whole
from ckptd.core.model import Evidence, Finding, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts

SHOWN_COUNT = 10


@dataclass(frozen=True, slots=True)
class UnsafePickle:
    """Flag a checkpoint whose loading would call code that is not known to be safe; notify administrators."""

    name: ClassVar[str] = "unsafe-pickle"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        job = facts.current_job(history)
        if not isinstance(history.scan, Scan) or job is None:
            return not_whole(self.name)
        unsafe = [record.checkpoint for record in facts.present(history) if record.checkpoint.unsafe]
        if not unsafe:
            return () if history.scan.is_whole else not_whole(self.name)
        names = sorted({name for checkpoint in unsafe for name in checkpoint.unsafe})
        evidence: dict[str, Evidence] = {
            "names": names[:SHOWN_COUNT],
            "name_count": len(names),
            "paths": [str(checkpoint.path) for checkpoint in unsafe[-SHOWN_COUNT:]],
            "checkpoint_count": len(unsafe),
            "owner_uids": [str(uid) for uid in sorted(set().union(*(each.owner_uids for each in unsafe)))],
        }
        return (FindingBuilder(self.name, history, audience=("admin",)).make_finding(job, Severity.CRITICAL, evidence),)
