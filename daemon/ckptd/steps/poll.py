"""Polls the queue with one query, and records what changed."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core import queue
from ckptd.core.discovery.declared import is_declared_without
from ckptd.core.job_actions import sbatch_command
from ckptd.core.model import (
    ENDED_STATES,
    Attempt,
    EndedAttempt,
    Job,
    JobKey,
    QueueSnapshot,
    RunKey,
    Unknown,
)
from ckptd.core.queue import (
    JobChanges,
    MissedRestarts,
    TrackedJob,
    accounting_merge,
    federation,
    heterogeneous,
    maintenance,
    poll_gaps,
    poll_pace,
)
from ckptd.slurm.failure_reasons import asks_for_rest
from ckptd.steps import record_mentions
from ckptd.steps.end_recheck import UnconfirmedEnds
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.requeue_counts import RequeueStarts
from ckptd.steps.results import IDLE, LogLine, StepResult, info, warning
from ckptd.steps.run_facts import EndTallies, JobHolds
from ckptd.steps.snapshots import PollPace
from ckptd.steps.state import State

MAINTENANCE_GAP = timedelta(minutes=5)
MAX_WAIT = timedelta(minutes=1)  # that one poll waits for another
SUSPECT_POLLS = 3  # polls that must agree before ckptd records that most jobs have ended
Ended = tuple[EndedAttempt, ...] | Unknown


@dataclass(slots=True)
class PollSlice:
    """State of this step alone."""

    lock: threading.Lock = field(default_factory=threading.Lock)  # so that polls are recorded in their order
    suspect_count: int = 0  # polls in a row that showed most running jobs vanished, each some time after the other
    suspected_at: datetime | None = None  # the last of them
    maintenance_asked_at: datetime | None = None
    took: timedelta = timedelta(0)  # until Slurm answered the last poll
    refusal_count: int = 0  # polls in a row that timed out or exceeded Slurm's rate limit
    rest: "_Rest | None" = None  # during which Slurm is not polled
    warning: str | None = None  # of the last snapshot, about what it cost
    has_warned: bool = False
    compared: "_Comparison | None" = (
        None  # of the last snapshot: what is asked of accounting and recorded follows from it
    )


class _Rest(NamedTuple):
    since: datetime
    duration: timedelta


class _Comparison(NamedTuple):
    """The changes between tracked jobs and a snapshot."""

    tracked: Mapping[int, TrackedJob]
    snapshot: QueueSnapshot
    changes: JobChanges


def _compare(state: State, tracked: Mapping[int, TrackedJob], snapshot: QueueSnapshot) -> JobChanges:
    """Compare the queue with the same tracked jobs only once."""
    memory = state.own(PollSlice, PollSlice)
    known = memory.compared
    if known is None or known.tracked is not tracked or known.snapshot is not snapshot:
        known = memory.compared = _Comparison(tracked, snapshot, queue.compare(tracked, snapshot))
    return known.changes


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Poll Slurm once, unless its last answer was so slow that it must be left alone for longer."""
    memory = state.own(PollSlice, PollSlice)
    if memory.rest is not None and timedelta(0) <= now - memory.rest.since < memory.rest.duration:
        return IDLE
    was_resting = memory.rest is not None
    result = poll_now(parts, state, now)
    wait = poll_pace.plan_wait(memory.took, memory.refusal_count, parts.poll_interval)
    memory.rest = _Rest(now, wait) if wait > parts.poll_interval else None
    if not memory.refusal_count and state.latest(PollPace).interval != wait:
        state.publish(PollPace(wait))
    if was_resting == (memory.rest is not None):
        return result
    return replace(result, lines=(*result.lines, _describe_pace(memory, wait)))


def _describe_pace(memory: PollSlice, wait: timedelta) -> LogLine:
    seconds = wait.total_seconds()
    if memory.rest is None:
        return info(f"Slurm answers in time again: polling every {seconds:.0f} s")
    took = memory.took.total_seconds()
    return warning(f"Slurm took {took:.0f} s for a poll: the next one is in {seconds:.0f} s, to spare slurmctld")


