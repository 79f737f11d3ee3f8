"""Counts what happens while the daemon runs, for metrics."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import TypeVar

from ckptd.core.fleet.event_counts import EventTotals
from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import CheckpointState, EndCause, JobKey, RecordedCheckpoint, Severity
from ckptd.core.queue import JobChanges
from ckptd.core.runs.progress import CheckpointChanges

Save = tuple[tuple[JobKey, int] | None, datetime]  # which attempt completed a checkpoint, if known, and when
# rules whose first flags must raise an alert: a counter that is absent before them would show no increase
FROM_THE_START = ("restarted-without-checkpoint", "restart-loop")


class EventCounter:
    """Counts each event once. Owned by the step `publish`; the steps that record events call it.

    It has its own lock, held for one call at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = EventTotals(opened_flags=dict.fromkeys(product(FROM_THE_START, Severity), 0))

    def read(self) -> EventTotals:
        """Return the current counts."""
        return self._totals

    def count_failed_poll(self) -> None:
        """Count a poll that failed or was implausible."""
        with self._lock:
            self._totals = replace(self._totals, failed_polls=self._totals.failed_polls + 1)

    def count_jobs(self, changes: JobChanges) -> None:
        """Count started restarts and ended attempts."""
        if not changes.begun and not changes.ended:
            return
        kinds = [each.kind for each in changes.begun if each.kind is not None]
        causes = [each.cause or EndCause.UNKNOWN for each in changes.ended]
        with self._lock:
            known = self._totals
            self._totals = replace(
                known,
                restarts=_plus(known.restarts, kinds),
                ended_attempts=_plus(known.ended_attempts, causes),
            )

    def count_flags(self, changes: FlagChanges) -> None:
        """Count opened flags, by their severity at that time, and resolved ones."""
        if not changes.opened and not changes.resolved:
            return
        opened = [(flag.finding.rule, flag.finding.severity) for flag in changes.opened]
        resolved = [flag.finding.rule for flag in changes.resolved]
        with self._lock:
            known = self._totals
            self._totals = replace(
                known,
                opened_flags=_plus(known.opened_flags, opened),
                resolved_flags=_plus(known.resolved_flags, resolved),
            )

    def count_checkpoints(
        self, recorded: Iterable[RecordedCheckpoint], changes: CheckpointChanges, saves: Iterable[Save]
    ) -> None:
        """Count the checkpoints that became complete or damaged; only those that a job was seen writing.

        `recorded` are those of the run that this scan may have changed, as they were before; `saves` are of all.
        """
        before = {_identity(record): record for record in recorded}
        self._begin_formats({record.checkpoint.format for record in (*before.values(), *changes.appeared)})
        touched = [record for record in (*changes.appeared, *changes.changed) if record.attempt is not None]
        complete = [record for record in touched if record.completed_at and _is_new_or_changed(record, before)]
        damaged = [
            record.checkpoint.format
            for record in touched
            if record.checkpoint.state is CheckpointState.DAMAGED and _is_new_or_changed(record, before)
        ]
        if not complete and not damaged:
            return
        seconds = list(_list_save_seconds(complete))
        intervals = list(_list_interval_seconds(complete, saves))
        with self._lock:
            known = self._totals
            sizes = Counter(known.completed_bytes)
            for record in complete:
                sizes[record.checkpoint.format] += record.checkpoint.size_bytes
            self._totals = replace(
                known,
                completed_checkpoints=_plus(known.completed_checkpoints, (each.checkpoint.format for each in complete)),
                completed_bytes=sizes,
                damaged_checkpoints=_plus(known.damaged_checkpoints, damaged),
                save_seconds=known.save_seconds.plus(seconds),
                interval_seconds=known.interval_seconds.plus(intervals),
            )

    def _begin_formats(self, formats: set[str]) -> None:
        """Let the counters of a format exist at 0 before its first event, which then is an increase."""
        if new := formats - self._totals.damaged_checkpoints.keys():
            zeros = dict.fromkeys(new, 0)
            with self._lock:
                known = self._totals
                self._totals = replace(
                    known,
                    completed_checkpoints={**zeros, **known.completed_checkpoints},
                    completed_bytes={**zeros, **known.completed_bytes},
                    damaged_checkpoints={**zeros, **known.damaged_checkpoints},
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


def _is_new_or_changed(record: RecordedCheckpoint, known: Mapping[_Identity, RecordedCheckpoint]) -> bool:
    before = known.get(_identity(record))
    if before is None:
        return True
    return (before.checkpoint.state, before.completed_at) != (record.checkpoint.state, record.completed_at)


def _list_save_seconds(complete: Iterable[RecordedCheckpoint]) -> Iterator[float]:
    for record in complete:
        if record.completed_at and record.started_writing_at:
            yield max((record.completed_at - record.started_writing_at).total_seconds(), 0.0)


def list_saves(recorded: Iterable[RecordedCheckpoint]) -> Iterator[Save]:
    """Yield which attempt completed each checkpoint that was complete, and when."""
    for record in recorded:
        if record.completed_at is not None:
            yield record.attempt, record.completed_at


def _list_interval_seconds(complete: Collection[RecordedCheckpoint], saves: Iterable[Save]) -> Iterator[float]:
    """Return the seconds between consecutive saves of the same attempt."""
    completed: dict[object, set[datetime]] = defaultdict(set)
    for attempt, completed_at in (*saves, *list_saves(complete)):
        completed[attempt].add(completed_at)
    for record in complete:
        earlier = [at for at in completed[record.attempt] if record.completed_at and at < record.completed_at]
        if earlier and record.completed_at:
            yield (record.completed_at - max(earlier)).total_seconds()
