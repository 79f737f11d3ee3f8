"""Short ways to say what a queue or a directory shows, for tests of the record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core import queue
from ckptd.core.model import EndedAttempt, Job, JobState, PastJob, QueueSnapshot, RunKey, Scan
from ckptd.core.runs import ownership, progress
from support import checkpoints

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CLUSTER = "alpha"
RUN = RunKey(CLUSTER, 1000, "/data/alice/run")
STATES = JobState


def at(minutes):
    return NOON + minutes * MINUTE


def make_job(job_id, state=JobState.RUNNING, restart_count=0, **changes):
    """A job submitted two minutes and started one minute before noon, with an hour's limit."""
    job = Job(
        cluster=CLUSTER,
        job_id=job_id,
        user="alice",
        uid=1000,
        state=state,
        restart_count=restart_count,
        submitted_at=at(-2),
        started_at=at(-1),
        ends_at=at(59),
        time_limit=60 * MINUTE,
        time_left=60 * MINUTE,
        node_list="n1",
        node_count=1,
        work_dir=PurePosixPath("/home/alice"),
    )
    return replace(job, **changes)


def make_row(job_id, started, ended, state, submitted=None):
    submitted_at = at(started if submitted is None else submitted)
    return EndedAttempt(job_id, submitted_at, at(started), at(ended), state, "n1", 1, 4, 0)


def make_past(job_id, started, ended, state=JobState.FAILED, *, submitted=None, restart_count=None, **changes):
    """An execution from and to so many minutes after noon, submitted when it started where nothing else is said."""
    job = make_job(
        job_id,
        state,
        submitted_at=at(started if submitted is None else submitted),
        started_at=at(started),
        ends_at=at(ended),
        time_left=None,
        **changes,
    )
    return PastJob(job=job, restart_count=restart_count)


def look(minutes, *jobs):
    return QueueSnapshot(cluster=CLUSTER, polled_at=at(minutes), jobs=jobs)


def follow(*looks, tracked=None):
    """Compare look after look; return the last changes and what is then tracked."""
    tracked = tracked or {}
    changes = None
    for each in looks:
        changes = queue.compare(tracked, each)
        tracked = queue.apply(tracked, changes)
    return changes, tracked


def make_checkpoint(name="step-1.pt", written=0, **changes):
    """A complete file of ten bytes in the run's directory, written so many minutes after noon."""
    path = PurePosixPath(RUN.directory, name)
    checkpoint = checkpoints.make_checkpoint(path, at(written), inode=hash(name) & 0xFFFF, size_bytes=10, step=1)
    return replace(checkpoint, **changes)


def make_scan(minutes, *checkpoints, **changes):
    scan = Scan(directory=PurePosixPath(RUN.directory), scanned_at=at(minutes), checkpoints=checkpoints)
    return replace(scan, **changes)


def merge(recorded, scan, attempts=(), looked=None):
    observed_at = None if looked is None else at(looked)
    writers = ownership.Writers(owner_uid=1000, attempts=tuple(attempts), observed_at=observed_at)
    return progress.merge_scan(tuple(recorded), scan, writers, scan.scanned_at)
