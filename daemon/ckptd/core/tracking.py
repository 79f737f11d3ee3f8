"""What changed in the queue since it was last recorded: which executions of which jobs began and ended.

A job that waits for its first start is only counted. What the queue cannot tell (how a job ended that is no longer
shown, what happened between two looks) is left as a question; `settle` answers it from accounting, and where
nobody knows it says so. Nothing here decides that a job ended because a look failed: see `is_suspect`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from ckptd.core import suspension
from ckptd.core.model import (
    ENDED_STATES,
    Attempt,
    EndCause,
    Job,
    JobKey,
    JobState,
    QueueSnapshot,
    RestartKind,
    RunKey,
)

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
CAUSES = {
    JobState.COMPLETED: EndCause.COMPLETED,
    JobState.CANCELLED: EndCause.CANCEL,
    JobState.REVOKED: EndCause.CANCEL,
    JobState.TIMEOUT: EndCause.TIME_LIMIT,
    JobState.DEADLINE: EndCause.TIME_LIMIT,
    JobState.NODE_FAIL: EndCause.NODE_FAILURE,
    JobState.BOOT_FAIL: EndCause.NODE_FAILURE,
    JobState.PREEMPTED: EndCause.PREEMPTION,
    JobState.REQUEUED: EndCause.REQUEUE,
    JobState.REQUEUE_HOLD: EndCause.REQUEUE,
    JobState.SPECIAL_EXIT: EndCause.REQUEUE,
    JobState.FAILED: EndCause.FAILURE,
    JobState.OUT_OF_MEMORY: EndCause.FAILURE,
    JobState.LAUNCH_FAILED: EndCause.FAILURE,
    JobState.RECONFIG_FAIL: EndCause.FAILURE,
}
RETURN_TIME = timedelta(days=1)  # how long a job whose end nobody knew may come back as the same job
SUSPECT_COUNT = 4

# A pending job's times are predictions that move at every pass of the scheduler, a running job's time left moves
# with the clock: neither is a change.
_STEADY = attrgetter(
    *(
        name
        for name in Job.__dataclass_fields__
        if name not in {"started_at", "ends_at", "time_left", "cluster", "task_count"}
    )
)
_TIMES = attrgetter("started_at", "ends_at")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedJob:
    """A job that has started, as it is recorded. `attempt` is its latest, open while `ended_at` is None in it."""

    key: JobKey
    job: Job
    attempt: Attempt | None
    run: RunKey | None
    last_seen_at: datetime
    ended_at: datetime | None = None  # of the job: a requeue of an ended job opens it again

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


@dataclass(frozen=True, kw_only=True, slots=True)
class MissedRestarts:
    """Executions that began and ended unseen: restart counts `first` to `last`, between the two instants."""

    key: JobKey
    first: int
    last: int
    after: datetime | None  # the start of the execution before them, where it was seen
    before: datetime | None  # the start of the one after them


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanges:
    """What one look at the queue changed; what stayed as it was produces nothing.

    `new` and `changed` carry each job's latest attempt; every attempt that differs from the record is also in
    `begun` (not recorded before), `updated` or `ended` (with its cause), and may be in `begun` and `ended` at once.
    `vanished` jobs are still open: the queue does not say how they ended, so nothing is recorded of them.
    """

    cluster: str
    polled_at: datetime
    new: tuple[TrackedJob, ...] = ()
    changed: tuple[TrackedJob, ...] = ()
    begun: tuple[Attempt, ...] = ()
    updated: tuple[Attempt, ...] = ()
    ended: tuple[Attempt, ...] = ()
    jobs_ended: tuple[TrackedJob, ...] = ()
    vanished: tuple[TrackedJob, ...] = ()
    missed: tuple[MissedRestarts, ...] = ()
    replaced: tuple[TrackedJob, ...] = ()  # ended because another job now has their id
    forgotten: tuple[JobKey, ...] = ()  # ended, and no longer in the queue
    pending_count: int = 0  # jobs that wait for their first start

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to record."""
        return not (self.new or self.changed or self.replaced or self.forgotten or self.begun or self.ended)

    @property
    def asks_accounting(self) -> frozenset[int]:
        """The job ids whose ends only accounting can tell, or can tell better than the queue."""
        guessed = (attempt.job.job_id for attempt in self.ended if is_guessed(attempt))
        keys = [known.key for known in (*self.vanished, *self.replaced)] + [missed.key for missed in self.missed]
        return frozenset(guessed).union(key.job_id for key in keys)

    @property
    def asks_since(self) -> datetime:
        """The earliest instant that an answer for `asks_accounting` may concern."""
        starts = [attempt.started_at for attempt in self.ended]
        starts += [item.attempt.started_at for item in (*self.vanished, *self.replaced) if item.attempt]
        starts += [item.key.first_seen_at - timedelta(days=7) for item in self.vanished if item.attempt is None]
        starts += [item.after or self.polled_at - timedelta(days=7) for item in self.missed]
        return min(starts, default=self.polled_at)


