"""Schedules the scans of runs: earlier while a checkpoint is being written, later after failures."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ckptd.core.discovery.nearby_candidates import NOT_STARTED
from ckptd.core.model import CheckpointState, RunKey, Scan, Unknown

MIN_GAP = timedelta(seconds=2)  # between two scans of one directory, however often it changes
GAP_PER_ENTRY = timedelta(milliseconds=10)  # the same for a large one, about a hundred times as long as the scan takes
WRITING_GAP = timedelta(seconds=10)  # while a save is going on
UNREAD_GAP = timedelta(seconds=2)  # after a scan that had not time enough
LAST_TRIES = 4  # at least, of a last scan that fails or is incomplete, because a file system may recover slowly
SOON_TRIES = 20  # of them, those that follow as soon as another scan would
LAST_PATIENCE = timedelta(hours=1)  # how long after the end of a run's jobs its last scan is retried in any case
MAX_TROUBLE_GAP = timedelta(minutes=30)
COMPARED_FOR_READ = 5  # directories that are only compared, in place of one that is read


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchedRun:
    """One run that is scanned while a job of it is in the queue, and afterwards until one scan was complete."""

    key: RunKey
    due_at: datetime
    observed_at: datetime | None = None  # the last scan with a result
    trouble_count: int = 0
    last: Scan | Unknown | None = None  # without its checkpoints: the record has them
    is_last_scan: bool = False  # its jobs have ended: one more complete scan, then it is dropped
    ended_at: datetime | None = None  # when a poll no longer found its jobs; None while one is there

    @property
    def is_unknown(self) -> bool:
        """Whether the last scan failed, or the last search could not find the checkpoints."""
        if self.last == NOT_STARTED:
            return False
        is_in_doubt = not self.key.is_located and isinstance(self.last, Scan) and not self.last.is_whole
        return isinstance(self.last, Unknown) or is_in_doubt


def hasten(watched: WatchedRun, now: datetime) -> WatchedRun:
    """Return the run with the earliest possible scan, after an attempt started or ended."""
    return _scan_after(watched, MIN_GAP, now)


def hasten_reported(watched: WatchedRun, now: datetime) -> WatchedRun:
    """Return the run with an early scan, after something changed in its directory."""
    entry_count = watched.last.entry_count if isinstance(watched.last, Scan) else 0
    return _scan_after(watched, max(MIN_GAP, entry_count * GAP_PER_ENTRY), now)


def _scan_after(watched: WatchedRun, gap: timedelta, now: datetime) -> WatchedRun:
    soonest = now if watched.observed_at is None else max(now, watched.observed_at + gap)
    return replace(watched, due_at=min(watched.due_at, soonest))


def bring_forward(watched: WatchedRun, interval: timedelta, now: datetime) -> WatchedRun:
    """Return the run with its next scan within a new interval; a retry after a failure keeps its time."""
    if watched.observed_at is None or watched.trouble_count:
        return watched
    return replace(watched, due_at=min(watched.due_at, max(now, watched.observed_at + interval)))


def list_due(watched: Iterable[WatchedRun], interval: timedelta, now: datetime) -> list[WatchedRun]:
    """Return the runs to scan now, also those whose due time is too late because the clock was set back."""
    latest = now + max(interval, MAX_TROUBLE_GAP)
    return [each for each in watched if not now < each.due_at <= latest or _is_of_the_future(each, now)]


def list_early(watched: Iterable[WatchedRun], interval: timedelta, now: datetime, share: float) -> list[WatchedRun]:
    """Return the runs whose regular scan is due within this share of the interval, after one that did not fail."""
    latest = now + interval * share
    return [
        each
        for each in watched
        if now < each.due_at <= latest
        and each.observed_at is not None
        and each.due_at - each.observed_at >= interval
        and not each.trouble_count
        and not each.is_last_scan
    ]


def _is_of_the_future(watched: WatchedRun, now: datetime) -> bool:
    return watched.observed_at is not None and watched.observed_at > now + MIN_GAP


def is_compared(watched: WatchedRun) -> bool:
    """Whether the next scan is expected to find nothing changed, and to take no time: it asks no site for a quota."""
    last = watched.last
    return isinstance(last, Scan) and last.fingerprint is not None and last.quota_read_at is None


def take_turn(watched: Iterable[WatchedRun], limit: int) -> list[WatchedRun]:
    """Return those of one owner that one task scans: so many that are read, or more that are only compared."""
    taken: list[WatchedRun] = []
    left = limit * COMPARED_FOR_READ
    for each in watched:
        if not left:  # a user may have tens of thousands of directories
            break
        cost = 1 if is_compared(each) else COMPARED_FOR_READ
        if cost <= left:
            taken.append(each)
            left -= cost
    return taken


def after_scan(
    watched: WatchedRun, found: Scan | Unknown, interval: timedelta, now: datetime, scanned: WatchedRun | None = None
) -> WatchedRun | None:
    """Return the run with its next scan, from the result of one that began at `now`; None if that was the last.

    `scanned` is the run as it was when the scan began. A scan that was under way when the jobs ended may have missed
    what they saved in the end: one more follows. A last scan of a known directory is repeated if it could not read
    everything, or found a save that may still be going on.
    """
    if watched.is_last_scan and scanned is not None and scanned.ended_at != watched.ended_at:
        return watched
    is_failed = isinstance(found, Unknown)
    if watched.is_last_scan:
        is_failed = is_failed or (watched.key.is_located and not _is_complete(found))
        if not is_failed or not _is_tried_again(watched, now):
            return None
    trouble_count = watched.trouble_count + 1 if is_failed else 0
    gap = min(interval * 2 ** min(trouble_count - 1, 10), MAX_TROUBLE_GAP) if is_failed else interval
    if isinstance(found, Unknown):
        return replace(watched, last=found, due_at=now + gap, trouble_count=trouble_count)
    if trouble_count <= SOON_TRIES:
        gap = min(gap, WRITING_GAP if _shows_writing(found) else gap, UNREAD_GAP if found.unread_count else gap)
    last = replace(found, checkpoints=())
    return replace(watched, last=last, observed_at=now, due_at=now + gap, trouble_count=trouble_count)


def _is_complete(found: Scan | Unknown) -> bool:
    return isinstance(found, Scan) and found.is_whole and not found.unread_count and not _shows_writing(found)


def _shows_writing(found: Scan) -> bool:
    return any(each.state is CheckpointState.WRITING for each in found.checkpoints)


def _is_tried_again(watched: WatchedRun, now: datetime) -> bool:
    """Whether a last scan that failed is followed by another one; a search for the directory is tried a few times."""
    is_recent = watched.ended_at is not None and timedelta(0) <= now - watched.ended_at < LAST_PATIENCE
    return (is_recent and watched.key.is_located) or watched.trouble_count + 1 < LAST_TRIES
