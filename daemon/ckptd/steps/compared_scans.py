"""Compares scans with what is on record of their directories, before and after they are recorded."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import RecordedCheckpoint, RunKey, Scan, Unknown
from ckptd.core.model.records import RevisionRise, ScanRecord, SettledScan
from ckptd.core.runs import ownership, progress
from ckptd.core.runs.progress import CheckpointChanges
from ckptd.steps.known_checkpoints import KnownCheckpoints
from ckptd.steps.parts import Parts
from ckptd.store.fresh_checkpoints import ScanUpdate
from ckptd.store.recorded_rows import RecordedRows

LONGEST_SCAN = timedelta(minutes=10)


class ComparedScan(NamedTuple):
    """What a scan is compared with, and the scan, both without the checkpoints that certainly stay as they are."""

    known: RecordedRows  # all that are there
    recorded: tuple[RecordedCheckpoint, ...]  # those that it may change, and deleted ones that it may have found again
    scan: Scan


def compare_scans(
    parts: Parts, scanned: Collection[tuple[WatchedRun, Scan | Unknown]], known: Mapping[RunKey, KnownCheckpoints]
) -> dict[RunKey, ComparedScan]:
    """Return what each scan is compared with."""
    unseen = {watched.key: scan.checkpoints for watched, scan in scanned if isinstance(scan, Scan)}
    new = [key for key in unseen if not known[key].recorded]
    deleted = parts.store.checkpoints.read_many(new) if new else {}
    changed = {key: found for key, found in unseen.items() if found and key not in deleted}
    deleted |= parts.store.checkpoints.read_deleted_alike(changed) if changed else {}
    compared: dict[RunKey, ComparedScan] = {}
    for watched, scan in scanned:
        if isinstance(scan, Scan):
            key = watched.key
            recorded, left = known[key].compare(scan)
            compared[key] = ComparedScan(known[key].recorded, (*recorded, *deleted.get(key, ())), left)
    return compared


def list_updates(
    records: Iterable[ScanRecord],
    compared: Mapping[RunKey, ComparedScan],
    read_at: Mapping[RunKey, int],
    written: Mapping[RunKey, RevisionRise],
) -> dict[RunKey, ScanUpdate]:
    """Return what scans changed of runs, except where something else changed a run's checkpoints meanwhile."""
    updates: dict[RunKey, ScanUpdate] = {}
    for record in records:
        change = written.get(record.run)
        if change is None:
            continue
        known, recorded = compared[record.run].known, compared[record.run].recorded
        is_first = not known and not recorded
        if is_first or read_at.get(record.run) == change.before:
            before = None if is_first else change.before
            updates[record.run] = ScanUpdate(before, change.after, known, recorded, record.changes)
    return updates


def list_settled(records: Iterable[ScanRecord], revisions: Mapping[RunKey, int]) -> dict[RunKey, SettledScan]:
    """Return the scans that found what was on record at these revisions, and that only a change makes different."""
    return {
        record.run: SettledScan(record.scan.fingerprint, revisions[record.run], record.scan.markers)
        for record in records
        if record.run in revisions
        and isinstance(record.scan, Scan)
        and record.scan.fingerprint
        and record.scan.is_whole
        and record.changes.is_empty
    }


def settle_updates(
    records: Iterable[ScanRecord],
    compared: Mapping[RunKey, ComparedScan],
    updates: Mapping[RunKey, ScanUpdate],
    now: datetime,
) -> dict[RunKey, SettledScan]:
    """Compare scans with what was recorded of them, so that the next ones need not list the directories."""
    again = [
        replace(record, changes=_compare_again(record, compared[record.run], now))
        for record in records
        if record.run in updates and isinstance(record.scan, Scan) and record.scan.fingerprint
    ]
    return list_settled(again, {run: each.after for run, each in updates.items()})


def _compare_again(record: ScanRecord, compared: ComparedScan, now: datetime) -> CheckpointChanges:
    recorded = progress.apply(record.changes, compared.recorded)
    nobody = ownership.Writers(owner_uid=record.run.uid)
    return progress.merge_scan(recorded, compared.scan, nobody, find_end(compared.scan, now))


def find_end(scan: Scan, now: datetime) -> datetime:
    """Return the time when a scan ended; its start if the clock was set back meanwhile."""
    over_at = scan.finished_at or now
    return over_at if now <= over_at <= now + LONGEST_SCAN else now
