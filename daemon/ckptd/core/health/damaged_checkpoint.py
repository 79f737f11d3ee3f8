"""The newest checkpoint is damaged: a restart would fail, or begin again from nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import Speaker, not_whole, seconds
from ckptd.core.model import CheckpointState, Evidence, Finding, RecordedCheckpoint, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """Flag a run while its newest finished checkpoint is damaged.

    A checkpoint written since the last poll is not judged: its job may have ended and interrupted the save.
    """

    name: ClassVar[str] = "damaged-checkpoint"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        if not isinstance(history.scan, Scan):
            return not_whole(self.name)
        saves = facts.settled(history)
        job = facts.current_job(history)
        if not saves or job is None or saves[-1].checkpoint.state is not CheckpointState.DAMAGED:
            return () if history.scan.is_whole else not_whole(self.name)
        damaged = saves[-1].checkpoint
        if history.polled_at is not None and _written_at(saves[-1], history.scan) > history.polled_at:
            return Unknown(what=self.name, reason="the queue was not polled since it was written")
        good = facts.newest_good(history)
        evidence: dict[str, Evidence] = {
            "path": str(damaged.path),
            "reason": damaged.reason,
            "damaged_since_good": facts.total(history).damaged_since_good,
            "newest_good": str(good.checkpoint.path) if good else None,
            "newest_good_epoch": good.checkpoint.epoch if good else None,
            "newest_good_step": good.checkpoint.step if good else None,
            "newest_good_age_seconds": seconds(now - good.checkpoint.modified_at) if good else None,
        }
        return (Speaker(self.name, history).say(job, Severity.CRITICAL, evidence),)


def _written_at(record: RecordedCheckpoint, scan: Scan) -> datetime:
    """Return when a checkpoint was last written; if its date is later than the scan, when it was first seen."""
    dated_at = record.checkpoint.modified_at
    return dated_at if dated_at <= scan.scanned_at else record.first_seen_at
