"""Questions that rules and forecasts ask of one run's history."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ckptd.core.model import (
    SUSPENDED_STATES,
    Attempt,
    Checkpoint,
    CheckpointState,
    Hold,
    Job,
    RecordedCheckpoint,
    RunHistory,
    RunRecord,
    Scan,
    Totals,
)
from ckptd.core.runs.attempt_index import index_attempts
from ckptd.core.runs.rotated_copies import leave_out_previous

EPOCH = datetime.fromtimestamp(0, UTC)


def running_jobs(history: RunRecord) -> tuple[Job, ...]:
    """The jobs of the run whose processes run now."""
    return tuple(job for job in history.jobs if job.is_running)


def is_suspended(history: RunRecord) -> bool:
    """Whether a job of the run is suspended and none runs."""
    return not running_jobs(history) and any(job.state in SUSPENDED_STATES for job in history.jobs)


def current_job(history: RunRecord) -> Job | None:
    """The job that a finding about the run as a whole concerns: the one that began last, else one that waits."""
    running = running_jobs(history)
    if not running:
        return min(history.jobs, key=lambda job: job.job_id, default=None)
    starts = {attempt.job.job_id: attempt.started_at for attempt in history.attempts}
    return max(running, key=lambda job: (starts.get(job.job_id, job.started_at or EPOCH), job.job_id))


def run_time(job: Job, attempt: Attempt, now: datetime) -> timedelta:
    """How long an attempt has run, without suspended time if the job's limit shows it."""
    since_start = now - attempt.started_at
    if job.time_limit is None or job.ends_at is None:
        return since_start
    return min(since_start, max(job.time_limit - (job.ends_at - now), timedelta(0)))


def hold_of(history: RunHistory, job: Job) -> Hold | None:
    """The latest hold of a job, which may be over."""
    own = index_attempts(history).list_of(job) if history.context.holds else ()
    return history.context.holds.get(own[-1].job) if own else None


def is_held_by_ckptd(history: RunHistory, job: Job) -> bool:
    """Whether a job waits because ckptd has held it; it has not run since."""
    hold = hold_of(history, job) if job.is_held else None
    return hold is not None and hold.is_own and hold.next_restart == job.restart_count


def is_broken_off(history: RunHistory, attempt: Attempt) -> bool:
    """Whether it was ckptd that ended an attempt."""
    hold = history.context.holds.get(attempt.job)
    return hold is not None and attempt.restart_count in hold.broken_off


def attempts_since_hold(history: RunHistory, job: Job) -> tuple[Attempt, ...]:
    """The attempts of a job that began after it was last held, oldest first."""
    hold = hold_of(history, job)
    first = hold.next_restart if hold else 0
    return tuple(each for each in index_attempts(history).list_of(job) if each.restart_count >= first)


def is_flagged(history: RunHistory, rule: str, job: Job) -> bool:
    """Whether a flag is open: a rule asks for less to hold on than to begin, so that nothing flaps."""
    return (rule, job.job_id) in history.context.flagged


def idle_since(history: RunRecord, attempt: Attempt, instant: datetime) -> datetime:
    """Return the start of a time without saves: that instant, or the end of a suspension, even of an unobserved one."""
    ends = [each.ended_at for each in attempt.suspensions if each.ended_at is not None]
    return max([instant, history.suspended_until.get(attempt.job.job_id, instant), *ends])


def attempt_of(history: RunRecord, job: Job) -> Attempt | None:
    """The attempt that this job is in now; None between a requeue and its next start."""
    return index_attempts(history).find_open(job)


def running_attempts(history: RunRecord) -> list[tuple[Job, Attempt]]:
    """Return the jobs whose processes run now, each with its attempt; those without one on record are left out."""
    attempts = {(each.job.cluster, each.job.job_id): each for each in history.attempts if each.ended_at is None}
    found = ((job, attempts.get((job.cluster, job.job_id))) for job in running_jobs(history))
    return [(job, attempt) for job, attempt in found if attempt is not None]


def is_restart(attempt: Attempt) -> bool:
    """Whether an attempt is not the first of its run; Slurm's restart count shows it if ckptd missed earlier ones."""
    return attempt.kind is not None or attempt.restart_count > 0


