"""Decides which jobs and attempts to record from accounting after a gap between polls.

Accounting reports executions, not jobs, and a job id may stand for several jobs because Slurm reuses ids. Rows belong
to one job if each was submitted when the one before it ended. They belong to a recorded job if one of them has the
start of a recorded execution or continues one. Recorded facts stay, except for ends that were guessed, so reading a
row twice changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ckptd.core.model import Attempt, EndCause, EndedAttempt, JobKey, PastJob
from ckptd.core.queue import (
    CAUSES,
    JobChanges,
    TrackedJob,
    accounting_merge,
    begin,
    is_guessed,
    unlocated_run,
)
from ckptd.core.queue.accounting_merge import CHAIN_TOLERANCE, START_TOLERANCE
from ckptd.core.runs import suspension


class RecordedJob(NamedTuple):
    """A recorded job, ended or not, with all its executions, oldest first."""

    known: TrackedJob
    attempts: tuple[Attempt, ...]


class BackfillPlan(NamedTuple):
    """The changes to record from accounting's data."""

    changes: JobChanges
    corrected: tuple[tuple[Attempt, Attempt], ...]  # as recorded, with a guessed end, and as accounting reports it
    touched: tuple[TrackedJob, ...]  # jobs that are over and have executions that were not on record

    @property
    def is_empty(self) -> bool:
        """Whether everything is already recorded."""
        return not self.changes.begun and not self.corrected


def plan(
    cluster: str, past: Iterable[PastJob], recorded: Mapping[int, Sequence[RecordedJob]], until: datetime, now: datetime
) -> BackfillPlan:
    """Return what to record of executions that ended by `until`, given all recorded jobs with their ids."""
    by_id: dict[int, list[PastJob]] = defaultdict(list)
    for each in past:
        if each.ended_at <= until:
            by_id[each.job.job_id].append(each)
    draft = _BackfillDraft(cluster, now)
    for job_id, rows in by_id.items():
        rows.sort(key=lambda each: each.started_at)
        for chain in _chains(rows):
            owner = next((each for each in recorded.get(job_id, ()) if _belongs(chain, each)), None)
            if owner is None:
                draft.add(chain)
            else:
                draft.fill(owner, chain)
    return draft.finish()


class _BackfillDraft:
    """Collects the changes to record."""

    def __init__(self, cluster: str, now: datetime) -> None:
        self.cluster, self.now = cluster, now
        self.new: list[TrackedJob] = []
        self.changed: list[TrackedJob] = []
        self.filled: list[TrackedJob] = []
        self.begun: list[Attempt] = []
        self.corrected: list[tuple[Attempt, Attempt]] = []

    def add(self, chain: list[PastJob]) -> None:
        """Add a job that is not recorded. Its key has its first start, which every answer of sacct repeats."""
        first, last = chain[0], chain[-1]
        key = JobKey(self.cluster, first.job.job_id, first.started_at)
        numbered = _number(chain, ())
        attempts = [_attempt(key, count, each, self.now) for count, each in numbered]
        job = replace(last.job, restart_count=attempts[-1].restart_count)
        known = TrackedJob(
            key=key,
            job=job,
            attempt=attempts[-1],
            run=unlocated_run(key, job.uid),
            last_seen_at=last.ended_at,
            ended_at=last.ended_at,
        )
        self.new.append(known)
        self.begun += attempts

    def fill(self, owner: RecordedJob, chain: list[PastJob]) -> None:
        """Add missing executions to a recorded job, and correct unconfirmed ends."""
        rows = [_row(each) for each in chain]
        for guessed in owner.attempts:
            if guessed.ended_at is not None and is_guessed(guessed):
                refined = accounting_merge.refine([guessed], rows)
                self.corrected += [(guessed, attempt) for attempt in refined if attempt != guessed]
        missing = [each for each in chain if not any(_is_same(each, attempt) for attempt in owner.attempts)]
        attempts = [
            _attempt(owner.known.key, count, each, self.now) for count, each in _number(missing, owner.attempts)
        ]
        if not attempts:
            return
        self.begun += attempts
        if owner.known.is_open:
            return  # the queue shows where it stands
        known, last = owner.known, attempts[-1]
        if known.attempt is None or last.restart_count > known.attempt.restart_count:
            row = missing[-1]
            job = replace(known.job, state=row.job.state, ends_at=row.ended_at, restart_count=last.restart_count)
            known = replace(known, job=job, attempt=last, ended_at=row.ended_at)
            self.changed.append(known)
        self.filled.append(known)

    def finish(self) -> BackfillPlan:
        changes = JobChanges(
            cluster=self.cluster,
            polled_at=self.now,
            new=tuple(self.new),
            changed=tuple(self.changed),
            begun=tuple(self.begun),
            ended=tuple(self.begun),
            jobs_ended=tuple(self.new),
            forgotten=tuple(known.key for known in self.new),
        )
        return BackfillPlan(changes, tuple(self.corrected), (*self.new, *self.filled))


