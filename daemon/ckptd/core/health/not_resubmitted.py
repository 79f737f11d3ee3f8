"""Report a timed-out run that ckptd did not resubmit although its user asked for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.health.interface import FindingBuilder
from ckptd.core.model import Evidence, Finding, ResubmitRefusal, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class NotResubmitted:
    """Flag a timed-out run that ckptd did not resubmit although its user asked for it.

    The flag stays open for `open_for`, or until a job of the run starts. While another job may continue the run, it is
    an info and nobody is notified.
    """

    name: ClassVar[str] = "not-resubmitted"
    open_for: timedelta = timedelta(days=7)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        standing = history.context.standing
        if isinstance(standing, Unknown):
            return standing if self._was_so(history, now) else ()
        return () if standing is None else (self._make_finding(history, standing),)

    def _was_so(self, history: RunHistory, now: datetime) -> bool:
        """Return whether the run was flagged soon after its end and no job of it has started since."""
        latest = max(history.attempts, key=lambda each: each.started_at, default=None)
        if latest is None or latest.ended_at is None or now - latest.ended_at > self.open_for:
            return False
        return (self.name, latest.job.job_id) in history.context.flagged

    def _make_finding(self, history: RunHistory, standing: ResubmitRefusal) -> Finding:
        newest = facts.newest_complete(history)
        evidence: dict[str, Evidence] = {
            "reason": standing.reason,
            "is_waited_for": standing.is_waited_for,
            "newest_good": str(newest.checkpoint.path) if newest else None,
            "newest_good_step": newest.checkpoint.step if newest else None,
            "newest_good_epoch": newest.checkpoint.epoch if newest else None,
        }
        if standing.is_waited_for:
            return FindingBuilder(self.name, history, audience=()).make_finding(standing.job, Severity.INFO, evidence)
        return FindingBuilder(self.name, history).make_finding(standing.job, Severity.WARNING, evidence)
