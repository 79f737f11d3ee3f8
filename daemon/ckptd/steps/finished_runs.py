"""Selects the runs that timed out recently and may be resubmitted."""

from collections.abc import Mapping
from datetime import datetime

from ckptd.core.job_actions import sbatch_command
from ckptd.core.job_actions.action_policy import ActionKind
from ckptd.core.job_actions.resubmit_policy import LATEST, TimedOutRun
from ckptd.core.model import Job, RunKey, RunRecord
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import State


def list_finished(
    parts: Parts, state: State, histories: Mapping[RunKey, RunRecord], now: datetime
) -> dict[RunKey, TimedOutRun]:
    """Return the runs that timed out recently and whose users want them resubmitted.

    Return none before the first poll, and while a backfill may still find jobs that continued them.
    """
    queued, missed = state.latest(PolledQueue), state.latest(MissedJobs)
    candidates = {
        run: each
        for run, each in queued.timed_out.items()
        if queued.polled_at and run in histories and histories[run].user_settings.is_resubmitted
        if run.is_located and not missed.is_pending(run.uid)
    }
    outcomes = (
        parts.store.audit.read_outcomes(parts.cluster, ActionKind.RESUBMIT.value, candidates) if candidates else {}
    )
    result: dict[RunKey, TimedOutRun] = {}
    for run, (job, attempt) in candidates.items():
        name, mark = (attempt.job, attempt.restart_count), sbatch_command.mark_of(job.comment)
        lines = {line.attempt: line for line in parts.store.lost_work.list_lines(run)}
        done = outcomes.get(run, {})
        result[run] = TimedOutRun(
            job=job,
            attempt=attempt,
            is_final=name in lines and lines[name].is_final,
            has_successor=_has_successor(queued, histories[run], job),
            resubmit_count=max(len(done), mark.number if mark else 0),
            is_late=attempt.ended_at is None or now - attempt.ended_at >= LATEST,
            outcomes=done,
        )
    return result


def _has_successor(queued: PolledQueue, history: RunRecord, job: Job) -> bool:
    """Whether a pending job, or a running one with an unknown directory, may continue a run.

    Tasks of the same array count if they share its directory; jobs that ckptd submitted count if it was for this run.
    """
    ends = (sbatch_command.name_end(attempt) for attempt in history.attempts)
    if any(queued.goes_on.get((job.uid, end), job.job_id) != job.job_id for end in ends):
        return True
    beside = queued.unended.get((job.uid, job.work_dir))
    if beside is None:  # that the run timed out is newer than the last poll: the next one shows it
        return True
    others = (each for each in beside if each.job_id != job.job_id)
    arrays = {each.array_job_id for each in others if not _is_elsewhere(queued, history.key, each)}
    if not arrays or job.array_job_id is None or arrays != {job.array_job_id}:
        return bool(arrays)
    siblings = (known for known in queued.tracked.values() if known.job.array_job_id == job.array_job_id)
    return not any(known.run is not None and known.run.is_located and known.run != history.key for known in siblings)


def _is_elsewhere(queued: PolledQueue, run: RunKey, job: Job) -> bool:
    """Whether a job is known to save in another directory than a run's."""
    known = queued.tracked.get(job.job_id)
    return known is not None and known.run is not None and known.run.is_located and known.run != run
