"""Decides whether to skip a whole run, because its facts are old, incomplete, or about to change."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter

from ckptd.core.model import (
    SUSPENDED_STATES,
    CheckpointState,
    Job,
    JobState,
    Level,
    RecordedCheckpoint,
    RunRecord,
    Scan,
    Unknown,
)
from ckptd.core.retention import copied_runs
from ckptd.core.retention.policy import Guards, Policy, PolicyMode
from ckptd.core.retention.rules import Placed
from ckptd.core.text.quantities import format_duration

_CHANGING_STATES = frozenset(
    {
        JobState.COMPLETING,
        JobState.CONFIGURING,
        JobState.EXPEDITING,
        JobState.POWER_UP_NODE,
        JobState.REQUEUED,
        JobState.REQUEUE_FED,
        JobState.RESIZING,
        JobState.SIGNALING,
        JobState.STAGE_OUT,
        JobState.UNKNOWN,
    }
)
_UNSETTLED = frozenset({CheckpointState.UNKNOWN, CheckpointState.WRITING})


def check_run(history: RunRecord, policy: Policy | None, now: datetime) -> str | None:
    """Return why the run must be skipped, regardless of its checkpoints, or None."""
    if policy is None:
        return "no policy applies to it"
    if policy.mode is PolicyMode.OFF:
        return f"its policy {policy.name!r} is off"
    if not history.key.is_located:
        return "no checkpoint directory is known"
    if reason := copied_runs.find_reason_to_skip(history):
        return reason
    if not history.attempts:
        return "no job of it was ever seen"
    return _check_looks(history, policy.guards, now) or _check_jobs(history, policy.guards, now)


def _check_looks(history: RunRecord, guards: Guards, now: datetime) -> str | None:
    scan = history.scan
    if history.polled_at is None:
        return "the queue was never read"
    if scan is None:
        return "its directory was never read"
    if isinstance(scan, Unknown):
        return f"its directory could not be read: {scan.what}: {scan.reason}"
    if not scan.is_whole:
        return f"its directory was not read completely: {scan.problems[0].what}: {scan.problems[0].reason}"
    for observed_at, what in ((history.polled_at, "queue"), (scan.scanned_at, "directory")):
        if observed_at > now + guards.clock_tolerance:
            return f"the clock went back: the {what} was read in the future"
        if observed_at < now - guards.stale_after:
            return f"the {what} was last read too long ago"
    return None


def _check_jobs(history: RunRecord, guards: Guards, now: datetime) -> str | None:
    running = [job for job in history.jobs if job.is_running]
    if history.other_writers:
        return f"job {history.other_writers[0][0].slurm_name} of another run writes into its directory"
    open_jobs = {attempt.job for attempt in history.attempts if attempt.ended_at is None}
    if len({job.job_id for job in running}) > 1 or len(open_jobs) > 1:
        return "two jobs of this run are running at the same time"
    for job in history.jobs:
        if reason := _check_job(job, guards, now):
            return reason
    for attempt in history.attempts:
        if attempt.started_at > now + guards.clock_tolerance:
            return "the clock went back: an attempt started in the future"
        is_loading = attempt.ended_at is None and attempt.kind is not None
        if is_loading and now - attempt.started_at < guards.restart_grace:
            return "a restart has just started and may be loading any checkpoint"
    return None


def _check_job(job: Job, guards: Guards, now: datetime) -> str | None:
    if job.state in _CHANGING_STATES:
        return f"job {job.slurm_name} is {job.state.value}"
    if job.state in SUSPENDED_STATES:
        return f"job {job.slurm_name} is suspended"
    if not job.is_running:
        return None
    if job.time_left is not None and job.time_left <= guards.last_minutes:
        return f"job {job.slurm_name} is in its last minutes"
    if job.ends_at is not None and job.ends_at < now - max(guards.stale_after, timedelta(minutes=5)):
        return f"the clock disagrees with Slurm's: job {job.slurm_name} runs, and should have ended long ago"
    return None


def check_clock(before: datetime | None, elapsed: timedelta | None, now: datetime, tolerance: timedelta) -> str | None:
    """Return why the clock cannot be trusted since the previous cycle, or None.

    `elapsed` is the time since `before` by a monotonic clock. A daemon that has just started has neither, and returns
    None.
    """
    if before is None or elapsed is None:
        return None
    difference = (now - before) - elapsed
    if abs(difference) > tolerance:
        return f"the clock jumped by {difference.total_seconds():+.0f} s"
    return None


def compare_clocks(ours: datetime, theirs: datetime, tolerance: timedelta) -> str | None:
    """Return the difference between this host's clock and slurmctld's if it is too large, or None."""
    difference = ours - theirs
    if abs(difference) <= tolerance:
        return None
    by = format_duration(abs(difference))
    return (
        f"this host's clock is {by} {'ahead of' if difference > timedelta(0) else 'behind'} that of Slurm's controller"
    )


def check_record(scan: Scan, present: Sequence[Placed], guards: Guards, now: datetime) -> str | None:
    """Return why the database may not describe the disk, or None.

    This detects a database restored from an old backup, a directory that is not mounted, and a replaced directory.
    """
    seen = {str(found.path): found.identities for found in scan.checkpoints}
    if len(seen) != len(present):
        counts = f"{len(present)} are recorded, {len(seen)} are on disk"
        return f"the database and the disk list different checkpoints: {counts}"
    known = {path: record.checkpoint.identities for path, record in present}
    if seen != known:
        first = min(path for path in known if seen.get(path) != known[path])
        return f"the database and the disk list different files of {first}"
    limit = now + guards.clock_tolerance
    early = [path for path, record in present if record.first_seen_at > limit]
    return f"the clock went back: {min(early)} was first seen in the future" if early else None


def check_states(present: Sequence[Placed], guards: Guards, now: datetime) -> str | None:
    """Return the checkpoint whose state forbids removing others, or None."""
    unsettled = [placed for placed in present if placed[1].checkpoint.state in _UNSETTLED]
    for path, record in sorted(unsettled, key=itemgetter(0)):
        found = record.checkpoint
        if found.state is CheckpointState.UNKNOWN:
            return f"it is not known what {path} is: {found.reason}"
        if now - found.modified_at < guards.save_grace:
            return f"a save is not finished: {path}"
    return None


def check_newest(newest: RecordedCheckpoint, scanned_at: datetime, policy: Policy, now: datetime) -> str | None:
    """Return why the newest complete checkpoint's verification does not satisfy the policy, or None.

    `scanned_at` is the scan that found its structure as it is recorded.
    """
    found = newest.checkpoint
    if found.level is Level.LISTED:
        return f"the newest complete checkpoint {found.path} was only listed, not verified"
    if policy.verify is Level.FULL and not is_verified_enough(newest, policy.verify_age, now):
        within = format_duration(policy.verify_age)
        return f"the newest complete checkpoint {found.path} was not verified in full within {within}"
    if scanned_at < now - policy.verify_age:
        within = format_duration(policy.verify_age)
        return f"the newest complete checkpoint {found.path} was not verified within {within}"
    return None


def is_verified_full(record: RecordedCheckpoint, verify_age: timedelta, now: datetime) -> bool:
    """Whether every byte of the checkpoint was verified within `verify_age`, and no file has changed since.

    A changed identity discards the recorded result. Without change times, no result counts.
    """
    return _is_recent(record, record.verified_full_at, verify_age, now)


def is_verified_enough(record: RecordedCheckpoint, verify_age: timedelta, now: datetime) -> bool:
    """Whether this node, or a job of the owner, has verified every byte within `verify_age`.

    A site that lets jobs of the owners verify accepts their statements here. What this node verified is kept as well.
    """
    by_owner = record.owner_verified_at if record.owner_damage is None else None
    return is_verified_full(record, verify_age, now) or _is_recent(record, by_owner, verify_age, now)


def _is_recent(record: RecordedCheckpoint, verified_at: datetime | None, verify_age: timedelta, now: datetime) -> bool:
    found = record.checkpoint
    if found.state is not CheckpointState.COMPLETE or verified_at is None or not found.identities:
        return False
    if not all(identity.changed_ns for identity in found.identities):
        return False
    return max(found.modified_at, now - verify_age) <= verified_at