def _chains(rows: list[PastJob]) -> list[list[PastJob]]:
    """Group the rows of one job id, oldest first, by job."""
    chains: list[list[PastJob]] = []
    for row in rows:
        before = chains[-1][-1] if chains else None
        if (
            before
            and _is_alike(before, row)
            and _is_requeue_of(before.started_at, before.ended_at, row.job.submitted_at)
        ):
            chains[-1].append(row)
        else:
            chains.append([row])
    return chains


def _is_alike(one: PastJob, other: PastJob) -> bool:
    """Whether two executions of one job id may be of one job: a requeue keeps its owner and its work."""
    a, b = one.job, other.job
    return (a.uid, a.array_task_id, a.name, a.work_dir) == (b.uid, b.array_task_id, b.name, b.work_dir)


def _is_requeue_of(started_at: datetime, ended_at: datetime, submitted_at: datetime | None) -> bool:
    """Whether an execution was submitted by the requeue that ended the previous one."""
    return submitted_at is not None and started_at <= submitted_at <= ended_at + CHAIN_TOLERANCE


def _belongs(chain: list[PastJob], record: RecordedJob) -> bool:
    first, last, known = chain[0], chain[-1], record.known
    tasks = (first.job.array_task_id, known.job.array_task_id)
    if first.job.uid != known.job.uid or (None not in tasks and tasks[0] != tasks[1]):
        return False
    if any(_is_same(row, attempt) for row in chain for attempt in record.attempts):
        return True
    earlier = [attempt for attempt in record.attempts if attempt.started_at < first.started_at]
    if earlier:
        before = earlier[-1]
        return before.ended_at is not None and _is_requeue_of(
            before.started_at, before.ended_at, first.job.submitted_at
        )
    if record.attempts and record.attempts[0].restart_count == 0:
        return False
    if record.attempts and record.attempts[0] != known.attempt:
        return known.job.name == last.job.name and known.job.work_dir == last.job.work_dir
    # the queue showed it first when it had been requeued, and with that submission
    return known.job.restart_count > 0 and _is_requeue_of(last.started_at, last.ended_at, known.job.submitted_at)


def _is_same(row: PastJob, attempt: Attempt) -> bool:
    return abs(row.started_at - attempt.started_at) <= START_TOLERANCE


def _number(rows: Sequence[PastJob], recorded: Sequence[Attempt]) -> list[tuple[int, PastJob]]:
    """Assign each execution its restart count: Slurm's if known, otherwise by its place among the recorded ones.

    If there are fewer free counts than executions, the latest ones get them.
    """
    numbered: list[tuple[int, PastJob]] = []
    taken = {attempt.restart_count for attempt in recorded}
    for number, row in enumerate(rows):
        if row.restart_count is not None and row.restart_count not in taken:
            numbered.append((row.restart_count, row))
            taken.add(row.restart_count)
            continue
        before = [each.restart_count for each in recorded if each.started_at < row.started_at]
        lowest = max([*before, *(count for count, _ in numbered)], default=-1) + 1
        next_at = min((each.started_at for each in recorded if each.started_at > row.started_at), default=None)
        if next_at is None:
            numbered.append((lowest, row))
            continue
        highest = min(each.restart_count for each in recorded if each.started_at > row.started_at) - 1
        still = sum(1 for each in rows[number:] if each.started_at < next_at)
        count = highest - still + 1
        if count >= lowest:
            numbered.append((count, row))
    return numbered


def _attempt(key: JobKey, restart_count: int, past: PastJob, now: datetime) -> Attempt:
    attempt = begin(key, restart_count, past.job, past.started_at, now)
    cause = CAUSES.get(past.job.state, EndCause.UNKNOWN)
    return suspension.close(replace(attempt, cause=cause, ended_at=past.ended_at), past.suspended)


def _row(past: PastJob) -> EndedAttempt:
    job = past.job
    return EndedAttempt(
        job_id=job.job_id,
        submitted_at=job.submitted_at,
        started_at=past.started_at,
        ended_at=past.ended_at,
        state=job.state,
        node_list=job.node_list,
        node_count=job.node_count,
        cpu_count=job.cpu_count,
        gpu_count=job.gpu_count,
        suspended=past.suspended,
    )
