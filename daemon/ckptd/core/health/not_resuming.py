"""Detect a restart whose checkpoints are behind those saved before it: it did not load its checkpoint."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, RecordedCheckpoint, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


@dataclass(frozen=True, slots=True)
class NotResuming:
    """Flag an attempt whose newest checkpoint has a lower step (or epoch) than the best one saved before it started."""

    name: ClassVar[str] = "not-resuming"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or not facts.is_restart(attempt):
                continue
            if not facts.reaches_back(history, attempt.started_at):
                return Unknown(
                    what=self.name, reason="the checkpoints saved before the restart are no longer on record"
                )
            before = facts.complete_at(history, attempt.started_at)
            since = facts.saves_since(history, attempt.started_at)
            unit = _common_unit(before, since)
            if unit is None:
                continue
            reached = max(_value(record, unit) for record in before)
            newest = max(since, key=lambda record: record.completed_at or record.first_seen_at)
            saved = _value(newest, unit)
            if saved >= reached:
                continue
            source = max(before, key=lambda record: _value(record, unit))
            evidence: dict[str, Evidence] = {
                "unit": unit,
                "saved_before": reached,
                "saved_now": saved,
                "restart_count": attempt.restart_count,
                "should_resume_from": str(source.checkpoint.path),
                "is_still_there": source.gone_at is None,
                "saved_at": source.completed_at.isoformat() if source.completed_at else None,
            }
            findings.append(Speaker(self.name, history).say(job, Severity.CRITICAL, evidence))
        return findings


def _common_unit(before: Iterable[RecordedCheckpoint], since: Iterable[RecordedCheckpoint]) -> str | None:
    """Return the unit in which both sides can be compared; prefer steps over epochs."""
    both = [*before], [*since]
    for unit in ("step", "epoch"):
        if all(side and all(_has(record, unit) for record in side) for side in both):
            return unit
    return None


def _has(record: RecordedCheckpoint, unit: str) -> bool:
    return getattr(record.checkpoint, unit) is not None


def _value(record: RecordedCheckpoint, unit: str) -> float:
    value = record.checkpoint.step if unit == "step" else record.checkpoint.epoch
    return float(value or 0)
