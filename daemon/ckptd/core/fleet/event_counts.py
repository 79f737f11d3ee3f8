"""What happened since the daemon started, counted: the steps of a cycle add to it, metrics show it.

It begins at nothing with every start, as Prometheus expects of a counter.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from ckptd.core.fleet.histogram import Distribution
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import CheckpointState, EndCause, RecordedCheckpoint, RestartKind, Severity
from ckptd.core.queue import JobChanges
from ckptd.core.runs.progress import CheckpointChanges

SAVE_BOUNDS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
INTERVAL_BOUNDS = (60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Counts that only rise. Every kind is there from the start, so that a first event is seen as a rise from 0."""

    failed_polls: int = 0
    restarts: Mapping[RestartKind, int] = field(default_factory=lambda: dict.fromkeys(RestartKind, 0))
    ended_attempts: Mapping[EndCause, int] = field(default_factory=lambda: dict.fromkeys(EndCause, 0))
    opened_flags: Mapping[tuple[str, Severity], int] = field(default_factory=dict)
    resolved_flags: Mapping[str, int] = field(default_factory=dict)
    completed_checkpoints: Mapping[str, int] = field(default_factory=dict)  # by format
    completed_bytes: Mapping[str, int] = field(default_factory=dict)
    damaged_checkpoints: Mapping[str, int] = field(default_factory=dict)
    save_seconds: Distribution = field(default_factory=lambda: Distribution.empty(SAVE_BOUNDS))
    interval_seconds: Distribution = field(default_factory=lambda: Distribution.empty(INTERVAL_BOUNDS))

    def with_failed_poll(self) -> "Totals":
        """Count a look at the queue that saw nothing to be believed."""
        return replace(self, failed_polls=self.failed_polls + 1)

    def with_jobs(self, changes: JobChanges) -> "Totals":
        """Count the restarts that began and the attempts that ended."""
        if not changes.begun and not changes.ended:
            return self
        return replace(
            self,
            restarts=_plus(self.restarts, (each.kind for each in changes.begun if each.kind is not None)),
            ended_attempts=_plus(self.ended_attempts, (each.cause or EndCause.UNKNOWN for each in changes.ended)),
        )

    def with_flags(self, changes: FlagChanges) -> "Totals":
        """Count the flags that opened, at the severity that they had then, and those that resolved."""
        return replace(
            self,
            opened_flags=_plus(self.opened_flags, ((f.finding.rule, f.finding.severity) for f in changes.opened)),
            resolved_flags=_plus(self.resolved_flags, (flag.finding.rule for flag in changes.resolved)),
        )

    def with_checkpoints(self, recorded: Iterable[RecordedCheckpoint], changes: CheckpointChanges) -> "Totals":
        """Count the checkpoints that became complete or damaged; only those that a job was seen writing.

        `recorded` is what was known of the run before this look.
        """
        known = {_identity(record): record for record in recorded}
        touched = [record for record in (*changes.appeared, *changes.changed) if record.attempt is not None]
        complete = [record for record in touched if record.completed_at and _is_news(record, known)]
        damaged = [
            record.checkpoint.format
            for record in touched
            if record.checkpoint.state is CheckpointState.DAMAGED and _is_news(record, known)
        ]
        if not complete and not damaged:
            return self
        sizes = Counter(self.completed_bytes)
        for record in complete:
            sizes[record.checkpoint.format] += record.checkpoint.size_bytes
        return replace(
            self,
            completed_checkpoints=_plus(self.completed_checkpoints, (each.checkpoint.format for each in complete)),
            completed_bytes=sizes,
            damaged_checkpoints=_plus(self.damaged_checkpoints, damaged),
            save_seconds=self.save_seconds.plus(_list_save_seconds(complete)),
            interval_seconds=self.interval_seconds.plus(_list_interval_seconds(complete, known.values())),
        )


_Identity = tuple[str, str, datetime]
_Kind = TypeVar("_Kind", bound=Hashable)


def _plus(counts: Mapping[_Kind, int], kinds: Iterable[_Kind]) -> dict[_Kind, int]:
    result = dict(counts)
    for kind in kinds:
        result[kind] = result.get(kind, 0) + 1
    return result


def _identity(record: RecordedCheckpoint) -> _Identity:
    return str(record.checkpoint.path), record.checkpoint.format, record.first_seen_at


def _is_news(record: RecordedCheckpoint, known: Mapping[_Identity, RecordedCheckpoint]) -> bool:
    before = known.get(_identity(record))
    if before is None:
        return True
    return (before.checkpoint.state, before.completed_at) != (record.checkpoint.state, record.completed_at)


def _list_save_seconds(complete: Iterable[RecordedCheckpoint]) -> Iterator[float]:
    for record in complete:
        if record.completed_at and record.started_writing_at:
            yield max((record.completed_at - record.started_writing_at).total_seconds(), 0.0)


def _list_interval_seconds(
    complete: Iterable[RecordedCheckpoint], known: Iterable[RecordedCheckpoint]
) -> Iterator[float]:
    """Give the time from each save to the one before it in the same attempt; a pause between attempts is none."""
    completed: dict[object, set[datetime]] = defaultdict(set)
    for record in (*known, *complete):
        if record.completed_at is not None:
            completed[record.attempt].add(record.completed_at)
    for record in complete:
        earlier = [at for at in completed[record.attempt] if record.completed_at and at < record.completed_at]
        if earlier and record.completed_at:
            yield (record.completed_at - max(earlier)).total_seconds()