GUESSED_CAUSES = frozenset({EndCause.REQUEUE, EndCause.UNKNOWN})


def is_guessed(attempt: Attempt) -> bool:
    """Whether accounting tells an attempt's end better than the queue: why, or for how long it was suspended."""
    return attempt.cause in GUESSED_CAUSES or bool(attempt.suspensions)


def unlocated_run(key: JobKey, uid: int) -> RunKey:
    """Return the run of a job whose checkpoint directory is not known; ids wrap, so its first sight belongs to it."""
    return RunKey(key.cluster, uid, f"job:{key.job_id}@{key.first_seen_at:%Y%m%dT%H%M%SZ}")


def is_suspect(tracked: Mapping[int, TrackedJob], snapshot: QueueSnapshot) -> bool:
    """Whether so much is gone at once that the look is to be doubted: a lost state, a hidden queue, a wrong cluster."""
    running = {job_id for job_id, known in tracked.items() if known.attempt and known.attempt.ended_at is None}
    if not running:
        return False
    if not snapshot.jobs:
        return True
    gone_count = len(running - {job.job_id for job in snapshot.jobs})
    return len(running) >= SUSPECT_COUNT and gone_count * 2 > len(running)


def compare(tracked: Mapping[int, TrackedJob], snapshot: QueueSnapshot) -> JobChanges:
    """Compare the jobs on record, by job id, with a look at the queue."""
    draft = _Draft(snapshot)
    present: set[int] = set()
    pending = JobState.PENDING
    for job in snapshot.jobs:
        known = tracked.get(job.job_id)
        if job.restart_count == 0 and job.state is pending and (known is None or _is_another(known, job)):
            draft.pending_count += job.task_count
        elif known is None:
            draft.meet(job)
        elif _is_another(known, job):
            present.add(job.job_id)
            draft.replace(known, job)
        else:
            present.add(job.job_id)
            if not _is_as_recorded(known, job):
                draft.follow(known, job)
    for job_id in tracked.keys() - present:
        draft.miss(tracked[job_id])
    return draft.finish()


def apply(tracked: Mapping[int, TrackedJob], changes: JobChanges) -> dict[int, TrackedJob]:
    """Return what is on record once the changes are."""
    absent = {known.key.job_id for known in changes.vanished}
    result = {
        job_id: replace(known, last_seen_at=changes.polled_at) if known.is_open and job_id not in absent else known
        for job_id, known in tracked.items()
    }
    for known in (*changes.changed, *changes.new):
        result[known.key.job_id] = known
    for key in changes.forgotten:
        if key.job_id in result and result[key.job_id].key == key:
            del result[key.job_id]
    return result


def assign_kind(earlier: tuple[Attempt, ...], attempt: Attempt) -> RestartKind | None:
    """Return how an attempt came to be, after its run's earlier attempts; None for the first of a run."""
    if attempt.restart_count > 0 or any(other.job == attempt.job for other in earlier):
        return RestartKind.REQUEUE
    if not earlier:
        return None
    if attempt.array_job_id is not None and earlier[-1].array_job_id == attempt.array_job_id:
        return RestartKind.ARRAY
    return RestartKind.RESUBMIT


