"""The health rules, and how they are asked: pure functions of a run's history and `now`."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.health.at_risk import AtRisk
from ckptd.core.health.concurrent_writers import ConcurrentWriters
from ckptd.core.health.interface import Rule
from ckptd.core.health.no_checkpoint_yet import NoCheckpointYet
from ckptd.core.health.not_resuming import NotResuming
from ckptd.core.health.restarted_without_checkpoint import RestartedWithoutCheckpoint
from ckptd.core.model import Finding, RunHistory, RunKey, Scan, Unknown

RULES: dict[str, type[Rule]] = {
    "restarted-without-checkpoint": RestartedWithoutCheckpoint,
    "no-checkpoint-yet": NoCheckpointYet,
    "at-risk": AtRisk,
    "not-resuming": NotResuming,
    "concurrent-writers": ConcurrentWriters,
}

__all__ = ["RULES", "Evaluation", "Rule", "evaluate"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What the rules say of one run. A rule in `undecided` neither opens nor resolves a flag."""

    run: RunKey
    findings: tuple[Finding, ...] = ()
    undecided: frozenset[str] = frozenset()


def evaluate(
    history: RunHistory, rules: Iterable[Rule], now: datetime, *, max_age: timedelta, min_job_duration: timedelta
) -> Evaluation:
    """Ask every rule about one run; the queue must have been seen within `max_age`, else all are undecided."""
    names = frozenset(rule.name for rule in rules)
    if not history.jobs:
        return Evaluation(run=history.key)  # nothing of the run is in the queue: whatever held has ended
    if history.polled_at is None or now - history.polled_at > max_age or not _was_seen_since_start(history):
        return Evaluation(run=history.key, undecided=names)
    if all(job.time_limit is not None and job.time_limit < min_job_duration for job in history.jobs):
        return Evaluation(run=history.key)
    findings: list[Finding] = []
    undecided: set[str] = set()
    for rule in rules:
        answer = rule.evaluate(history, now)
        if isinstance(answer, Unknown):
            undecided.add(rule.name)
        else:
            findings.extend(answer)
    return Evaluation(run=history.key, findings=tuple(findings), undecided=frozenset(undecided))


def _was_seen_since_start(history: RunHistory) -> bool:
    """Whether the directory was looked at after the newest running attempt began; only that look counts for it."""
    begun = [attempt.started_at for attempt in history.attempts if attempt.ended_at is None]
    return not isinstance(history.scan, Scan) or not begun or history.scan.scanned_at >= max(begun)
