"""Builds the document about one run from its history, for `ckptd show`, the page and the API."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from ckptd.core.discovery.declared import is_declared_without, list_unmet
from ckptd.core.forecast import projection
from ckptd.core.forecast.limit_margins import DEFAULT_MARGINS, LimitMargins
from ckptd.core.forecast.save_advice import Advice, advise
from ckptd.core.model import SUSPENDED_STATES, Attempt, Flag, RecordedCheckpoint, RunRecord, Scan, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.core.node_scans.step_result import is_witness
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.history import attempt_of
from ckptd.core.runs.lost_work import LedgerLine
from ckptd.core.runs.observations import EndTally
from ckptd.core.runs.possible_saves import find_possible_save_of_run
from ckptd.present import listings, location_rows, lost_work_parts, resume_texts
from ckptd.present.labels import locator_of

if TYPE_CHECKING:  # `ckptd show` starts without pydantic
    from ckptd.present.responses.run_documents import (
        AdviceDocument,
        AtLimitDocument,
        AttemptDocument,
        AttemptLossFields,
        AuditDocument,
        CheckpointDocument,
        FreeSpaceDocument,
        GoalDocument,
        LossTotalDocument,
        RunViewDocument,
        SummedCheckpointsDocument,
        UnrecognisedDocument,
    )

SAID = 3  # warnings about named directories


def _scan_problems(history: RunRecord) -> list[str]:
    """Return why the last scan was incomplete or failed, or why there is none although a job is in the queue."""
    if isinstance(history.scan, Unknown):
        return [history.scan.reason]
    if history.jobs and not history.key.is_located:
        return [_why_unlocated(history)]
    found = history.scan.problems if history.scan else ()
    return [f"{problem.what}: {problem.reason}" for problem in found if not is_witness(problem)]


def _document_possible_save(history: RunRecord) -> "UnrecognisedDocument | None":
    found = find_possible_save_of_run(history)
    if found is None:
        return None
    return {"path": found.path, "size_bytes": found.file.size_bytes, "modified_at": found.file.modified_at}


def _scan_witnesses(history: RunRecord) -> list[str]:
    """Return whose statement the last scan is, if only a job's node sees the directory."""
    found = history.scan.problems if isinstance(history.scan, Scan) else ()
    return [f"{problem.what}: {problem.reason}" for problem in found if is_witness(problem)]


def _why_unlocated(history: RunRecord) -> str:
    if all(is_declared_without(job) for job in history.jobs):
        return "the job's comment declares ckpt=none"
    if not history.user_settings.is_saving:
        return ".ckptd.toml sets checkpoints = false"
    return "no existing directory is named, and no search of the working directory has found checkpoints"


def _setting_warnings(history: RunRecord) -> list[str]:
    """Return a warning for each named checkpoint directory that does not exist, and for each ignored user setting.

    Only a few directories are named, because a run may have any number of jobs.
    """
    found = list_unmet(history)
    instead = (
        f"; ckptd uses the directory from {locator_of(history.located_by or '')}" if history.key.is_located else ""
    )
    said = [f"{each.path}, named by its {each.where}, does not exist or is not a directory" for each in found[:SAID]]
    rest = [f"{len(found) - SAID} more named directories do not exist"] if len(found) > SAID else []
    misread = [f".ckptd.toml: {each}" for each in history.user_settings.misread]
    return [each + instead for each in said] + rest + misread