def recorded_at(record: RecordedCheckpoint, instant: datetime) -> bool:
    """Whether a checkpoint was on disk at that instant, as far as its times and the database show."""
    began = min(record.first_seen_at, record.checkpoint.modified_at)
    return began <= instant and (record.deleted_at is None or record.deleted_at > instant)


def complete_at(history: RunRecord, instant: datetime) -> tuple[RecordedCheckpoint, ...]:
    """The complete checkpoints that were on disk at that instant, oldest first."""
    return complete_among(history.checkpoints, instant)


def complete_among(recorded: Iterable[RecordedCheckpoint], instant: datetime) -> tuple[RecordedCheckpoint, ...]:
    """Those of some checkpoints that were complete and on disk at that instant, in their order."""
    return tuple(
        record
        for record in recorded
        if record.checkpoint.state is CheckpointState.COMPLETE
        and (record.completed_at or record.checkpoint.modified_at) <= instant
        and recorded_at(record, instant)
    )


def present(history: RunRecord) -> tuple[RecordedCheckpoint, ...]:
    """The checkpoints that are on disk now, oldest first."""
    return tuple(record for record in history.checkpoints if record.deleted_at is None)


def total(history: RunRecord) -> Totals:
    """What all checkpoints on disk add up to; of a history that is cut the record has counted them."""
    if history.totals is not None:
        return history.totals
    there = present(history)
    good = newest_complete(history)
    damaged = [each for each in there if each.checkpoint.state is CheckpointState.DAMAGED]
    since = [each for each in damaged if good is None or each.checkpoint.modified_at > good.checkpoint.modified_at]
    return Totals(len(there), sum(each.checkpoint.size_bytes for each in there), len(since))


def complete_now(history: RunRecord) -> tuple[RecordedCheckpoint, ...]:
    """The complete checkpoints that are on disk now, oldest first."""
    return tuple(record for record in present(history) if record.checkpoint.state is CheckpointState.COMPLETE)


def leftovers(history: RunRecord) -> tuple[RecordedCheckpoint, ...]:
    """What saves that did not end left on disk: temporary files, backups, marked directories."""
    if not isinstance(history.scan, Scan) or not history.scan.leftovers:
        return ()
    names, start = set(history.scan.leftovers), len(str(history.scan.directory)) + 1
    return tuple(record for record in present(history) if str(record.checkpoint.path)[start:] in names)


def finished_saves(history: RunRecord) -> tuple[RecordedCheckpoint, ...]:
    """The finished saves on disk, complete or damaged, oldest first by when they were written."""
    left = {id(record) for record in leftovers(history)}
    states = {CheckpointState.COMPLETE, CheckpointState.DAMAGED}
    found = [each for each in present(history) if each.checkpoint.state in states and id(each) not in left]
    return tuple(sorted(found, key=lambda record: record.checkpoint.modified_at))


def newest_complete(history: RunRecord) -> RecordedCheckpoint | None:
    """Return the complete checkpoint on disk that was written last, which a restart should load."""
    own = leave_out_previous(complete_now(history))
    return max(own, key=lambda record: record.checkpoint.modified_at, default=None)


def furthest_complete(history: RunRecord) -> RecordedCheckpoint | None:
    """Return the complete checkpoint on disk with the highest step, or epoch."""
    return max(
        complete_now(history),
        key=lambda record: (record.checkpoint.step or 0, record.checkpoint.epoch or 0, record.checkpoint.modified_at),
        default=None,
    )


def being_written(history: RunRecord) -> tuple[RecordedCheckpoint, ...]:
    """The saves that a running attempt has under way; what a writer that ended left unfinished is none."""
    since = index_attempts(history).first_open_at
    if since is None:
        return ()
    return tuple(
        record
        for record in history.checkpoints
        if record.checkpoint.state is CheckpointState.WRITING
        and record.deleted_at is None
        and record.checkpoint.modified_at >= since
    )


def reaches_back(history: RunRecord, instant: datetime) -> bool:
    """Whether the history shows the progress at that time: of long runs, it has only the newest and furthest saves."""
    return not history.is_truncated or min(record.first_seen_at for record in history.checkpoints) <= instant


def saves_since(history: RunRecord, instant: datetime) -> tuple[RecordedCheckpoint, ...]:
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


def was_read_whole(history: RunRecord) -> bool:
    """Whether the last scan of the run's directory was complete."""
    return isinstance(history.scan, Scan) and history.scan.is_whole
