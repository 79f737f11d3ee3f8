"""Detect an interrupted save: its temporary file, or the backup of the previous checkpoint, is still there."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast.projection import MARGIN
from ckptd.core.health.at_risk import signal_seconds
from ckptd.core.health.interface import FindingBuilder, not_whole, seconds
from ckptd.core.model import CheckpointState, Evidence, Finding, RecordedCheckpoint, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm

SHOWN_COUNT = 10


@dataclass(frozen=True, slots=True)
class InterruptedSave:
    """Flag leftovers of a save that are older than `min_age`, once the job that wrote them has ended or saved again.

    A complete backup beside a newer complete checkpoint is no interrupted save: some programs always keep one.
    """

    name: ClassVar[str] = "interrupted-save"
    min_age: timedelta = timedelta(minutes=10)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        job = facts.current_job(history)
        if not isinstance(history.scan, Scan) or job is None:
            return not_whole(self.name)
        broken = [record for record in facts.leftovers(history) if self._is_broken_off(history, record, now)]
        if not broken:
            return () if history.scan.is_whole else not_whole(self.name)
        good = facts.newest_complete(history)
        newest = max(record.checkpoint.modified_at for record in broken)
        evidence: dict[str, Evidence] = {
            "leftovers": [str(record.checkpoint.path) for record in broken[-SHOWN_COUNT:]],
            "leftover_count": len(broken),
            "size_bytes": sum(record.checkpoint.size_bytes for record in broken),
            "age_seconds": seconds(now - newest),
            "newest_good": str(good.checkpoint.path) if good else None,
            "signal_seconds": signal_seconds(measure_rhythm(history).save_time, MARGIN, job.time_limit),
        }
        return (FindingBuilder(self.name, history).make_finding(job, Severity.WARNING, evidence),)

    def _is_broken_off(self, history: RunHistory, record: RecordedCheckpoint, now: datetime) -> bool:
        left = record.checkpoint
        if now - left.modified_at <= self.min_age or left.state is CheckpointState.UNKNOWN:
            return False
        whole = [each.checkpoint.modified_at for each in facts.finished_saves(history) if _is_complete(each)]
        if left.state is CheckpointState.COMPLETE:
            return not any(instant >= left.modified_at for instant in whole)
        running = [attempt.started_at for attempt in history.attempts if attempt.ended_at is None]
        has_gone_on = any(instant > left.modified_at + self.min_age for instant in whole)
        return has_gone_on or all(started_at > left.modified_at for started_at in running)


def _is_complete(record: RecordedCheckpoint) -> bool:
    return record.checkpoint.state is CheckpointState.COMPLETE