def run_view(
    history: RunRecord,
    flags: Iterable[Flag],
    now: datetime,
    losses: Iterable[LedgerLine] = (),
    ends: Iterable[EndTally] = (),
    margins: LimitMargins = DEFAULT_MARGINS,
) -> "RunViewDocument":
    """Return everything about one run: its attempts with their lost work, checkpoints, flags, forecast and advice.

    `ends` counts how attempts on its cluster ended; without it the advice rests on assumptions. `margins` are those of
    the health rules that judge the run.
    """
    rhythm = measure_rhythm(history)
    losses = tuple(losses)
    lines = {line.attempt: line for line in losses}
    return {
        "run": history.key.directory,
        "cluster": history.key.cluster,
        "user": history.user,
        "located_by": history.located_by,
        "scanned_at": history.scan.scanned_at if isinstance(history.scan, Scan) else None,
        "scan_problems": _scan_problems(history),
        "scan_witnesses": _scan_witnesses(history),
        "unrecognised": _document_possible_save(history),
        "setting_warnings": _setting_warnings(history),
        "locations": location_rows.list_locations(history),
        "newest_complete": location_rows.newest_complete_row(history),
        "free_space": _free_space_row(history),
        "attempts": [
            _attempt_row(attempt, history.key.directory, lines.get((attempt.job, attempt.restart_count)))
            for attempt in history.attempts
        ],
        "earlier_attempt_count": len(lines.keys() - {(each.job, each.restart_count) for each in history.attempts}),
        "lost": _sum_losses(losses),
        "checkpoints": [_checkpoint_row(record) for record in history.checkpoints],
        "summed_checkpoints": _summed_row(history),
        "flags": [listings.flag_row(flag) for flag in flags],
        "forecast": {
            "interval_seconds": _seconds(rhythm.interval),
            "save_seconds": _seconds(rhythm.save_time),
            "next_checkpoint_at": _next_checkpoint(history, now),
            "interval_spread_seconds": _seconds(rhythm.interval_spread),
            "time_to_first_save_seconds": _seconds(rhythm.time_to_first),
            "size_bytes": rhythm.size_bytes,
            "growth_bytes": rhythm.growth_bytes,
            "seconds_per_epoch": _seconds(rhythm.time_per_epoch),
            "seconds_per_step": rhythm.time_per_step.total_seconds() if rhythm.time_per_step else None,
            "at_limit": _at_limit(history, now, margins),
            "full_at": projection.full_at(history.free_space_samples),
        },
        "advice": _advice_row(advise(history, ends)),
        "uid": history.key.uid,
    }


def _summed_row(history: RunRecord) -> "SummedCheckpointsDocument | None":
    summed = history.summed
    if summed is None:
        return None
    return {
        "count": summed.checkpoint_count,
        "size_bytes": summed.size_bytes,
        "first_seen_at": summed.first_seen_at,
        "last_seen_at": summed.last_seen_at,
    }


def _free_space_row(history: RunRecord) -> "FreeSpaceDocument":
    scan = history.scan if isinstance(history.scan, Scan) else None
    return {
        "free_bytes": scan.free_bytes if scan else None,
        "quota_left_bytes": scan.quota_left_bytes if scan else None,
        "quota_error": scan.quota_error if scan else None,
    }


def _at_limit(history: RunRecord, now: datetime, margins: LimitMargins) -> "dict[str, AtLimitDocument]":
    """Return, by job id, the work that will be lost at the time limit and how much of a goal fits before it."""
    expected: dict[str, AtLimitDocument] = {}
    for job in history.jobs:
        attempt = attempt_of(history, job)
        if attempt is None or job.ends_at is None or job.time_limit is None or job.state in SUSPENDED_STATES:
            continue  # Slurm shows the end as if a suspended job ran on
        limit = projection.at_limit(history, attempt, job.ends_at, now, margin=margins.loss)
        count = partial(projection.count_fitting, history, attempt, job.ends_at, margin=margins.goal)
        goes_on = not projection.is_silent(history, attempt, now)
        goal = projection.toward_goal(history, attempt, job.ends_at, now, margin=margins.goal)
        expected[str(job.job_id)] = {
            "ends_at": job.ends_at,
            "saves_that_fit": limit.saves_that_fit if limit else None,
            "epochs_that_fit": count("epoch") if goes_on else None,
            "steps_that_fit": count("step") if goes_on else None,
            "will_be_lost_seconds": _seconds(limit.lost) if limit else None,
            "goal": _goal_row(goal, job.ends_at, margins.goal) if goal else None,
        }
    return expected


def _goal_row(goal: projection.GoalForecast, ends_at: datetime, margin: timedelta) -> "GoalDocument":
    return {
        "unit": goal.unit,
        "goal": goal.goal,
        "reached": goal.reached,
        "is_declared": goal.is_declared,
        "fits": goal.fits,
        "is_fitting": goal.done_at is None or goal.done_at + margin <= ends_at,
        "done_at": goal.done_at,
        "more_jobs": goal.more_jobs,
    }