def poll_now(parts: Parts, state: State, now: datetime) -> StepResult:
    """Poll Slurm once, and make a decision due."""
    before = state.latest(PolledQueue).slurm_trouble
    poll(parts, state, now)
    state.decision_due.set()
    trouble = state.latest(PolledQueue).slurm_trouble
    lines = [] if trouble == before else [warning(f"poll failed: {trouble}" if trouble else "poll succeeded again")]
    memory = state.own(PollSlice, PollSlice)
    if memory.warning and not memory.has_warned:
        memory.has_warned = True
        lines.append(warning(memory.warning))
    return StepResult(lines=tuple(lines))


def poll(parts: Parts, state: State, now: datetime) -> None:
    """Poll the queue and record what changed; only one poll runs at a time.

    Skip this poll if a newer one finished while it waited for the lock.
    """
    with state.own(PollSlice, PollSlice).lock:
        polled_at = state.latest(PolledQueue).polled_at
        if polled_at is not None and timedelta(0) < polled_at - now < MAX_WAIT:
            return
        snapshot, ended = observe_queue(parts, state, now)
        observe_maintenance(parts, state, now)
        record_queue(parts, state, snapshot, ended, now)


def poll_unrecorded(parts: Parts, state: State, now: datetime, uid: int | None = None) -> None:
    """Poll Slurm once for a command: keep the changes in `state` only, because only the daemon records polls.

    `uid` restricts the poll to one user's jobs; None: all jobs.
    """
    snapshot, ended = observe_queue(parts, state, now)
    with state.record_lock:
        known = state.latest(PolledQueue)
        if isinstance(snapshot, Unknown):
            state.publish(replace(known, slurm_trouble=snapshot.reason))
        elif _is_doubtful(parts, state, snapshot, ended):
            state.publish(replace(known, slurm_trouble="most running jobs disappeared at once"))
        else:
            tracked = queue.apply(known.tracked, queue.compare(known.tracked, snapshot))
            record_mentions.record_snapshot(parts, state, snapshot, is_recorded=False, uid=uid)
            state.publish(replace(known, tracked=tracked, slurm_trouble=None, polled_at=now))
            state.watchlist.keep_open(tracked.values(), now)


def observe_queue(parts: Parts, state: State, now: datetime) -> tuple[QueueSnapshot | Unknown, Ended]:
    """Read all jobs with one query, and from accounting the ends that the queue does not show."""
    memory, began_at = state.own(PollSlice, PollSlice), parts.runner.read_time()
    snapshot = _refuse_other_cluster(parts, parts.source.read_queue(now))
    memory.took = parts.runner.read_time() - began_at
    memory.refusal_count = memory.refusal_count + 1 if asks_for_rest(snapshot) else 0
    nothing: Ended = ()
    if isinstance(snapshot, Unknown):
        return snapshot, nothing
    memory.warning = snapshot.warning
    jobs = heterogeneous.join_parts(federation.without_guesses(snapshot.jobs))
    snapshot = replace(snapshot, jobs=jobs)
    changes = _compare(state, state.latest(PolledQueue).tracked, snapshot)
    unconfirmed = state.latest(UnconfirmedEnds).list_due(now)
    asked = changes.asks_accounting.union(attempt.job.job_id for attempt in unconfirmed)
    if not asked:
        return snapshot, nothing
    since = min([changes.asks_since, *(attempt.started_at for attempt in unconfirmed)])
    return snapshot, parts.source.read_ended(asked, since)


def _refuse_other_cluster(parts: Parts, snapshot: QueueSnapshot | Unknown) -> QueueSnapshot | Unknown:
    """Return Unknown for the queue of a cluster that is not this daemon's: all of its jobs would look ended."""
    other = None if isinstance(snapshot, Unknown) else _find_other_cluster(parts, snapshot)
    if other is None:
        return snapshot
    reason = f"Slurm here is the cluster {other!r}, and not {parts.cluster!r}: correct slurm.cluster or SLURM_CONF"
    return Unknown(what="queue", reason=reason)


def _find_other_cluster(parts: Parts, snapshot: QueueSnapshot) -> str | None:
    """Return which other cluster a queue is of; None if it is this daemon's.

    `slurm.cluster` may keep a name that Slurm no longer uses, unless the database has Slurm's name as another cluster.
    """
    if snapshot.cluster != parts.cluster:
        return snapshot.cluster
    if snapshot.slurm_name is None:
        return None
    recorded = {status.cluster for status in parts.store.clusters.read_status()}
    return snapshot.slurm_name if snapshot.slurm_name in recorded else None


