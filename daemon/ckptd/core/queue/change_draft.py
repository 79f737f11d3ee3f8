"""Collects the changes of one poll, job by job: which execution the queue shows, which started, ended or was missed.

A requeue increases a job's restart count while its old execution is still completing, and a poll can come between any
two of these steps.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from ckptd.core.model import ENDED_STATES, Attempt, EndCause, Job, JobKey, JobState, QueueSnapshot
from ckptd.core.queue import executions
from ckptd.core.queue.job_records import JobChanges, MissedRestarts, TrackedJob, unlocated_run
from ckptd.core.runs import suspension

WAITING_STATES = frozenset(
    {
        JobState.PENDING,
        JobState.CONFIGURING,
        JobState.POWER_UP_NODE,
        JobState.REQUEUED,
        JobState.REQUEUE_FED,
        JobState.REQUEUE_HOLD,
        JobState.RESV_DEL_HOLD,
        JobState.SPECIAL_EXIT,
    }
)
RETURN_TIME = timedelta(days=1)  # how long a job whose end nobody knew may come back as the same job


class ChangeDraft:
    """Collects the changes of one comparison."""

    def __init__(self, snapshot: QueueSnapshot) -> None:
        self.snapshot = snapshot
        self.at = snapshot.polled_at
        self.pending_count = 0
        self.new: list[TrackedJob] = []
        self.changed: list[TrackedJob] = []
        self.begun: list[Attempt] = []
        self.updated: list[Attempt] = []
        self.ended: list[Attempt] = []
        self.jobs_ended: list[TrackedJob] = []
        self.vanished: list[TrackedJob] = []
        self.missed: list[MissedRestarts] = []
        self.replaced: list[TrackedJob] = []
        self.forgotten: list[JobKey] = []

    def meet(self, job: Job) -> None:
        """Add a job that is not recorded, unless it never ran."""
        if job.restart_count == 0 and job.state in WAITING_STATES:
            self.pending_count += job.task_count
            return
        if job.restart_count == 0 and job.state in ENDED_STATES and not executions.has_run(job):
            return
        key = JobKey(self.snapshot.cluster, job.job_id, self.at)
        stranger = TrackedJob(key=key, job=job, attempt=None, run=unlocated_run(key, job.uid), last_seen_at=self.at)
        self.new.append(self._step(stranger, job))

    def replace(self, known: TrackedJob, job: Job) -> None:
        """End a job whose id another job now has, and add the other one."""
        if known.is_open:
            self._close(known)
        self.forgotten.append(known.key)
        self.meet(job)

    def _close(self, known: TrackedJob) -> None:
        attempt = known.attempt
        if attempt is not None and attempt.ended_at is None:
            attempt = executions.end_unknown(attempt, known.last_sign_at)
            self.ended.append(attempt)
        job = replace(known.job, state=JobState.UNKNOWN)
        closed = replace(known, job=job, attempt=attempt, ended_at=known.last_seen_at)
        self.replaced.append(closed)
        self.jobs_ended.append(closed)

    def follow(self, known: TrackedJob, job: Job) -> None:
        self.changed.append(self._step(known, job))

    def miss(self, known: TrackedJob) -> None:
        """Note a recorded job that is not in the queue."""
        if known.is_open:
            self.vanished.append(known)
        elif not _may_return(known, self.at):
            self.forgotten.append(known.key)

    def _step(self, known: TrackedJob, job: Job) -> TrackedJob:
        """Update one job from the queue."""
        attempt = known.attempt
        shown = _shown_count(known, job)
        if attempt is not None and attempt.ended_at is None and shown != attempt.restart_count:
            attempt = self._requeue(known, attempt, job)
        if shown is None:
            if job.state is not JobState.COMPLETING:
                self._add_missed(known, job, job.restart_count, None)
        elif attempt is None or shown > attempt.restart_count:
            self._add_missed(known, job, shown, job.started_at)
            attempt = self._begin(known.key, job, shown)
        else:
            attempt = self._update(attempt, job)
        ended_at = None
        if job.state in ENDED_STATES:
            ended_at = executions.end_of(job, known.job.started_at, self.at)
        released = known.job.restart_count if known.job.is_held and not job.is_held else known.released_restart
        result = replace(
            known, job=job, attempt=attempt, last_seen_at=self.at, ended_at=ended_at, released_restart=released
        )
        if ended_at is not None and known.ended_at is None:
            self.jobs_ended.append(result)
        return result

    def _requeue(self, known: TrackedJob, attempt: Attempt, job: Job) -> Attempt:
        ended_at = self.at
        if job.restart_count > attempt.restart_count + 1:
            ended_at = known.last_sign_at
        elif job.submitted_at is not None and attempt.started_at <= job.submitted_at:
            # a requeue resets it
            ended_at = job.submitted_at if executions.is_plausible(job.submitted_at, self.at) else self.at
        cause = executions.requeue_cause(known.job, job)
        state = JobState.REQUEUED if job.restart_count > attempt.restart_count else attempt.state
        ended_at = max(ended_at, attempt.started_at)
        attempt = suspension.close(replace(attempt, state=state, cause=cause, ended_at=ended_at))
        self.ended.append(attempt)
        return attempt

    def _add_missed(self, known: TrackedJob, job: Job, until: int, before: datetime | None) -> None:
        first = known.attempt.restart_count + 1 if known.attempt else 0
        was_clear = known.job is not job and known.job.state is not JobState.COMPLETING
        is_news = not was_clear or job.restart_count != known.job.restart_count or before is not None
        if is_news and first < until:
            after = known.attempt.started_at if known.attempt else None
            self.missed.append(MissedRestarts(key=known.key, first=first, last=until - 1, after=after, before=before))

    def _begin(self, key: JobKey, job: Job, restart_count: int) -> Attempt:
        attempt = executions.begin(key, restart_count, job, job.started_at or self.at, self.at)
        if job.state in ENDED_STATES:
            attempt = executions.end(attempt, job, self.at)
            self.ended.append(attempt)
        else:
            attempt = suspension.update(attempt, job, self.at)
        self.begun.append(attempt)
        return attempt

    def _update(self, attempt: Attempt, job: Job) -> Attempt:
        """Update an attempt from the queue; one whose end was unconfirmed may be running again."""
        if attempt.ended_at is not None and job.state in ENDED_STATES and attempt.cause is not EndCause.UNKNOWN:
            return attempt
        if job.state in ENDED_STATES:
            result = executions.end(attempt, job, self.at)
            self.ended.append(result)
            return result
        if job.state is JobState.COMPLETING and attempt.ended_at is not None:
            return attempt
        state = attempt.state if job.state is JobState.UNKNOWN else job.state
        result = replace(attempt, state=state, cause=None, ended_at=None, time_limit=job.time_limit)
        if attempt.ended_at is not None:
            result = replace(result, started_at=job.started_at or attempt.started_at)
        if job.state is not JobState.COMPLETING:  # its nodes leave one by one
            result = replace(result, node_count=job.node_count, cpu_count=job.cpu_count, gpu_count=job.gpu_count)
        result = suspension.update(result, job, self.at)
        if result != attempt:
            self.updated.append(result)
        return result

    def finish(self) -> JobChanges:
        return JobChanges(
            cluster=self.snapshot.cluster,
            polled_at=self.at,
            new=tuple(self.new),
            changed=tuple(self.changed),
            begun=tuple(self.begun),
            updated=tuple(self.updated),
            ended=tuple(self.ended),
            jobs_ended=tuple(self.jobs_ended),
            vanished=tuple(self.vanished),
            missed=tuple(self.missed),
            replaced=tuple(self.replaced),
            forgotten=tuple(self.forgotten),
            pending_count=self.pending_count,
        )


def _shown_count(known: TrackedJob, job: Job) -> int | None:
    """Return the restart count of the execution in the queue; None if there is none or it is ambiguous.

    A requeue increases the count while the old execution is still completing.
    """
    attempt = known.attempt
    open_count = attempt.restart_count if attempt is not None and attempt.ended_at is None else None
    if job.state in WAITING_STATES:
        return None
    if job.state is JobState.UNKNOWN:
        return open_count
    if attempt is not None and open_count is not None:
        is_same_start = job.started_at is None or job.started_at <= attempt.started_at
        if job.state is JobState.COMPLETING and job.submitted_at is not None:
            # of a requeue Slurm shows the instant as the start first, and as the submission once it waits
            is_same_start = is_same_start or job.submitted_at <= attempt.started_at
        if is_same_start and (job.state is JobState.COMPLETING or job.state in ENDED_STATES):
            return open_count
        if job.restart_count < open_count:
            return open_count
        if job.state is JobState.COMPLETING and job.restart_count > open_count + 1:
            return None
    if job.state is JobState.COMPLETING and open_count is None and job.restart_count > 0:
        was_waiting = known.job is not job and known.job.state in WAITING_STATES
        return job.restart_count if was_waiting and known.job.restart_count == job.restart_count else None
    if job.state in ENDED_STATES and open_count != job.restart_count and not executions.has_run(job):
        return None
    return job.restart_count


def _may_return(known: TrackedJob, at: datetime) -> bool:
    is_unknown = known.attempt is not None and known.attempt.cause is EndCause.UNKNOWN
    return is_unknown and known.ended_at is not None and at - known.ended_at < RETURN_TIME
