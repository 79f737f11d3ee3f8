"""Scans directories and records the results."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from ckptd.checkpoints.agent.client import NOT_REACHED
from ckptd.checkpoints.agent.scan_client import scan_runs
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Checkpoint, RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.model.records import ScanRecord
from ckptd.core.runs import ownership, progress
from ckptd.steps.parts import Parts
from ckptd.steps.run_facts import FreeSpaceSamples
from ckptd.steps.state import State

LONGEST_LOOK = timedelta(minutes=10)


def scan_directories(
    parts: Parts, state: State, due: list[WatchedRun], now: datetime, reread: Collection[str] = ()
) -> list[Scan | Unknown]:
    """Scan and record; read the checkpoints at the paths to reread again even if they did not change."""
    if not due:
        return []
    keys = [each.key for each in due]
    with state.record_lock:
        recorded = parts.store.checkpoints.read_many(keys)
        work_dirs = parts.store.runs.read_work_dirs(keys)
        resuming_jobs = parts.store.runs.read_resuming_jobs(keys)
    asked = [(each.key, _present_checkpoints(recorded.get(each.key, ()), reread), each.last) for each in due]
    found = scan_runs(parts.agent, asked, parts.limits, now, work_dirs, resuming_jobs)
    with state.recording():
        answered = [pair for pair in zip(due, found, strict=True) if pair[1] is not NOT_REACHED]
        _record_scans(parts, state, answered, recorded, now)
    return found


def _present_checkpoints(recorded: Iterable[RecordedCheckpoint], reread: Collection[str]) -> list[Checkpoint]:
    return [
        record.checkpoint
        for record in recorded
        if record.deleted_at is None and not (reread and str(record.checkpoint.path) in reread)
    ]


def _record_scans(
    parts: Parts,
    state: State,
    scanned: Collection[tuple[WatchedRun, Scan | Unknown]],
    recorded: Mapping[RunKey, tuple[RecordedCheckpoint, ...]],
    now: datetime,
) -> None:
    """Record the results of scans in one transaction, then publish them; if recording fails, the scans are repeated."""
    known = parts.store.checkpoints.read_last_scans(parts.cluster, [watched.key for watched, _ in scanned])
    looks: list[ScanRecord] = []
    free_space = state.latest(FreeSpaceSamples)
    for watched, scan in scanned:
        key = watched.key
        if isinstance(scan, Unknown):
            looks.append(ScanRecord(run=key, scan=scan))
            continue
        writers = ownership.find_writers(key, known.get(key, ownership.PreviousScan()), watched.looked_at, now)
        changes = progress.merge_scan(recorded.get(key, ()), scan, writers, _over_at(scan, now))
        looks.append(ScanRecord(run=key, scan=scan, changes=changes, free_space_samples=free_space.sample(key, scan)))
    parts.store.checkpoints.record_scans(looks)
    sampled = {look.run: look.free_space_samples for look in looks if look.free_space_samples is not None}
    state.change(FreeSpaceSamples, lambda samples: samples.with_samples(sampled))
    for look in looks:
        state.events.count_checkpoints(recorded.get(look.run, ()), look.changes)
        state.watchlist.record_scan(look.run, look.scan, now)


def _over_at(scan: Scan, now: datetime) -> datetime:
    """Return the time when a scan ended; its start if the clock was set back meanwhile."""
    over_at = scan.finished_at or now
    return over_at if now <= over_at <= now + LONGEST_LOOK else now
