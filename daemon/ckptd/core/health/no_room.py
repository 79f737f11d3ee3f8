"""Detect too little free space for the next checkpoint: the save would fail and may damage the previous one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from ckptd.core.forecast import projection
from ckptd.core.health.interface import FindingBuilder, not_whole
from ckptd.core.model import CheckpointState, Evidence, Finding, RunHistory, Scan, Severity, Unknown
from ckptd.core.runs import history as facts

HOLD_FACTOR = 1.25  # an open flag needs that much more space to resolve: other users write there too


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Flag a run when free space or remaining quota is below `factor` times the size of its newest checkpoint.

    The flag opens while a job runs, and stays open while that job waits to be started again: its next save needs the
    same space.
    """

    name: ClassVar[str] = "no-room"
    factor: float = 2.0

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:  # noqa: ARG002
        concerned = [job for job in history.jobs if job.is_running or facts.is_flagged(history, self.name, job)]
        scan = history.scan
        if not isinstance(scan, Scan) or (available := scan.available_bytes) is None:
            return not_whole(self.name)
        good = facts.newest_complete(history)
        size_bytes = _size_of_one(history)
        if not concerned or size_bytes is None:
            return ()
        is_open = any(facts.is_flagged(history, self.name, job) for job in concerned)
        if available >= size_bytes * self.factor * (HOLD_FACTOR if is_open else 1):
            return ()
        furthest = facts.furthest_complete(history)
        full_at = projection.full_at(history.free_space_samples)
        evidence: dict[str, Evidence] = {
            "room_bytes": available,
            "free_bytes": scan.free_bytes,
            "quota_left_bytes": scan.quota_left_bytes,
            "total_bytes": scan.total_bytes,
            "checkpoint_bytes": size_bytes,
            "held_bytes": facts.total(history).size_bytes,
            "newest_good": str(good.checkpoint.path) if good else None,
            # another one than the newest after a restart without a checkpoint
            "furthest_good": str(furthest.checkpoint.path) if furthest else None,
            "full_at": full_at.isoformat() if full_at else None,
        }
        builder = FindingBuilder(self.name, history, audience=("user", "admin"))
        return [builder.make_finding(job, Severity.CRITICAL, evidence) for job in concerned]


def needed_bytes(history: RunHistory, rules: Iterable[object]) -> float:
    """Return how much free space is enough for these rules, whether or not a flag is open; 0 if any is."""
    size_bytes = _size_of_one(history) or 0
    return max((each.factor * HOLD_FACTOR * size_bytes for each in rules if isinstance(each, NoRoom)), default=0)


def _size_of_one(history: RunHistory) -> int | None:
    """Return the size of the newest checkpoint that is complete, or else was: failed saves may have replaced it."""
    if good := facts.newest_complete(history):
        return good.checkpoint.size_bytes
    complete = [each for each in history.checkpoints if each.checkpoint.state is CheckpointState.COMPLETE]
    last = max(complete, key=lambda each: each.checkpoint.modified_at, default=None)
    return last.checkpoint.size_bytes if last else None