def observe_maintenance(parts: Parts, state: State, now: datetime) -> None:
    """Read the maintenance reservations periodically; without an answer, the last one counts."""
    memory = state.own(PollSlice, PollSlice)
    asked_at = memory.maintenance_asked_at
    if parts.read_maintenance is None or (asked_at is not None and abs(now - asked_at) < MAINTENANCE_GAP):
        return
    found = parts.read_maintenance()
    memory.maintenance_asked_at = now
    if isinstance(found, Unknown):
        return
    state.change(
        PolledQueue, lambda known: replace(known, maintenance=maintenance.remember(known.maintenance, found, now))
    )


def record_queue(parts: Parts, state: State, snapshot: QueueSnapshot | Unknown, ended: Ended, now: datetime) -> None:
    """Record what changed in the queue; an implausible poll changes nothing."""
    with state.recording():
        if state.is_in_doubt:
            state.read_restart_state(parts, now)
            state.watchlist.hasten_all(now)  # what began is not known either
        if isinstance(snapshot, Unknown):
            _record_failure(parts, state, snapshot, now)
            return
        if _is_doubtful(parts, state, snapshot, ended):
            reason = "most running jobs disappeared at once; waiting for the next poll to confirm it"
            _record_failure(parts, state, Unknown(what="queue", reason=reason), now)
            return
        _confirm_ends(parts, state, ended, now)
        known = state.latest(PolledQueue)
        seen = _compare(state, known.tracked, snapshot)
        state.own(PollSlice, PollSlice).compared = None  # nobody compares these again
        changes = accounting_merge.merge_accounting(seen, ended, now)
        changes = maintenance.excuse(changes, known.tracked, known.maintenance)
        parts.store.histories.fresh.keep_same(parts.store.jobs.record(changes))
        record_mentions.record_snapshot(parts, state, snapshot)
        _record_success(parts, state, seen.missed if isinstance(ended, Unknown) else (), now)
        _publish_changes(state, snapshot, changes, now)
        state.events.count_jobs(changes)
        tracked = state.latest(PolledQueue).tracked.values()
        state.watchlist.keep_open(tracked, now, _missed_runs(changes.new, parts.min_job_duration))
        state.watchlist.hasten(_runs_of(tracked, (*changes.begun, *changes.ended)), now)


def _record_failure(parts: Parts, state: State, trouble: Unknown, now: datetime) -> None:
    """Record why a poll changes nothing."""
    state.change(PolledQueue, lambda known: replace(known, slurm_trouble=trouble.reason))
    state.events.count_failed_poll()
    parts.store.clusters.record_poll(parts.cluster, now, trouble)


def _publish_changes(state: State, snapshot: QueueSnapshot, changes: JobChanges, now: datetime) -> None:
    """Publish what was recorded of a poll."""
    known = state.latest(PolledQueue)
    before = _ended_before(known, (*changes.ended, *changes.updated))
    owner_of = _owners(known, changes.new)
    state.change(EndTallies, lambda tallies: tallies.with_ended(changes.ended, before, owner_of=owner_of))
    state.change(JobHolds, lambda holds: holds.with_released(changes.changed))
    state.change(UnconfirmedEnds, lambda ends: ends.with_ended(changes.ended, now))
    started = (*changes.new, *changes.changed)
    state.change(RequeueStarts, lambda starts: starts.with_started(changes.begun, started, now))
    polled = replace(
        known,
        tracked=queue.apply(known.tracked, changes),
        slurm_trouble=None,
        polled_at=now,
        jobs_by_state=_count_states(snapshot),
    )
    state.publish(sort_unended(polled.with_timed_out(changes.ended, now), snapshot))


def _record_success(parts: Parts, state: State, missed: Iterable[MissedRestarts], now: datetime) -> None:
    """Record a successful poll, together with the gap since the previous one if jobs may have been missed."""
    known, reach = state.latest(MissedJobs), parts.backfill_window
    gap = poll_gaps.widen(known.gap, known.polled_at, now, reach, missed) if reach else None
    parts.store.clusters.record_poll(parts.cluster, now, gap=gap, has_mentions=True)
    if gap and (known.gap is None or gap.until != known.gap.until):
        known = known.with_gap(gap)
    state.publish(replace(known, polled_at=now))


