"""Proves which job wrote a checkpoint. Pruning removes nothing without this proof, so an uncertain writer is none.

An attempt is credited with a checkpoint if ckptd saw it appear or change between two scans while the attempt ran.
While a run is watched, the earlier scan is the one before. When a run is watched again (the next task of an array, a
chained job, a restarted daemon), the earlier scan is the recorded one. Then it is a proof only if the queue was polled
without a gap since that scan, so that no job was missed, and only for files written after it. A database from an old
backup, a directory that was never scanned before, and old files that were moved in therefore prove nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, Checkpoint, JobKey, RunKey

CLOCK_TOLERANCE = timedelta(seconds=60)  # how far a file server's clock may be off
MAX_POLL_GAP = timedelta(minutes=10)  # between two good looks at the queue: longer ones leave room for unseen jobs
WHOLE_SECOND = timedelta(seconds=1)  # in which Slurm states instants: up to so much later it may have been
_ROUNDING = timedelta(seconds=1)  # an instant that went through the record


@dataclass(frozen=True, kw_only=True, slots=True)
class Writers:
    """Who may have written in a run's directory since the look before.

    `attempts` are the run's own that ran at any time since then. `observed_at` is that look: without one nothing was
    seen to appear. `written_since`: what was last written before is not proven, however new it is to the record.
    """

    owner_uid: int
    attempts: tuple[Attempt, ...] = ()
    observed_at: datetime | None = None
    written_since: datetime | None = None

    def credit(self, checkpoint: Checkpoint) -> tuple[JobKey, int] | None:
        """Return the attempt that was running when the checkpoint was last written, None where in doubt.

        Of a set, each part must have been written by the same attempt.
        """
        if self.observed_at is None or checkpoint.owner_uids != {self.owner_uid}:
            return None
        writers = {self._writer_at(part.modified_at) for part in checkpoint.parts or (checkpoint,)}
        return writers.pop() if len(writers) == 1 else None

    def _writer_at(self, written_at: datetime) -> tuple[JobKey, int] | None:
        if self.written_since is not None and written_at < self.written_since:
            return None
        running = [
            attempt
            for attempt in self.attempts
            if attempt.started_at <= written_at
            and (attempt.ended_at is None or written_at <= attempt.ended_at + CLOCK_TOLERANCE)
        ]
        latest = max(running, key=lambda attempt: attempt.started_at, default=None)
        if latest is not None:
            ending = [each for each in running if _was_ending(each, written_at, latest.started_at)]
            latest = max(ending, key=lambda attempt: attempt.started_at, default=latest)
        return (latest.job, latest.restart_count) if latest else None


def _was_ending(attempt: Attempt, written_at: datetime, next_at: datetime) -> bool:
    return attempt.ended_at is not None and is_last_save(written_at, attempt.ended_at, next_at)


def is_last_save(written_at: datetime, ended_at: datetime, next_at: datetime) -> bool:
    """Whether what was written after one attempt ended and the next one started is the work of the former.

    No program saves within a second of its start, but many save when they are asked to end.
    """
    return written_at < min(ended_at, next_at) + WHOLE_SECOND


def last_saves_until(attempt: Attempt, previous: Attempt | None) -> datetime:
    """Return until when saves are the work of the attempt before this one: what `is_last_save` says, as an instant."""
    if previous is None or previous.ended_at is None:
        return attempt.started_at
    return max(attempt.started_at, min(previous.ended_at, attempt.started_at) + WHOLE_SECOND - datetime.resolution)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreviousScan:
    """What is on record of the last look at a run's directory, before the next is recorded."""

    attempts: tuple[Attempt, ...] = ()
    scanned_at: datetime | None = None  # None: never
    is_whole: bool = False  # that look saw the whole directory
    polled_at: datetime | None = None  # the last good look at the queue
    polled_since: datetime | None = None  # without a gap until then


def find_writers(run: RunKey, known: PreviousScan, watched_at: datetime | None, now: datetime) -> Writers:
    """Return who may have written since the look before.

    `watched_at` is the last look of the watch that is going on, if there was one.
    """
    observed_at = written_since = None
    if watched_at is not None and _is_recorded(known, watched_at):
        observed_at = watched_at
    elif known.scanned_at is not None and _is_followed(known, known.scanned_at, now):
        observed_at, written_since = known.scanned_at, known.scanned_at - CLOCK_TOLERANCE
    running = tuple(attempt for attempt in known.attempts if observed_at and _ran_since(attempt, observed_at))
    return Writers(owner_uid=run.uid, attempts=running, observed_at=observed_at, written_since=written_since)


def _ran_since(attempt: Attempt, observed_at: datetime) -> bool:
    return attempt.ended_at is None or attempt.ended_at + CLOCK_TOLERANCE >= observed_at


def _is_recorded(known: PreviousScan, watched_at: datetime) -> bool:
    """Whether the record knows the look that was made: if not, another database was put in its place."""
    return known.scanned_at is not None and known.scanned_at >= watched_at - _ROUNDING


def _is_followed(known: PreviousScan, scanned_at: datetime, now: datetime) -> bool:
    """Whether the record's look saw everything, and no job can have come and gone unseen since."""
    if not known.is_whole or known.polled_since is None:
        return False
    return known.polled_since <= scanned_at <= now and is_poll_continued(known.polled_at, now)


def is_poll_continued(polled_at: datetime | None, now: datetime) -> bool:
    """Whether a look at the queue now goes on from the one before, with no room for a job in between."""
    return polled_at is not None and abs(now - polled_at) <= MAX_POLL_GAP
