"""Compares the recorded jobs with a poll of the queue.

Jobs that are pending before their first start are only counted. A failed or implausible poll ends no job; see
`is_suspect`.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter

from ckptd.core.model import ENDED_STATES, Job, JobState, QueueSnapshot
from ckptd.core.queue.change_draft import WAITING_STATES, ChangeDraft
from ckptd.core.queue.job_records import JobChanges, TrackedJob

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


def is_suspect(tracked: Mapping[int, TrackedJob], snapshot: QueueSnapshot) -> bool:
    """Whether so many jobs are gone that the poll is implausible: a lost state, hidden jobs, or a wrong cluster."""
    running = {job_id for job_id, known in tracked.items() if known.attempt and known.attempt.ended_at is None}
    if not running:
        return False
    if not snapshot.jobs:
        return True
    gone_count = len(running - {job.job_id for job in snapshot.jobs})
    return len(running) >= SUSPECT_COUNT and gone_count * 2 > len(running)


def compare(tracked: Mapping[int, TrackedJob], snapshot: QueueSnapshot) -> JobChanges:
    """Compare the recorded jobs, by job id, with a poll."""
    draft = ChangeDraft(snapshot)
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
    """Return the recorded jobs after the changes are recorded."""
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


def _is_another(known: TrackedJob, job: Job) -> bool:
    """Whether a recorded job id now belongs to another job: ids wrap, and restart after a lost state.

    Only a requeue resets a job's submission time, and it increases the restart count.
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
