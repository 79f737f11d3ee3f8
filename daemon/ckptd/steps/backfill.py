"""Backfills a gap between polls from accounting, one part of the gap at each poll.

The jobs of a part are recorded before the part counts as done, so that it is queried again after a crash; jobs that are
already recorded do not change. Then their directories are searched for, a few at a time, like those of queued jobs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from ckptd.core.discovery.declared import is_declared_without
from ckptd.core.model import JobState, PastJob, Unknown
from ckptd.core.queue import TrackedJob, backfill_plan, poll_gaps
from ckptd.core.queue.backfill_plan import BackfillPlan
from ckptd.present.formatting import format_count, format_instant
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.steps.end_recheck import UnconfirmedEnds
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import TIMED_OUT_MEMORY, PolledQueue
from ckptd.steps.results import StepResult, info, warning
from ckptd.steps.run_facts import EndTallies
from ckptd.steps.state import State

MAX_RECORDED = 500  # executions in one transaction, so that nobody waits long for it


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Backfill one part of the gap."""
    before = state.latest(MissedJobs)
    count = backfill_missed_jobs(parts, state, now)
    lines = [info(f"backfilled {format_count(count, 'missed execution')} from accounting")] if count else []
    trouble = state.latest(MissedJobs).trouble
    if trouble not in {None, before.trouble} and before.gap:
        lines.append(warning(f"backfill failed for the gap since {format_instant(before.gap.since)}: {trouble}"))
    return StepResult(count > 0, tuple(lines))


def backfill_missed_jobs(parts: Parts, state: State, now: datetime) -> int:
    """Query accounting for one part of the gap; return how many executions were not yet recorded."""
    count = 0
    if parts.backfill_window is None or state.is_in_doubt:
        return count
    missed = state.latest(MissedJobs)
    gap = poll_gaps.bound(missed.gap, now, parts.backfill_window)
    if gap is None and missed.gap is not None:
        _record_rest(parts, state, missed.gap.until, now)
    elif gap is not None and state.latest(PolledQueue).slurm_trouble is None and missed.is_due(now):
        piece = poll_gaps.first_piece(gap, missed.piece)
        past = parts.source.read_past(*piece)
        if isinstance(past, Unknown):
            is_hopeless, reason = past.reason.startswith(FailureReason.MISSING), past.reason
            state.change(MissedJobs, lambda known: known.with_failure(reason, now, is_hopeless=is_hopeless))
        else:
            for chunk in _chunks(past.jobs):
                count += _record(parts, state, chunk, gap.until, now)
            _record_rest(parts, state, past.until, now)
    _visit(parts, state, now)
    return count


def _record_rest(parts: Parts, state: State, until: datetime, now: datetime) -> None:
    with state.recording():
        known = state.latest(MissedJobs)
        left = known.find_rest(until)  # the gap may have grown meanwhile
        parts.store.backfill.record_gap(parts.cluster, left)
        state.publish(known.with_rest(left, now))


def _chunks(past: Iterable[PastJob]) -> Iterator[list[PastJob]]:
    """Yield the executions in chunks; all executions of a job are in the same chunk."""
    by_id: dict[int, list[PastJob]] = defaultdict(list)
    for each in past:
        by_id[each.job.job_id].append(each)
    chunk: list[PastJob] = []
    for rows in by_id.values():
        chunk += rows
        if len(chunk) >= MAX_RECORDED:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _record(parts: Parts, state: State, past: Collection[PastJob], until: datetime, now: datetime) -> int:
    with state.recording():
        recorded = parts.store.backfill.read_recorded_jobs(parts.cluster, {each.job.job_id for each in past})
        plan = backfill_plan.plan(parts.cluster, past, recorded, until, now)
        if plan.is_empty:
            return 0
        awaiting = {known.key: known for known in plan.touched if _is_of_interest(parts, known)}
        parts.store.backfill.record(plan, awaiting)
        _publish_backfilled(state, plan, now)
        state.change(MissedJobs, lambda missed: missed.with_jobs(awaiting))
    return len(plan.changes.begun)


def _is_of_interest(parts: Parts, known: TrackedJob) -> bool:
    """Whether rules would have evaluated a job: only then is its directory searched for."""
    limit = known.job.time_limit
    return (limit is None or limit >= parts.min_job_duration) and not is_declared_without(known.job)


def _publish_backfilled(state: State, plan: BackfillPlan, now: datetime) -> None:
    """Update the snapshots with what was recorded."""
    corrected = [after for _, after in plan.corrected]
    owners = {known.key: known.job.uid for known in plan.touched}
    ended = (*plan.changes.ended, *corrected)
    counted = [before for before, _ in plan.corrected]
    state.change(EndTallies, lambda tallies: tallies.with_ended(ended, counted, owner_of=owners.get))
    state.change(UnconfirmedEnds, lambda ends: ends.with_answers((), corrected, now))
    state.events.count_jobs(plan.changes)
    state.change(PolledQueue, lambda queued: queued.with_backfill(plan.changes.changed, plan.corrected))


def _visit(parts: Parts, state: State, now: datetime) -> None:
    """Search for the directories of some more jobs, each job once."""
    if not state.latest(MissedJobs).jobs:
        return
    with state.recording():
        known = state.latest(MissedJobs)
        done = {key for key in known.visiting if _is_over(state, known.jobs[key])}
        parts.store.backfill.record_scanned(done)
        has_timed_out = _have_timed_out([known.jobs[key] for key in done], now)
        known = known.without(done)
        visits = known.next_visits()
        state.publish(known.with_visits(visits))
        state.watchlist.visit([each.run for each in visits if each.run], now)
    if has_timed_out:
        _read_timed_out(parts, state, now)


def _is_over(state: State, known: TrackedJob) -> bool:
    """Whether a job's run was scanned, or will be because another job of it is in the queue.

    A scan that failed counts, too: it is repeated, but nothing else waits for it.
    """
    watched = state.watchlist.get(known.run) if known.run else None
    if watched is None:
        return True
    return watched.key.is_located and (not watched.is_last_scan or watched.last is not None)


def _have_timed_out(over: Iterable[TrackedJob], now: datetime) -> bool:
    recent = now - TIMED_OUT_MEMORY
    return any(each.job.state is JobState.TIMEOUT and each.ended_at and each.ended_at > recent for each in over)


def _read_timed_out(parts: Parts, state: State, now: datetime) -> None:
    """Note the runs of jobs that timed out recently, because their users may want them resubmitted."""
    with state.record_lock:  # a poll must not add one between the two
        learned = parts.store.restart_state.read(parts.cluster, ended_since=now, timed_out_since=now - TIMED_OUT_MEMORY)
        state.change(PolledQueue, lambda queued: replace(queued, timed_out=dict(learned.timed_out)))
