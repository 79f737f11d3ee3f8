"""Proves which job wrote a checkpoint. Pruning removes nothing without this proof, so an uncertain writer is none.

A checkpoint is attributed to an attempt if it appeared or changed between two scans while the attempt ran. While a run
is watched, the earlier scan is the previous one in memory. When a run is watched again (the next task of an array, a
chained job, a restarted daemon), the earlier scan is the one in the database. It proves the writer only if the queue
was polled without a gap since then, so that no job was missed, and only for files written after it. So there is no
proof for a database from an old backup, for the first scan of a directory, or for old files that were moved in.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import Attempt, Checkpoint, JobKey, RunKey

CLOCK_TOLERANCE = timedelta(seconds=60)  # how far a file server's clock may be off
MAX_POLL_GAP = timedelta(minutes=10)  # between two successful polls: in a longer gap, jobs may have been missed
WHOLE_SECOND = timedelta(seconds=1)  # in which Slurm states instants: up to so much later it may have been
_ROUNDING = timedelta(seconds=1)  # an instant that went through the record


@dataclass(frozen=True, kw_only=True, slots=True)
class Writers:
    """The attempts that may have written in a run's directory since the previous scan.

    `attempts` are the run's own that ran at any time since then. `observed_at` is that look: without one nothing was
    seen to appear. `written_since`: what was last written before is not proven, however new it is to the record.
    """

    owner_uid: int
    attempts: tuple[Attempt, ...] = ()
    observed_at: datetime | None = None
    written_since: datetime | None = None

    def credit(self, checkpoint: Checkpoint) -> tuple[JobKey, int] | None:
        """Return the attempt that was running when the checkpoint was last written; None if that is uncertain.

        The same attempt must have written all parts of a set.
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
    """Whether a file that was written after one attempt ended and the next started is the work of the former.

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
    """The recorded result of the previous scan of a run's directory."""

    attempts: tuple[Attempt, ...] = ()
    scanned_at: datetime | None = None  # None: never
    is_whole: bool = False  # that scan was complete
    polled_at: datetime | None = None  # the last successful poll
    polled_since: datetime | None = None  # without a gap until then


def find_writers(run: RunKey, known: PreviousScan, watched_at: datetime | None, now: datetime) -> Writers:
    """Return the jobs that may have written since the previous scan.

    `watched_at` is the time of the previous scan in this watch; None if there was none.
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
    """Whether the database contains the previous scan; if not, another database was put in its place."""
    return known.scanned_at is not None and known.scanned_at >= watched_at - _ROUNDING


def _is_followed(known: PreviousScan, scanned_at: datetime, now: datetime) -> bool:
    """Whether the recorded scan was complete, and polls since then can have missed no job."""
    if not known.is_whole or known.polled_since is None:
        return False
    return known.polled_since <= scanned_at <= now and is_poll_continued(known.polled_at, now)


def is_poll_continued(polled_at: datetime | None, now: datetime) -> bool:
    """Whether a poll now continues the previous one, so that no job can have been missed in between."""
    return polled_at is not None and abs(now - polled_at) <= MAX_POLL_GAP
