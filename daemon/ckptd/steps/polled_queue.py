"""The queue as of the last poll, with the recorded jobs that the next poll is compared with.

Owned by the step `poll`. Scans pass in where a job's checkpoints are, backfill what accounting reports. All three hold
the record lock, so that memory and database change in the same order.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core.job_actions.resubmit_policy import LATEST
from ckptd.core.model import Attempt, EndCause, Job, JobKey, Maintenance, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.observations import TimedOutAttempt

TIMED_OUT_MEMORY = LATEST * 2  # of a run that its time limit ended, so that `not-resubmitted` can report it


@dataclass(frozen=True, kw_only=True, slots=True)
class PolledQueue:
    """The result of polls. Immutable: each change makes a new one."""

    tracked: Mapping[int, TrackedJob] = field(default_factory=dict)  # the jobs on record, by their ids
    jobs_by_state: Mapping[str, int] = field(default_factory=dict)
    slurm_trouble: str | None = None  # why the last poll failed
    polled_at: datetime | None = None  # the last poll that did not fail
    # runs whose latest attempt its limit ended
    timed_out: Mapping[RunKey, TimedOutAttempt] = field(default_factory=dict)
    # by owner and working directory of the runs that timed out until the last poll: the jobs that wait or run there and
    # were not submitted by ckptd
    unended: Mapping[tuple[int, PurePosixPath | None], Collection[Job]] = field(default_factory=dict)
    marked: Mapping[tuple[int, str], int] = field(default_factory=dict)  # jobs that ckptd has submitted, by their mark
    goes_on: Mapping[tuple[int, str], int] = field(default_factory=dict)  # those of them that have not ended
    maintenance: tuple[Maintenance, ...] = ()

    def only_of(self, uid: int) -> "PolledQueue":
        """Remove the tracked jobs of all other users."""
        return replace(self, tracked={key: known for key, known in self.tracked.items() if known.job.uid == uid})

    def with_runs(self, runs: Mapping[JobKey, RunKey]) -> "PolledQueue":
        """Note the runs of these jobs; ignore jobs that are no longer tracked, unless they timed out recently."""
        changed = {
            key.job_id: replace(known, run=run)
            for key, run in runs.items()
            if (known := self.tracked.get(key.job_id)) and known.key == key
        }
        moved = {run: each for run, each in self.timed_out.items() if runs.get(each.attempt.job, run) != run}
        if not changed and not moved:
            return self
        timed_out = {run: each for run, each in self.timed_out.items() if run not in moved}
        for each in sorted(moved.values(), key=_ended_at):
            run = runs[each.attempt.job]
            if run not in timed_out or _ended_at(timed_out[run]) <= _ended_at(each):
                timed_out[run] = each
        return replace(self, tracked={**self.tracked, **changed}, timed_out=timed_out)

    def find_moved(self, before: "PolledQueue") -> frozenset[RunKey] | None:
        """Return the runs whose jobs became those of another run since, and these; None if anything else changed."""
        if self is before:
            return frozenset()
        others = (each.name for each in fields(self) if each.name not in {"tracked", "timed_out"})
        if any(getattr(self, name) is not getattr(before, name) for name in others):
            return None
        if self.tracked.keys() != before.tracked.keys() or self.timed_out != before.timed_out:
            return None
        pairs = [(before.tracked[job_id], known) for job_id, known in self.tracked.items()]
        changed = [(was, known) for was, known in pairs if was is not known]
        if any(replace(was, run=known.run) != known for was, known in changed):
            return None
        return frozenset(each.run for pair in changed for each in pair if each.run is not None)

    def with_attempts(self, attempts: Iterable[Attempt]) -> "PolledQueue":
        """Apply accounting's data about the latest attempts of tracked jobs."""
        changed: dict[int, TrackedJob] = {}
        for attempt in attempts:
            known = self.tracked.get(attempt.job.job_id)
            latest = known.attempt if known else None
            if known and latest and (latest.job, latest.restart_count) == (attempt.job, attempt.restart_count):
                changed[attempt.job.job_id] = replace(known, attempt=attempt)
        return replace(self, tracked={**self.tracked, **changed}) if changed else self

    def with_backfill(self, jobs: Iterable[TrackedJob], corrected: Iterable[tuple[Attempt, Attempt]]) -> "PolledQueue":
        """Apply what backfill recorded about tracked jobs, and the attempts that it corrected."""
        tracked = dict(self.tracked)
        for job in jobs:
            known = tracked.get(job.key.job_id)
            if known and known.key == job.key:
                tracked[job.key.job_id] = replace(known, job=job.job, attempt=job.attempt, ended_at=job.ended_at)
        for before, after in corrected:
            known = tracked.get(after.job.job_id)
            if known and known.attempt == before:
                tracked[after.job.job_id] = replace(known, attempt=after)
        return replace(self, tracked=tracked)

    def with_timed_out(self, ended: Iterable[Attempt], now: datetime) -> "PolledQueue":
        """Keep the runs that just timed out for a while, because their users may want them resubmitted."""
        tracked = {known.key: known for known in self.tracked.values()}
        found = dict(self.timed_out)
        for attempt in ended:
            known = tracked.get(attempt.job)
            if known and known.run and attempt.cause is EndCause.TIME_LIMIT and attempt.ended_at:
                found[known.run] = TimedOutAttempt(known.job, attempt)
        recent = {run: each for run, each in found.items() if _age(each, now) < TIMED_OUT_MEMORY}
        return replace(self, timed_out=recent)


def _ended_at(ended: TimedOutAttempt) -> datetime:
    return ended.attempt.ended_at or ended.attempt.started_at


def _age(ended: TimedOutAttempt, now: datetime) -> timedelta:
    return now - ended.attempt.ended_at if ended.attempt.ended_at else timedelta.max
