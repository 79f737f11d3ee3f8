"""Small histories for tables of tests: minutes after a fixed start, one run of one user."""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core.model import (
    Attempt,
    CheckpointState,
    EndCause,
    Job,
    JobKey,
    JobState,
    RecordedCheckpoint,
    RestartKind,
    RunHistory,
    RunKey,
    Scan,
)
from ckptd.present import flag_texts
from support.checkpoints import make_checkpoint
from support.run_builder import make_history

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RUN = RunKey("c1", 1000, "/scratch/alice/run")


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def job(job_id=1, **changes) -> Job:
    values = {
        "cluster": "c1",
        "job_id": job_id,
        "user": "alice",
        "uid": 1000,
        "state": JobState.RUNNING,
        "time_limit": timedelta(hours=24),
        "started_at": START,
        "ends_at": START + timedelta(hours=24),
    }
    return Job(**{**values, **changes})


def text_of(finding) -> str:
    """What people read of a finding; an error where its evidence lacks what the text needs."""
    return flag_texts.make_text(finding.rule, finding.evidence, user=finding.user).paragraph


def only(rule, given, minute):
    """Return the one finding of a rule at that minute, whose text can be made; None if there is none."""
    found = list(rule.evaluate(given, at(minute)))
    assert len(found) <= 1
    assert all(text_of(each) for each in found)
    return found[0] if found else None


def limited(minutes) -> Job:
    """A job that began at the start, with a limit of so many minutes."""
    return job(time_limit=timedelta(minutes=minutes), ends_at=at(minutes))


def attempt(start=0.0, end=None, *, job_id=1, restart_count=0, kind=None, cause=EndCause.REQUEUE) -> Attempt:
    if restart_count and kind is None:
        kind = RestartKind.REQUEUE
    return Attempt(
        job=JobKey("c1", job_id, START),
        restart_count=restart_count,
        kind=kind,
        state=JobState.RUNNING if end is None else JobState.REQUEUED,
        cause=None if end is None else cause,
        first_seen_at=at(start),
        started_at=at(start),
        ended_at=None if end is None else at(end),
    )


def saved(
    minute,
    *,
    name=None,
    state=CheckpointState.COMPLETE,
    epoch=None,
    step=None,
    gone=None,
    took=None,
    size=100,
    **changes,
):
    """A checkpoint whose last byte was written at that minute; `changes` are of the checkpoint itself."""
    checkpoint = make_checkpoint(
        f"{RUN.directory}/{name or f'step-{step if step is not None else minute}.pt'}",
        at(minute),
        inode=int(minute * 10),
        size_bytes=size,
        state=state,
        epoch=epoch,
        step=step,
        **changes,
    )
    return RecordedCheckpoint(
        checkpoint=checkpoint,
        first_seen_at=at(minute),
        completed_at=at(minute) if state is CheckpointState.COMPLETE else None,
        started_writing_at=None if took is None else at(minute - took),
        deleted_at=None if gone is None else at(gone),
    )


def scan_at(now=0.0, **changes) -> Scan:
    """Return a scan of the run's directory at that minute."""
    return Scan(**{"directory": PurePosixPath(RUN.directory), "scanned_at": at(now), "checkpoints": (), **changes})


REQUEUED = (attempt(0, 60), attempt(62, restart_count=1))  # a job that was requeued after an hour


def history(*, now=0.0, jobs=None, attempts=None, checkpoints=(), **changes) -> RunHistory:
    """A run as it is at that minute, polled and scanned just then unless told otherwise."""
    jobs = (job(),) if jobs is None else tuple(jobs)
    values = {
        "key": RUN,
        "jobs": jobs,
        "attempts": (attempt(),) if attempts is None else tuple(attempts),
        "checkpoints": tuple(checkpoints),
        "polled_at": at(now),
        "scan": scan_at(now),
        "recorded_since": START,
    }
    return make_history(**{**values, **changes})
