"""Scan directories, and record what the looks found."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.agent_client import NOT_REACHED
from ckptd.checkpoints.look import scan_runs
from ckptd.core import progress
from ckptd.core.model import Attempt, Checkpoint, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.watchlist import Watched
from ckptd.cycle.state import Parts, State


def scan_directories(
    parts: Parts, state: State, due: list[Watched], now: datetime, reread: Collection[str] = ()
) -> list[Scan | Unknown]:
    """Scan and record; the checkpoints at the paths to reread are read anew though nothing about them changed."""
    if not due:
        return []
    with state.lock:
        known = [parts.store.read_recorded(each.key) for each in due]
    asked = [(each.key, _present_checkpoints(recorded, reread)) for each, recorded in zip(due, known, strict=True)]
    found = scan_runs(parts.agent, asked, parts.limits, now)
    with state.lock:
        attempts = _read_attempts(parts, [each.key for each in due])
        unchanged = [
            watched.key
            for watched, recorded, scan in zip(due, known, found, strict=True)
            if not _record_scan(parts, state, watched, scan, Known(recorded, attempts.get(watched.key, ())), now)
        ]
        parts.store.record_unchanged(unchanged, now)
    return found


def _present_checkpoints(recorded: Iterable[RecordedCheckpoint], reread: Collection[str]) -> list[Checkpoint]:
    return [
        record.checkpoint
        for record in recorded
        if record.gone_at is None and not (reread and str(record.checkpoint.path) in reread)
    ]


def _read_attempts(parts: Parts, keys: list[RunKey]) -> dict[RunKey, tuple[Attempt, ...]]:
    histories = parts.store.read_histories(parts.cluster, keys) if keys else []
    return {history.key: history.attempts for history in histories}


class Known(NamedTuple):
    """What the record says of a run that is being looked at."""

    recorded: tuple[RecordedCheckpoint, ...]
    attempts: tuple[Attempt, ...]


def _record_scan(
    parts: Parts, state: State, watched: Watched, scan: Scan | Unknown, known: Known, now: datetime
) -> bool:
    """Record what a look found; False where all is as it was, which is recorded for many runs at once."""
    key = watched.key
    if scan is NOT_REACHED:
        return True  # it stays due
    state.watchlist.looked(key, scan, now)
    if isinstance(scan, Unknown):
        parts.store.record_scan(key, progress.CheckpointChanges(), scan)
        return True
    writers = progress.Writers(owner_uid=key.uid, attempts=known.attempts, looked_at=watched.looked_at)
    changes = progress.merge_scan(known.recorded, scan, writers, now)
    state.totals = state.totals.with_checkpoints(known.recorded, changes)
    if changes.is_empty and scan.is_whole and watched.looked_at is not None:
        return False
    parts.store.record_scan(key, changes, scan)
    return True
