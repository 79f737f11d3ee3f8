"""A restart whose saves are behind what had been saved before it: it did not load its checkpoint."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core import history as facts
from ckptd.core.model import Finding, RecordedCheckpoint, RunHistory, Severity, Unknown


@dataclass(frozen=True, slots=True)
class NotResuming:
    """Holds while an attempt's newest save has a lower step (else epoch) than the best saved before it began."""

    name: ClassVar[str] = "not-resuming"

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        findings: list[Finding] = []
        for job in facts.running_jobs(history):
            attempt = facts.attempt_of(history, job)
            if attempt is None or not facts.is_restart(attempt):
                continue
            before = [r for r in history.checkpoints if r.completed_at and r.completed_at <= attempt.started_at]
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
            findings.append(
                Finding(
                    rule=self.name,
                    severity=Severity.CRITICAL,
                    run=history.key,
                    job_id=job.job_id,
                    user=history.user,
                    evidence={
                        "unit": unit,
                        "saved_before": reached,
                        "saved_now": saved,
                        "restart_count": attempt.restart_count,
                        "should_resume_from": str(source.checkpoint.path),
                        "is_still_there": source.gone_at is None,
                    },
                    advice=(
                        f"After the restart the job saved {unit} {saved:g}, but {unit} {reached:g} had been saved "
                        f"before. Make it load {source.checkpoint.path} at its start, and do not let it write over "
                        "what it should resume from."
                    ),
                )
            )
        return findings


def _common_unit(before: Iterable[RecordedCheckpoint], since: Iterable[RecordedCheckpoint]) -> str | None:
    """The unit in which both sides can be compared: step before epoch."""
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
