"""Detect an attempt that has run long without a checkpoint: the first of its run, or one after very short ones."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.discovery.declared import declared_path, list_unmet
from ckptd.core.forecast import projection
from ckptd.core.health.interface import FindingBuilder, bounded, not_whole, seconds
from ckptd.core.model import Attempt, CheckpointState, Evidence, Finding, Job, RunHistory, Severity, Unknown
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs import history as facts
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.earlier_attempts import EarlierAttempts
from ckptd.core.runs.possible_saves import find_possible_save, make_evidence


@dataclass(frozen=True, slots=True)
class NoCheckpointYet:
    """Flag a job without a checkpoint after `after` or `share_of_limit` of its time limit, whichever is shorter.

    The rule covers only jobs that are expected to checkpoint, for one of these reasons:
    - the directory is known, or named by the job, its user, the site or the batch script;
    - `.ckptd.toml` sets a goal or a signal;
    - another job of the same name and working directory saved checkpoints, and the name is not a generic one such as
      `bash` or `wrap`.

    The flag is an info until a signal that the job or its user requests before the time limit is due, and if the
    attempt has written files of unknown formats, which may be checkpoints. A restart counts as a first attempt if all
    earlier attempts together ran for less than the threshold, because no flag opened then.
    """

    name: ClassVar[str] = "no-checkpoint-yet"
    after: timedelta = timedelta(hours=1)
    share_of_limit: float = bounded(0.25, least=0, most=1)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        running = facts.running_jobs(history)
        if not any(_is_expected_to_save(history, job) for job in running):
            return ()
        attempts, earlier = facts.running_attempts(history), EarlierAttempts(history)
        judged = [(job, attempt) for job, attempt in attempts if self._is_judged(history, job, attempt, earlier)]
        if not judged and len(attempts) == len(running):
            return ()  # no attempt to judge, so an open flag resolves even without a scan
        if not facts.was_read_whole(history):
            return not_whole(self.name)
        findings: list[Finding] = []
        for job, attempt in judged:
            if not _is_expected_to_save(history, job):
                continue
            run_time, bound = facts.run_time(job, attempt, now), self._bound(job)
            if run_time <= bound or _has_saved(history, attempt):
                continue
            if any(_has_saved(replace(history, checkpoints=copy.checkpoints), attempt) for copy in history.copies):
                continue
            if unread := copied_checkpoints.list_unread(history):
                return Unknown(what=self.name, reason=f"{unread[0]} was not read completely")
            unmet = [each.path for each in list_unmet(history, [job])]
            evidence: dict[str, Evidence] = {
                "run_time_seconds": seconds(run_time),
                "bound_seconds": seconds(bound),
                "time_left_seconds": seconds(job.ends_at - now) if job.ends_at and job.time_limit else None,
                "directory": history.key.directory if history.key.is_located else None,
                "unmet_names": unmet,
                "other_tasks": 0,  # of its array: see array_folding
                **make_evidence(possible := find_possible_save(history, attempt.started_at)),
            }
            due_at = _signalled_save_due_at(history, job)
            evidence["is_signalled_later"] = is_later = due_at is not None and now < due_at
            severity = Severity.INFO if is_later or possible else Severity.WARNING
            findings.append(FindingBuilder(self.name, history).make_finding(job, severity, evidence))
        return findings

    def _bound(self, job: Job) -> timedelta:
        return self.after if job.time_limit is None else min(self.after, job.time_limit * self.share_of_limit)

    def _is_judged(self, history: RunHistory, job: Job, attempt: Attempt, earlier: EarlierAttempts) -> bool:
        if not facts.is_restart(attempt):
            return True
        before = earlier.measure_before(attempt)
        return before is not None and before < self._bound(job) and not facts.complete_at(history, attempt.started_at)


def _signalled_save_due_at(history: RunHistory, job: Job) -> datetime | None:
    """Return when a save after a signal before the limit should be complete; None if no signal is known."""
    if job.ends_at is None or job.time_limit is None:
        return None
    lead = history.context.signalled.get(job.job_id)
    asked = history.context.signals.get(job.job_id)
    due_at = projection.save_due_at(job.ends_at, lead, asked, measure_rhythm(history))
    return job.ends_at if due_at is None and history.user_settings.saves_on_signal else due_at


def _is_expected_to_save(history: RunHistory, job: Job) -> bool:
    if history.key.is_located or history.context.is_named_by_script or history.has_saved_before:
        return True
    user_settings = history.user_settings
    is_goal_set = user_settings.goal_epoch is not None or user_settings.goal_step is not None
    is_told_when = user_settings.saves_on_signal or user_settings.is_resubmitted
    return is_goal_set or is_told_when or user_settings.directory is not None or declared_path(job) is not None


def _has_saved(history: RunHistory, attempt: Attempt) -> bool:
    """Return whether this attempt has saved anything; any checkpoint may belong to a run's first attempt."""
    if facts.saves_since(history, attempt.started_at):
        return True
    return any(
        not facts.is_restart(attempt)
        or record.checkpoint.state is CheckpointState.COMPLETE
        or record.checkpoint.modified_at >= attempt.started_at
        for record in facts.present(history)
    )
