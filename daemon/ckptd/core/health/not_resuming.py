"""A restart whose saves are behind what had been saved before it: it did not load its checkpoint."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.health.interface import Speaker
from ckptd.core.model import Evidence, Finding, RecordedCheckpoint, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts


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
            if not facts.reaches_back(history, attempt.started_at):
                return Unknown(what=self.name, reason="what was saved before the restart is no longer at hand")
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
            advice = (
                f"After the restart the job saved {unit} {saved:g}, but {unit} {reached:g} had been saved before. "
                + _what_to_load(source)
            )
            findings.append(Speaker(self.name, history).say(job, Severity.CRITICAL, evidence, advice))
        return findings


def _what_to_load(source: RecordedCheckpoint) -> str:
    if source.gone_at is None:
        return f"Make it load {source.checkpoint.path} at its start, and do not let it write over that one."
    return (
        f"{source.checkpoint.path} has been replaced or removed since. Make it look for its newest checkpoint "
        "at its start, and save each under a name of its own."
    )


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
