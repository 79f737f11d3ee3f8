"""What a run's time line shows: its attempts and saves, the work that was lost, and what the time limit will take."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ckptd.core.forecast import projection
from ckptd.core.model import Attempt, CheckpointState, Job, RecordedCheckpoint, RunRecord
from ckptd.core.runs import cadence, lost_work
from ckptd.core.runs import history as facts
from ckptd.core.runs.checkpoint_readers import find_readers
from ckptd.core.runs.possible_saves import find_possible_save

EXPECTED_COUNT = 50  # forecast saves: more of them would be a line
LEAST_AHEAD = timedelta(hours=1)


class CheckpointMarkState(StrEnum):
    """What became of a checkpoint."""

    COMPLETE = "complete"
    WRITING = "writing"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"
    DELETED = "deleted"  # replaced or removed, but not by ckptd
    PRUNED = "pruned"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointMark:
    """One checkpoint at the instant when it was written."""

    at: datetime
    fate: CheckpointMarkState
    path: str
    epoch: float | None
    step: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LossSpan:
    """Work between the newest usable checkpoint and an end, past or expected."""

    begins_at: datetime
    ends_at: datetime
    job_id: int
    is_forecast: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """When a running job's time ends."""

    job_id: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """From the first attempt to as far ahead as is useful; a limit may lie beyond `ends_at`."""

    begins_at: datetime
    now: datetime
    ends_at: datetime
    attempts: tuple[Attempt, ...]
    marks: tuple[CheckpointMark, ...]
    losses: tuple[LossSpan, ...]
    limits: tuple[Limit, ...]
    expected: tuple[datetime, ...]  # when the next checkpoints should be complete


def draw(history: RunRecord, now: datetime, margin: timedelta = projection.MARGIN) -> Timeline | None:
    """Return the time line at `now`; None for a run of which no attempt is known.

    `margin` is how long before a limit a save must be complete, as for the rule at-risk.
    """
    if not history.attempts:
        return None
    marks = tuple(_mark(record) for record in history.checkpoints)
    begins_at = min(attempt.started_at for attempt in history.attempts)
    ahead = [
        _ahead(history, job, now, margin) for job in facts.running_jobs(history) if job.ends_at and job.ends_at > now
    ]
    limits = tuple(each.limit for each in ahead)
    room = max(now - begins_at, LEAST_AHEAD)
    ends_at = max([now, *(min(limit.at, now + room) for limit in limits)])
    if ends_at <= begins_at:
        ends_at = begins_at + LEAST_AHEAD
    return Timeline(
        begins_at=begins_at,
        now=now,
        ends_at=ends_at,
        attempts=history.attempts,
        marks=tuple(mark for mark in marks if begins_at <= mark.at <= ends_at),
        losses=(*_past_losses(history), *(each.loss for each in ahead if each.loss)),
        limits=limits,
        expected=tuple(at for each in ahead for at in each.expected if at <= ends_at),
    )


def _mark(record: RecordedCheckpoint) -> CheckpointMark:
    checkpoint = record.checkpoint
    return CheckpointMark(
        at=record.completed_at or checkpoint.modified_at,
        fate=fate(record),
        path=str(checkpoint.path),
        epoch=checkpoint.epoch,
        step=checkpoint.step,
    )


def fate(record: RecordedCheckpoint) -> CheckpointMarkState:
    """Say what became of a checkpoint; that it is no longer there outweighs how it was."""
    if record.pruned_at:
        return CheckpointMarkState.PRUNED
    if record.deleted_at:
        return CheckpointMarkState.DELETED
    state = record.checkpoint.state
    return CheckpointMarkState.COMPLETE if state is CheckpointState.COMPLETE else CheckpointMarkState(state.value)


def _past_losses(history: RunRecord) -> list[LossSpan]:
    """Return the recorded losses, except those of attempts that the history no longer contains."""
    saves = lost_work.list_saves(history.checkpoints)
    oldest = min((record.first_seen_at for record in history.checkpoints), default=None)
    losses = []
    readers = find_readers(history)
    for place, attempt in enumerate(history.attempts):
        if attempt.ended_at is None or attempt.job in readers or find_possible_save(history, attempt.started_at):
            continue
        is_later = oldest is None or oldest > attempt.ended_at
        if is_later and any(_may_have_saves(other, history) for other in history.attempts[place : place + 2]):
            continue
        lost = lost_work.measure_loss(attempt, saves, is_located=history.key.is_located).lost
        if lost:
            ends_at = attempt.ended_at
            losses.append(
                LossSpan(begins_at=ends_at - lost, ends_at=ends_at, job_id=attempt.job.job_id, is_forecast=False)
            )
    return losses


def _may_have_saves(attempt: Attempt, history: RunRecord) -> bool:
    """Whether an attempt found something to resume from, or may have.

    Of one that was over when it was first seen nobody knows that, once older checkpoints are left out.
    """
    is_unseen = attempt.ended_at is not None and attempt.first_seen_at >= attempt.ended_at
    resume = attempt.resumed_from
    found = resume is not None and (resume.path is not None or bool(resume.candidates))
    return found or (history.is_truncated and is_unseen)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ExpectedEvents:
    limit: Limit
    expected: tuple[datetime, ...]
    loss: LossSpan | None


def _ahead(history: RunRecord, job: Job, now: datetime, margin: timedelta) -> _ExpectedEvents:
    """What a running job's time limit will find; without a known interval no loss is foretold."""
    assert job.ends_at is not None
    limit = Limit(job_id=job.job_id, at=job.ends_at)
    attempt = facts.attempt_of(history, job)
    interval = cadence.measure_rhythm(history).interval
    foretold = projection.at_limit(history, attempt, job.ends_at, now, margin=margin) if attempt else None
    if not interval or foretold is None:
        return _ExpectedEvents(limit=limit, expected=(), loss=None)
    begins_at = foretold.last_save_at
    return _ExpectedEvents(
        limit=limit,
        expected=tuple(
            foretold.next_at + number * interval for number in range(min(foretold.saves_that_fit, EXPECTED_COUNT))
        ),
        loss=LossSpan(begins_at=begins_at, ends_at=job.ends_at, job_id=job.job_id, is_forecast=True)
        if begins_at < job.ends_at
        else None,
    )