def _is_another(known: TrackedJob, job: Job) -> bool:
    """Whether a job id on record now belongs to another job: ids wrap, and begin again when a state is lost.

    Only a requeue resets a job's submission, and it raises the restart count.
    """
    tasks = (job.array_task_id, known.job.array_task_id)
    if job.uid != known.job.uid or (None not in tasks and tasks[0] != tasks[1]):
        return True
    if known.attempt is None or job.restart_count > known.attempt.restart_count:
        return False
    if job.submitted_at is not None:
        return job.submitted_at > known.attempt.started_at
    is_later = job.started_at is not None and job.started_at - known.attempt.started_at > timedelta(hours=1)
    return is_later and (job.restart_count < known.attempt.restart_count or not known.is_open)


def _is_as_recorded(known: TrackedJob, job: Job) -> bool:
    old = known.job
    if old.state is not job.state or _STEADY(old) != _STEADY(job):
        return False
    if job.state in WAITING_STATES:
        return True
    if job.state is JobState.SUSPENDED:
        return old.time_left == job.time_left
    return bool(_TIMES(old) == _TIMES(job)) and (known.ended_at is None or job.state in ENDED_STATES)


class _Draft:
    """Gathers the changes of one comparison."""

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
        """Take up a job that is not on record, unless it never ran."""
        if job.restart_count == 0 and job.state in WAITING_STATES:
            self.pending_count += job.task_count
            return
        if job.restart_count == 0 and job.state in ENDED_STATES and not _has_run(job):
            return
        key = JobKey(self.snapshot.cluster, job.job_id, self.at)
        stranger = TrackedJob(key=key, job=job, attempt=None, run=unlocated_run(key, job.uid), last_seen_at=self.at)
        self.new.append(self._step(stranger, job))

    def replace(self, known: TrackedJob, job: Job) -> None:
        """End a job whose id another job now has, and take up the other."""
        if known.is_open:
            self._close(known)
        self.forgotten.append(known.key)
        self.meet(job)

    def _close(self, known: TrackedJob) -> None:
        attempt = known.attempt
        if attempt is not None and attempt.ended_at is None:
            attempt = end_unknown(attempt, last_sign(known))
            self.ended.append(attempt)
        job = replace(known.job, state=JobState.UNKNOWN)
        closed = replace(known, job=job, attempt=attempt, ended_at=known.last_seen_at)
        self.replaced.append(closed)
        self.jobs_ended.append(closed)

    def follow(self, known: TrackedJob, job: Job) -> None:
        self.changed.append(self._step(known, job))

    def miss(self, known: TrackedJob) -> None:
        """Note a job on record that the queue does not show."""
        if known.is_open:
            self.vanished.append(known)
        elif not _may_return(known, self.at):
            self.forgotten.append(known.key)

    def _step(self, known: TrackedJob, job: Job) -> TrackedJob:
        """Bring one job up to what the queue shows of it."""
        attempt = known.attempt
        shown = _shown_count(known, job)
        if attempt is not None and attempt.ended_at is None and shown != attempt.restart_count:
            attempt = self._requeue(known, attempt, job)
        if shown is None:
            if job.state is not JobState.COMPLETING:
                self._note_missed(known, job, job.restart_count, None)
        elif attempt is None or shown > attempt.restart_count:
            self._note_missed(known, job, shown, job.started_at)
            attempt = self._begin(known.key, job, shown)
        else:
            attempt = self._update(attempt, job)
        ended_at = None
        if job.state in ENDED_STATES:
            ended_at = _end_of(job, known.job.started_at, self.at)
        result = replace(known, job=job, attempt=attempt, last_seen_at=self.at, ended_at=ended_at)
        if ended_at is not None and known.ended_at is None:
            self.jobs_ended.append(result)
        return result

    def _requeue(self, known: TrackedJob, attempt: Attempt, job: Job) -> Attempt:
        ended_at = self.at
        if job.restart_count > attempt.restart_count + 1:
            ended_at = last_sign(known)
        elif job.submitted_at is not None and attempt.started_at <= job.submitted_at <= self.at:
            ended_at = job.submitted_at  # a requeue resets it
        cause = _requeue_cause(known.job, job)
        state = JobState.REQUEUED if job.restart_count > attempt.restart_count else attempt.state
        ended_at = max(ended_at, attempt.started_at)
        attempt = suspension.close(replace(attempt, state=state, cause=cause, ended_at=ended_at))
        self.ended.append(attempt)
        return attempt

    def _note_missed(self, known: TrackedJob, job: Job, until: int, before: datetime | None) -> None:
        first = known.attempt.restart_count + 1 if known.attempt else 0
        was_clear = known.job is not job and known.job.state is not JobState.COMPLETING
        is_news = not was_clear or job.restart_count != known.job.restart_count or before is not None
        if is_news and first < until:
            after = known.attempt.started_at if known.attempt else None
            self.missed.append(MissedRestarts(key=known.key, first=first, last=until - 1, after=after, before=before))

    def _begin(self, key: JobKey, job: Job, restart_count: int) -> Attempt:
        attempt = Attempt(
            job=key,
            restart_count=restart_count,
            array_job_id=job.array_job_id,
            array_task_id=job.array_task_id,
            kind=RestartKind.REQUEUE if restart_count else None,
            state=job.state,
            first_seen_at=self.at,
            started_at=job.started_at or self.at,
            time_limit=job.time_limit,
            partition=job.partition or None,
            node_count=job.node_count,
            cpu_count=job.cpu_count,
            gpu_count=job.gpu_count,
        )
        if job.state in ENDED_STATES:
            attempt = _end(attempt, job, self.at)
            self.ended.append(attempt)
        else:
            attempt = suspension.note(attempt, job, self.at)
        self.begun.append(attempt)
        return attempt

    def _update(self, attempt: Attempt, job: Job) -> Attempt:
        """Bring an attempt up to what the queue shows; one whose end was only guessed may be seen running again."""
        if attempt.ended_at is not None and job.state in ENDED_STATES and attempt.cause is not EndCause.UNKNOWN:
            return attempt
        if job.state in ENDED_STATES:
            result = _end(attempt, job, self.at)
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
        result = suspension.note(result, job, self.at)
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
    """Return the restart count of the execution that the queue shows, None where it shows none or cannot tell which.

    A requeue raises the count while the old execution is still completing.
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
    if job.state in ENDED_STATES and open_count != job.restart_count and not _has_run(job):
        return None
    return job.restart_count


def _has_run(job: Job) -> bool:
    """Whether an ended job ever ran: one that was cancelled while it waited has a start, but no node and no length."""
    if job.started_at is None:
        return False
    return bool(job.node_list) or (job.ends_at is not None and job.ends_at > job.started_at)


def _may_return(known: TrackedJob, at: datetime) -> bool:
    is_unknown = known.attempt is not None and known.attempt.cause is EndCause.UNKNOWN
    return is_unknown and known.ended_at is not None and at - known.ended_at < RETURN_TIME


def _requeue_cause(old: Job, new: Job) -> EndCause:
    states = {old.state, new.state}
    reasons = f"{old.reason} {new.reason}".lower()
    if JobState.PREEMPTED in states or "preempt" in reasons:
        return EndCause.PREEMPTION
    if JobState.NODE_FAIL in states or "nodefail" in reasons or "node_fail" in reasons or "nodedown" in reasons:
        return EndCause.NODE_FAILURE
    return EndCause.REQUEUE


def _end_of(job: Job, started_at: datetime | None, at: datetime) -> datetime:
    ended_at = job.ends_at if job.ends_at is not None and job.ends_at <= at else at
    return max(ended_at, started_at) if started_at is not None and started_at <= at else ended_at


def _end(attempt: Attempt, job: Job, at: datetime) -> Attempt:
    cause = CAUSES.get(job.state, EndCause.UNKNOWN)
    ended_at = max(_end_of(job, None, at), attempt.started_at)
    return suspension.close(replace(attempt, state=job.state, cause=cause, ended_at=ended_at))


def end_unknown(attempt: Attempt, at: datetime) -> Attempt:
    """Return the attempt as ended at an instant until which it was known to run, for a cause that nobody knows."""
    state = JobState.UNKNOWN
    ended = replace(attempt, state=state, cause=EndCause.UNKNOWN, ended_at=max(at, attempt.started_at))
    return suspension.close(ended)


def last_sign(known: TrackedJob) -> datetime:
    """Return until when a job was known to run: while it completes, the queue shows its real end."""
    ends_at = known.job.ends_at
    if known.job.state is JobState.COMPLETING and ends_at is not None:
        return min(ends_at, known.last_seen_at)
    return known.last_seen_at
