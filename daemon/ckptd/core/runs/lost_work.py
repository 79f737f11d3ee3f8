"""Calculates unsaved work, one part of lost work: run time of an ended attempt that no checkpoint covers.

The other part is in redone_work. Unsaved work is the time from the newest usable checkpoint at the end of the attempt
until that end, or from the attempt's start if it saved nothing: earlier checkpoints cover the work of earlier attempts.
Suspended time is no work, and the work of a completed job is not lost. Nothing here checks whether the directory was
scanned after the end; the caller decides when a figure is final.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import Attempt, CheckpointState, EndCause, JobKey, RecordedCheckpoint, Role
from ckptd.core.runs import redone_work, suspension
from ckptd.core.runs.ownership import WHOLE_SECOND
from ckptd.core.runs.redone_work import RedoneWork

NOTHING = timedelta(0)
LONGEST_UNREAD = timedelta(minutes=10)  # before a later attempt started: two intervals of scans, by default
LATEST_SAVE = timedelta(minutes=5)  # after its attempt's end; later it is one that was credited before a poll failed


class SavedWork(NamedTuple):
    """What the calculation of lost work needs of a complete checkpoint: when it existed, and which attempt wrote it."""

    completed_at: datetime
    deleted_at: datetime | None = None
    attempt: tuple[JobKey, int] | None = None
    is_state: bool = True  # its role is `state`


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptLoss:
    """What one attempt lost. `saved_at` is None where nothing of its own work was saved.

    `lost`, and with it the others, is what it lost at least: less than `most` where nobody knows what it saved.
    """

    saved_at: datetime | None
    lost: timedelta
    most: timedelta
    node_seconds: float
    cpu_seconds: float
    gpu_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerLine:
    """One attempt's line. Until it is final, a save of its last minutes may still be found."""

    attempt: tuple[JobKey, int]
    user: str
    account: str
    partition: str
    cause: EndCause
    ended_at: datetime
    loss: AttemptLoss
    is_final: bool
    redone: RedoneWork = redone_work.UNKNOWN
    node_count: int = 0
    cpu_count: int = 0
    gpu_count: int = 0


def list_saves(recorded: Iterable[RecordedCheckpoint]) -> tuple[SavedWork, ...]:
    """Return the saves among a run's checkpoints, gone ones included."""
    return tuple(
        SavedWork(known.completed_at, known.deleted_at, known.attempt, known.checkpoint.role is Role.STATE)
        for known in recorded
        if known.completed_at is not None and known.checkpoint.state is CheckpointState.COMPLETE
    )


def measure_loss(
    attempt: Attempt,
    saves: Iterable[SavedWork],
    *,
    is_located: bool = True,
    is_followed: bool = False,
    is_replaced: bool = False,
    read_at: datetime | None = None,
) -> AttemptLoss:
    """Return the unsaved work of an ended attempt, given its run's saves in any order.

    If the run saves states, checkpoints with the role `data` do not count. A save counts if it was complete at the end
    of the attempt and still on disk. It also counts if ckptd saw this attempt write it until LATEST_SAVE after the end,
    because Slurm lets the processes of a requeued job finish. If ckptd saw no attempt write it, it counts if it was
    written in the same second as the end.

    In three cases, it is unknown whether work was lost. `lost` is then 0, and `most` is the time since the newest
    recorded save:
    - the run's directory is not known (`is_located` is false), and no save is recorded;
    - a later attempt, which may have deleted saves, has started (`is_followed`), and the directory had not been read
      for longer than LONGEST_UNREAD: `read_at` is the last whole scan before that attempt changed anything, or None;
    - that attempt replaced the newest save (`is_replaced`), or saved where none was on record, before a scan.

    Raises:
        ValueError: the attempt has not ended.

    """
    if attempt.ended_at is None:
        raise ValueError(f"attempt {attempt.restart_count} of job {attempt.job.job_id} has not ended")
    everything = [*saves]
    states = [save for save in everything if save.is_state] or everything
    own = [save.completed_at for save in states if _counts(save, attempt, attempt.ended_at)]
    saved_at = max(own, default=None)
    lost = NOTHING
    if attempt.cause is not EndCause.COMPLETED:
        since = saved_at or attempt.started_at
        idle = suspension.within(attempt.suspensions, since, attempt.ended_at)
        lost = max(attempt.ended_at - since - idle, NOTHING)
    most = lost
    is_unseen = saved_at is None and (not is_located or (is_followed and attempt.first_seen_at > attempt.ended_at))
    unread = _find_unread(attempt, attempt.ended_at, saved_at, read_at)
    if is_unseen or (is_followed and (unread > LONGEST_UNREAD or (is_replaced and unread))):
        lost = NOTHING
    seconds = lost.total_seconds()
    return AttemptLoss(
        saved_at=saved_at,
        lost=lost,
        most=most,
        node_seconds=seconds * attempt.node_count,
        cpu_seconds=seconds * attempt.cpu_count,
        gpu_seconds=seconds * attempt.gpu_count,
    )


def as_bound(loss: AttemptLoss) -> AttemptLoss:
    """Return a loss of which nothing is claimed but the most that it can be."""
    return replace(loss, lost=NOTHING, node_seconds=0.0, cpu_seconds=0.0, gpu_seconds=0.0)


def _find_unread(
    attempt: Attempt, ended_at: datetime, saved_at: datetime | None, read_at: datetime | None
) -> timedelta:
    """Return in how much time saves may have come and gone that no scan found; one that a later scan found stayed."""
    since = attempt.started_at if read_at is None else max(read_at, attempt.started_at)
    return max(ended_at - since, NOTHING) if saved_at is None or saved_at <= since else NOTHING


def _counts(save: SavedWork, attempt: Attempt, ended_at: datetime) -> bool:
    if save.completed_at < attempt.started_at or (save.deleted_at is not None and save.deleted_at <= ended_at):
        return False
    is_own = save.attempt == (attempt.job, attempt.restart_count)
    if save.attempt is None:
        return save.completed_at < ended_at + WHOLE_SECOND
    return save.completed_at <= (ended_at + LATEST_SAVE if is_own else ended_at)
