"""Detect that the site's own cleaning will soon delete the newest complete checkpoint of a run.

`core.forecast.purge_date` has the policies of sites and their sources.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ckptd.core.forecast.purge_date import PurgeDate, find_purge_date
from ckptd.core.health.interface import not_whole
from ckptd.core.model import Attempt, Checkpoint, Evidence, Finding, PurgeRule, RunHistory, Severity, Unknown
from ckptd.core.runs import history as facts
from ckptd.core.runs.resumable import are_only_data

OVER = timedelta(days=1)  # after the date; then a directory that can no longer be read counts as deleted


@dataclass(frozen=True, slots=True)
class WillBePurged:
    """Flag a run whose newest complete checkpoint the site will delete within `warn_before`.

    The rule skips runs that have only data files, found by a search and not declared as checkpoints: such a run has no
    state to lose, and users expect their site to delete old results.
    The site's policy is in [[purge]] and in scan.workspace_databases. If a policy's time is shorter than twice
    `warn_before`, half of that time is used instead. Runs that ended longer ago than `ended_within` are skipped.
    """

    name: ClassVar[str] = "will-be-purged"
    warn_before: timedelta = timedelta(days=7)
    ended_within: timedelta = timedelta(days=90)

    def evaluate(self, history: RunHistory, now: datetime) -> Iterable[Finding] | Unknown:
        site = history.context.purge
        if not site.rules and site.workspace is None:
            return ()
        job = self._choose_job(history, now)
        if job is None:
            return ()
        if not facts.was_read_whole(history):
            return () if self._is_over(history, job[0], now) else not_whole(self.name)
        newest = facts.newest_complete(history)
        if newest is None or are_only_data(history):
            return ()
        date = find_purge_date(newest.checkpoint, site, history.attempts)
        if date is None or date.goes_at - now > date.lead(self.warn_before):
            return site.workspace if isinstance(site.workspace, Unknown) else ()
        evidence = {**_describe(newest.checkpoint, date, history.user, now), "slurm_job": job[1]}
        return (
            Finding(
                rule=self.name,
                severity=Severity.WARNING,
                run=history.key,
                job_id=job[0],
                user=history.user,
                evidence=evidence,
            ),
        )

    def _choose_job(self, history: RunHistory, now: datetime) -> tuple[int, str] | None:
        """Return the id and name of the job that the flag is about; None where the run ended too long ago.

        It stays the same while the flag is open, because a new job of the run is no reason to notify again.
        """
        latest = max(history.attempts, key=lambda each: each.ended_at or now, default=None)
        if not history.jobs and (latest is None or now - (latest.ended_at or now) > self.ended_within):
            return None
        names = {each.job.job_id: _slurm_name(each) for each in history.attempts}
        names |= {each.job_id: each.slurm_name for each in history.jobs}
        flagged = [job_id for job_id in names if (self.name, job_id) in history.context.flagged]
        current = facts.current_job(history)
        chosen = flagged[0] if flagged else current.job_id if current else latest.job.job_id if latest else None
        return None if chosen is None else (chosen, names[chosen])

    def _is_over(self, history: RunHistory, job_id: int, now: datetime) -> bool:
        """Whether the date of an open flag has passed."""
        evidence = history.context.open_evidence.get((self.name, job_id), {})
        goes_at = evidence.get("goes_at")
        return isinstance(goes_at, str) and now - datetime.fromisoformat(goes_at) > OVER


def _slurm_name(attempt: Attempt) -> str:
    if attempt.array_job_id is not None and attempt.array_task_id is not None:
        return f"{attempt.array_job_id}_{attempt.array_task_id}"
    return str(attempt.job.job_id)


def _describe(newest: Checkpoint, date: PurgeDate, user: str, now: datetime) -> dict[str, Evidence]:
    evidence: dict[str, Evidence] = {
        "newest_good": str(newest.path),
        "newest_good_step": newest.step,
        "newest_good_epoch": newest.epoch,
        "goes_at": date.goes_at.isoformat(),
    }
    reason = date.reason
    if isinstance(reason, PurgeRule):
        return evidence | {
            "workspace": None,
            "purged_path": reason.path,
            "purged_by": reason.by.value,
            "purged_after_days": reason.age.days,
            "counted_from_at": None if date.counted_from is None else date.counted_from.isoformat(),
            "is_earliest": date.is_earliest,
        }
    prefix = f"{user}-"
    is_own = reason.entry.startswith(prefix)
    return evidence | {
        "workspace": reason.entry.removeprefix(prefix),
        "workspace_directory": reason.directory,
        "workspace_filesystem": reason.filesystem,
        "is_own_workspace": is_own,
        "is_expired": date.goes_at <= now,
        "extension_count": reason.extension_count,
    }