def _missed_runs(new: Iterable[TrackedJob], min_duration: timedelta) -> set[RunKey]:
    """Return the runs of long jobs that were first polled after their end, to scan what they left."""
    return {
        known.run
        for known in new
        if known.run and known.ended_at and known.attempt
        if known.ended_at - known.attempt.started_at >= min_duration
    }


def _ended_before(queued: PolledQueue, attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the earlier records of changed attempts that were already recorded as ended."""
    found = []
    for attempt in attempts:
        known = queued.tracked.get(attempt.job.job_id)
        before = known.attempt if known else None
        is_same = before and (before.job, before.restart_count) == (attempt.job, attempt.restart_count)
        if before and is_same and before.ended_at is not None:
            found.append(before)
    return found


def _owners(queued: PolledQueue, new: Iterable[TrackedJob] = ()) -> Callable[[JobKey], int | None]:
    """Return the owner of each job."""
    found = {known.key: known.job.uid for known in new}

    def find(key: JobKey) -> int | None:
        known = queued.tracked.get(key.job_id)
        return known.job.uid if known and known.key == key else found.get(key)

    return find


def sort_unended(queued: PolledQueue, snapshot: QueueSnapshot) -> PolledQueue:
    """Sort unended jobs: those that ckptd submitted by mark, others in the directories of runs that timed out."""
    marked: dict[tuple[int, str], int] = {}
    goes_on: dict[tuple[int, str], int] = {}
    unended: dict[tuple[int, PurePosixPath | None], list[Job]] = {
        (each.job.uid, each.job.work_dir): [] for each in queued.timed_out.values()
    }
    for job in snapshot.jobs:
        mark = sbatch_command.mark_of(job.comment)
        if mark is not None:
            marked[job.uid, mark.end] = job.job_id
        if job.state in ENDED_STATES:
            continue
        if mark is not None:
            goes_on[job.uid, mark.end] = job.job_id
        elif unended and (beside := unended.get((job.uid, job.work_dir))) is not None and not is_declared_without(job):
            beside.append(job)
    return replace(queued, marked=marked, goes_on=goes_on, unended=unended)


def _confirm_ends(parts: Parts, state: State, ended: Ended, now: datetime) -> None:
    """Correct the attempts whose cause was unconfirmed and is now in accounting."""
    known = state.latest(PolledQueue)
    due = state.latest(UnconfirmedEnds).list_due(now)
    confirmed = () if isinstance(ended, Unknown) else accounting_merge.refine(due, ended)
    corrected = [attempt for attempt in confirmed if attempt not in due]
    parts.store.jobs.correct_attempts(corrected)
    names = {(attempt.job, attempt.restart_count) for attempt in corrected}
    before = [each for each in due if (each.job, each.restart_count) in names]
    state.change(EndTallies, lambda tallies: tallies.with_ended(corrected, before, owner_of=_owners(known)))
    state.change(UnconfirmedEnds, lambda ends: ends.with_answers(due, confirmed, now))
    state.publish(known.with_timed_out(corrected, now).with_attempts(confirmed))


def _count_states(snapshot: QueueSnapshot) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for job in snapshot.jobs:
        counts[job.state.value] += job.task_count
    return counts


def _is_doubtful(parts: Parts, state: State, snapshot: QueueSnapshot, ended: Ended) -> bool:
    """Whether the poll is implausible: many jobs are gone, and accounting does not show that they ended.

    A poll right after another one, as before and after a removal, confirms nothing.
    """
    memory, tracked = state.own(PollSlice, PollSlice), state.latest(PolledQueue).tracked
    if not queue.is_suspect(tracked, snapshot):
        memory.suspect_count, memory.suspected_at = 0, None
        return False
    if not isinstance(ended, Unknown):
        shown = {job.job_id for job in snapshot.jobs} | {row.job_id for row in ended}
        if all(known.key.job_id in shown for known in tracked.values() if known.is_open):
            return False
    last_at = memory.suspected_at
    if last_at is None or abs(snapshot.polled_at - last_at) >= parts.poll_interval / 2:
        memory.suspect_count, memory.suspected_at = memory.suspect_count + 1, snapshot.polled_at
    return memory.suspect_count < SUSPECT_POLLS


def _runs_of(tracked: Iterable[TrackedJob], attempts: Iterable[Attempt]) -> set[RunKey]:
    jobs = {attempt.job for attempt in attempts}
    return {known.run for known in tracked if known.run is not None and known.key in jobs}
