"""Questions that rules and forecasts ask of one run's history."""

from datetime import datetime

from ckptd.core.model import Attempt, Checkpoint, CheckpointState, Job, RecordedCheckpoint, RunHistory, Scan


def running_jobs(history: RunHistory) -> tuple[Job, ...]:
    """The jobs of the run whose processes run now."""
    return tuple(job for job in history.jobs if job.is_running)


def attempt_of(history: RunHistory, job: Job) -> Attempt | None:
    """The attempt that this job is in now; None between a requeue and its next start."""
    for attempt in reversed(history.attempts):
        if attempt.job.job_id == job.job_id and attempt.ended_at is None:
            return attempt
    return None


def is_restart(attempt: Attempt) -> bool:
    """Whether an attempt is not the first of its run; Slurm's restart count tells it where ckptd came late."""
    return attempt.kind is not None or attempt.restart_count > 0


def recorded_at(record: RecordedCheckpoint, instant: datetime) -> bool:
    """Whether a checkpoint was on disk at that instant, as far as its times and the record tell."""
    began = min(record.first_seen_at, record.checkpoint.modified_at)
    return began <= instant and (record.gone_at is None or record.gone_at > instant)


def complete_at(history: RunHistory, instant: datetime) -> tuple[RecordedCheckpoint, ...]:
    """The complete checkpoints that were on disk at that instant, oldest first."""
    return tuple(
        record
        for record in history.checkpoints
        if record.checkpoint.state is CheckpointState.COMPLETE
        and (record.completed_at or record.checkpoint.modified_at) <= instant
        and recorded_at(record, instant)
    )


def present(history: RunHistory) -> tuple[RecordedCheckpoint, ...]:
    """The checkpoints that are on disk now, oldest first."""
    return tuple(record for record in history.checkpoints if record.gone_at is None)


def complete_now(history: RunHistory) -> tuple[RecordedCheckpoint, ...]:
    """The complete checkpoints that are on disk now, oldest first."""
    return tuple(record for record in present(history) if record.checkpoint.state is CheckpointState.COMPLETE)


def saves_since(history: RunHistory, instant: datetime) -> tuple[RecordedCheckpoint, ...]:
    """Every checkpoint completed after that instant, oldest first, those since replaced or removed included."""
    return tuple(
        record for record in history.checkpoints if record.completed_at is not None and record.completed_at > instant
    )


def progress(checkpoint: Checkpoint) -> tuple[str, float] | None:
    """How far a checkpoint is: its step, else its epoch; None where neither is known."""
    if checkpoint.step is not None:
        return ("step", checkpoint.step)
    if checkpoint.epoch is not None:
        return ("epoch", checkpoint.epoch)
    return None


def was_read_whole(history: RunHistory) -> bool:
    """Whether the last look at the run's directory saw all of it."""
    return isinstance(history.scan, Scan) and history.scan.is_whole
