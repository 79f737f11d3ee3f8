"""A run that its time limit ended and that stands still, although its user counts on its being submitted again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, RunHistory, Severity, Standing, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.text.formatting import clean


@dataclass(frozen=True, slots=True)
class NotResubmitted:
    """Holds when a time limit ended a job that its user wants to be submitted again and ckptd does not do so.

    It does for `stays`, or until a job of the run begins. An info that nobody is written of while another job may go
    on with it.
    """

    name: ClassVar[str] = "not-resubmitted"
    stays: timedelta = timedelta(days=7)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        standing = history.standing
        if isinstance(standing, Unknown):
            return standing if self._was_so(history, now) else ()
        return () if standing is None else (self._say(history, standing),)

    def _was_so(self, history: RunHistory, now: datetime) -> bool:
        """Whether it was flagged when the end was fresh, and nothing has begun since."""
        latest = max(history.attempts, key=lambda each: each.started_at, default=None)
        if latest is None or latest.ended_at is None or now - latest.ended_at > self.stays:
            return False
        return (self.name, latest.job.job_id) in history.flagged

    def _say(self, history: RunHistory, standing: Standing) -> Finding:
        newest = facts.newest_good(history)
        evidence: dict[str, Evidence] = {
            "reason": clean(standing.reason),
            "newest_good": str(newest.checkpoint.path) if newest else None,
            "newest_good_step": newest.checkpoint.step if newest else None,
            "newest_good_epoch": newest.checkpoint.epoch if newest else None,
        }
        if standing.is_waited_for:
            advice = (
                "The time limit ended this job. ckptd does not submit it again while another job of yours may go on "
                "with it, one that waits or has just begun in its working directory, lest both write into one "
                "directory. Where that one does something else, submit this one yourself."
            )
            return Speaker(self.name, history, tells=()).say(standing.job, Severity.INFO, evidence, advice)
        advice = (
            f"The time limit ended this job, and ckptd has not submitted it again: {clean(standing.reason)}. Nothing "
            "goes on until you submit it yourself, to resume from its newest checkpoint."
        )
        return Speaker(self.name, history).say(standing.job, Severity.WARNING, evidence, advice)