def _next_checkpoint(history: RunRecord, now: datetime) -> dict[str, datetime | None]:
    expected: dict[str, datetime | None] = {}
    for job in history.jobs:
        attempt = attempt_of(history, job)
        if attempt is not None and job.state not in SUSPENDED_STATES:
            is_silent = projection.is_silent(history, attempt, now)
            expected[str(job.job_id)] = None if is_silent else projection.next_checkpoint_at(history, attempt, now)
    return expected


def action_rows(actions: Iterable[AuditEntry]) -> "list[AuditDocument]":
    """Return the actions on a run's files, oldest first."""
    return [
        {
            "begun_at": act.begun_at,
            "actor": act.actor,
            "action": act.action,
            "target": act.target,
            "plan": act.plan_id,
            "reasons": list(act.reasons),
            "finished_at": act.finished_at,
            "outcome": act.outcome,
        }
        for act in sorted(actions, key=lambda act: act.audit_id or 0)
    ]


def _attempt_row(attempt: Attempt, directory: str, line: LedgerLine | None) -> "AttemptDocument":
    return {
        "cluster": attempt.job.cluster,
        "job_id": attempt.job.job_id,
        "restart_count": attempt.restart_count,
        "array_job_id": attempt.array_job_id,
        "array_task_id": attempt.array_task_id,
        "kind": attempt.kind,
        "state": attempt.state,
        "cause": attempt.cause,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "node_count": attempt.node_count,
        "cpu_count": attempt.cpu_count,
        "gpu_count": attempt.gpu_count,
        "resumed_from": resume_texts.resume_row(attempt.resumed_from, directory),
        **_loss_row(line),
    }


def _loss_row(line: LedgerLine | None) -> "AttemptLossFields":
    """Return the work that an attempt lost; nulls while it runs. Until it is final, a later save may still be found."""
    loss = line.loss if line else None
    return {
        "saved_at": loss.saved_at if loss else None,
        "lost_seconds": _seconds(loss.lost) if loss else None,
        "lost_node_seconds": round(loss.node_seconds) if loss else None,
        "lost_cpu_seconds": round(loss.cpu_seconds) if loss else None,
        "lost_gpu_seconds": round(loss.gpu_seconds) if loss else None,
        "is_loss_final": line.is_final if line else None,
        "lost": lost_work_parts.line_row(line) if line else None,
    }


def _sum_losses(lines: Sequence[LedgerLine]) -> "LossTotalDocument":
    """Return the work that all ended attempts lost: unsaved work, and separately the work that is computed again."""
    return {
        "seconds": round(sum(line.loss.lost.total_seconds() for line in lines)),
        "high_seconds": round(sum(line.loss.most.total_seconds() for line in lines)),
        "node_seconds": round(sum(line.loss.node_seconds for line in lines)),
        "cpu_seconds": round(sum(line.loss.cpu_seconds for line in lines)),
        "gpu_seconds": round(sum(line.loss.gpu_seconds for line in lines)),
        "redone": lost_work_parts.sum_redone(lines),
    }


def _advice_row(advice: Advice | None) -> "AdviceDocument | None":
    """Return the recommended interval with its inputs; None while no scan saw a save being written."""
    if advice is None:
        return None
    return {
        "interval_seconds": _whole_seconds(advice.interval),
        "save_seconds": _whole_seconds(advice.save_time),
        "mean_time_between_interruptions_seconds": _whole_seconds(advice.mean_time_between_interruptions),
        "is_assumed": advice.tally is None,
        "interruptions_counted": advice.tally.interruption_count if advice.tally else 0,
        "observed_seconds": _whole_seconds(advice.tally.observed) if advice.tally else 0,
        "node_count": advice.node_count,
    }


def _checkpoint_row(record: RecordedCheckpoint) -> "CheckpointDocument":
    checkpoint = record.checkpoint
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "state": checkpoint.state,
        "reason": checkpoint.reason,
        "level": checkpoint.level,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "is_best": checkpoint.is_best,
        "size_bytes": checkpoint.size_bytes,
        "modified_at": checkpoint.modified_at,
        "completed_at": record.completed_at,
        "deleted_at": record.deleted_at,
        "pruned_at": record.pruned_at,
        "is_pinned": record.is_pinned,
    }


def _seconds(duration: timedelta | None) -> int | None:
    return None if duration is None else _whole_seconds(duration)


def _whole_seconds(duration: timedelta) -> int:
    return round(duration.total_seconds())
