"""Decides which timed-out runs to resubmit, and why others are not, although their users asked for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from ckptd.core.job_actions import sbatch_command
from ckptd.core.model import Attempt, Job, JobState, Resubmission, ResubmitRefusal, RunRecord
from ckptd.core.runs import attempt_progress

SUBMITTED = "submitted job"  # how the outcome of a resubmission begins that Slurm took
WITHOUT_LINE = "accounting has no submit line of the job before it"  # what follows then
LATEST = timedelta(hours=1)  # after its end; later nobody counts on it any more
_WAITS = "another job of yours, pending or just started, may continue it"
_NOT_READ = "its directory could not be read completely within an hour after its end"
_TOO_LATE = "ckptd did not process its end within an hour"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedOutRun:
    """A run whose latest attempt ended at its time limit, and the job that it was."""

    job: Job
    attempt: Attempt
    is_final: bool  # its directory was read whole after the end
    has_successor: bool  # another job waits that would go on with it
    resubmit_count: int  # how often ckptd has submitted for this run, or for the jobs that led to this one
    is_late: bool = False  # it ended so long ago that it is left alone
    outcomes: Mapping[str, str | None] = field(default_factory=dict)  # of its resubmissions; None: under way


class ResubmitDecision(NamedTuple):
    """The decision to resubmit a run, with the reason."""

    reasons: tuple[str, ...]


def judge(
    history: RunRecord, finished: TimedOutRun, *, is_permitted: bool, most: int
) -> ResubmitDecision | ResubmitRefusal | None:
    """Decide whether to resubmit a run; None if there is nothing to decide.

    This is the case if its user did not ask for it, if another job continues it already, or while its last checkpoints
    are unknown. `is_permitted` and `most` are the site's settings.
    """
    job, attempt, user_settings = finished.job, finished.attempt, history.user_settings
    if not user_settings.is_resubmitted or attempt.state is not JobState.TIMEOUT or _was_continued(history, attempt):
        return None
    if not is_permitted:
        return ResubmitRefusal(job, f"the site does not allow ckptd to resubmit jobs in partition {attempt.partition}")
    if not user_settings.max_resubmits:
        return ResubmitRefusal(job, "max_resubmits is missing in .ckptd.toml")
    if not job.is_batch or job.het_job_id:
        return ResubmitRefusal(job, "it is a heterogeneous job" if job.het_job_id else "it is not a batch job")
    allowed = min(user_settings.max_resubmits, most)
    if finished.resubmit_count >= allowed:
        whose = "max_resubmits" if allowed == user_settings.max_resubmits else "the site"
        return ResubmitRefusal(job, f"this run has reached the maximum that {whose} allows ({finished.resubmit_count})")
    if not finished.is_final:
        return ResubmitRefusal(job, _NOT_READ) if finished.is_late else None
    gained = _gain(history, attempt)
    if gained is None:
        return ResubmitRefusal(job, "the job saved no checkpoint with more progress than earlier attempts")
    if finished.has_successor:
        return ResubmitRefusal(job, _WAITS, is_waited_for=True)
    if finished.is_late:
        return ResubmitRefusal(job, _TOO_LATE)
    return ResubmitDecision(
        (
            "it reached its time limit, and its user asked for resubmission",
            gained,
            f"{finished.resubmit_count} of {allowed} allowed resubmissions were used",
        )
    )


def stand(
    history: RunRecord, finished: TimedOutRun, name: str, *, is_permitted: bool, most: int
) -> ResubmitRefusal | None:
    """Return why a run is not continued, or None. `name` is that of the action that would resubmit it."""
    if name in finished.outcomes:
        outcome = finished.outcomes[name]
        if outcome is None or outcome.startswith(SUBMITTED) or _was_continued(history, finished.attempt):
            return None
        return ResubmitRefusal(finished.job, outcome.removeprefix("failed: "))
    answer = judge(history, finished, is_permitted=is_permitted, most=most)
    return answer if isinstance(answer, ResubmitRefusal) else None


def list_resubmitted(history: RunRecord, outcomes: Mapping[str, str | None]) -> dict[int, Resubmission]:
    """Return the jobs of a run that ckptd submitted to continue it."""
    ends = {sbatch_command.name_end(each): each for each in history.attempts if each.ended_at is not None}
    without_line = {job_id for outcome in outcomes.values() if (job_id := _find_without_line(outcome)) is not None}
    found: dict[int, Resubmission] = {}
    for job in history.jobs:
        mark = sbatch_command.mark_of(job.comment)
        if mark is not None and mark.end in ends:
            ended_job_id = ends[mark.end].job.job_id
            found[job.job_id] = Resubmission(mark.number, ended_job_id, str(job.job_id) not in without_line)
    return found


def _find_without_line(outcome: str | None) -> str | None:
    """Return the id of a job that was submitted without the submit line of the one before; None of any other."""
    if outcome is None or not outcome.startswith(SUBMITTED):
        return None
    job_id, _, why = outcome.removeprefix(SUBMITTED).strip().partition("; ")
    return job_id if why else None


def _was_continued(history: RunRecord, attempt: Attempt) -> bool:
    """Whether a job of the run is in the queue, or one started after this attempt and has ended since."""
    latest = max(history.attempts, key=lambda each: each.started_at, default=attempt)
    return bool(history.jobs) or (latest.job, latest.restart_count) != (attempt.job, attempt.restart_count)


def _gain(history: RunRecord, attempt: Attempt) -> str | None:
    """Describe the progress that an attempt made for its run; None if it made none."""
    gained = attempt_progress.find_gain(history, attempt)
    if gained is None:
        return None
    for unit, values in (("step", gained.steps), ("epoch", gained.epochs)):
        if values is not None:
            return f"it reached {unit} {values[1]:.12g}"
    return f"it saved {gained.save_count} checkpoints"
