"""Evaluates the rules for every run, and records flags and notices in one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from ckptd.core import health
from ckptd.core.health import array_folding, flag_changes
from ckptd.core.model import (
    Flag,
    Job,
    LimitSignal,
    RunContext,
    RunHistory,
    RunKey,
    RunRecord,
    SitePurge,
    Unknown,
)
from ckptd.steps import job_action_history, plan_notices, read_scripts
from ckptd.steps.job_action_history import RunActions
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.results import IDLE, StepResult, error, warning
from ckptd.steps.run_facts import EndTallies, FreeSpaceSamples, JobHolds
from ckptd.steps.snapshots import PurgeFacts, RunHistories, ScanProgress
from ckptd.steps.state import State

MISSED_SCANS = 4  # after so many a look at a directory is too old to judge by


@dataclass(slots=True)
class DecisionSlice:
    """State of this step alone."""

    failed_rules: Mapping[tuple[RunKey, str], Exception] = field(default_factory=dict)  # in the last decision


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Decide once after each poll and after the scans of each owner."""
    if not state.decision_due.is_set():
        return IDLE
    state.decision_due.clear()  # what is polled or scanned from here on is for the next decision
    memory = state.own(DecisionSlice, DecisionSlice)
    failed_before = memory.failed_rules
    opened = [flag.finding for flag in decide(parts, state, now).opened]
    lines = [warning(f"flag {finding.rule} opened: job {finding.job_id} of {finding.user!a}") for finding in opened]
    lines += [
        error(f"the rule {rule} failed on the run in {run.directory!a}", cause)
        for (run, rule), cause in memory.failed_rules.items()
        if (run, rule) not in failed_before
    ]
    return StepResult(lines=tuple(lines), has_failed=bool(memory.failed_rules))


def decide(parts: Parts, state: State, now: datetime) -> flag_changes.FlagChanges:
    """Evaluate every run in the queue; record flags that opened, got worse or resolved together with their notices.

    If an address or a batch script must be read from Slurm, this is done without the lock, and all runs are evaluated
    again.
    """
    with state.record_lock:
        open_flags, changes = _judge(parts, state, now)
        unread = read_scripts.list_unread(parts, state, (*changes.opened, *open_flags))
        unasked = plan_notices.list_unasked(parts, state, (*changes.opened, *changes.worsened), now)
        if not unasked and not unread:
            return _record(parts, state, changes, open_flags, now)
    read_scripts.read_signals(parts, state, unread)
    plan_notices.ask_mail_users(parts, state, unasked, now)
    with state.record_lock:
        open_flags, changes = _judge(parts, state, now)
        return _record(parts, state, changes, open_flags, now)


def _record(
    parts: Parts, state: State, changes: flag_changes.FlagChanges, open_flags: tuple[Flag, ...], now: datetime
) -> flag_changes.FlagChanges:
    plan_notices.address_waiting(parts, state, now)
    parts.store.flags.record(changes, now, plan_notices.plan_notices(parts, state, changes, open_flags, now))
    state.events.count_flags(changes)
    return changes


def _judge(parts: Parts, state: State, now: datetime) -> tuple[tuple[Flag, ...], flag_changes.FlagChanges]:
    """Return the recorded flags and their changes."""
    queued = state.latest(PolledQueue)
    open_flags = parts.store.flags.list_open(parts.cluster)
    keys = {watched.key for watched in state.watchlist.all} | {flag.finding.run for flag in open_flags}
    keys |= queued.timed_out.keys() | state.latest(PurgeFacts).ended.keys()
    flags: dict[RunKey, list[Flag]] = defaultdict(list)
    for flag in open_flags:
        flags[flag.finding.run].append(flag)
    state.change(FreeSpaceSamples, lambda samples: samples.keep(keys))
    records = _read_current(parts, state, queued, keys)
    signals = read_scripts.known_signals(state)
    actions = job_action_history.read_actions(parts, state, records, now)
    histories = RunHistories(
        {
            each.key: RunHistory.join(
                each, _context_of(parts, state, each, signals, flags[each.key], actions[each.key])
            )
            for each in records
        }
    )
    state.publish(histories)
    evaluations = [
        health.evaluate(
            history,
            health.choose_rules(history, parts.rules, parts.overrides),
            now,
            max_age=parts.max_poll_age,
            max_scan_age=parts.scan_interval * MISSED_SCANS,
            min_job_duration=parts.min_job_duration,
        )
        for history in histories.by_run.values()
    ]
    state.own(DecisionSlice, DecisionSlice).failed_rules = {
        (each.run, rule): error for each in evaluations for rule, error in each.failed.items()
    }
    evaluations = array_folding.fold_arrays(evaluations, histories.by_run.values(), open_flags)
    changes = flag_changes.compare(open_flags, evaluations, now)
    return open_flags, flag_changes.mark_ended(changes, _running_since(queued)) if changes.resolved else changes


def _running_since(queued: PolledQueue) -> dict[tuple[RunKey, int | None], datetime]:
    """Return when the running attempts were first polled, by run and job."""
    return {
        (known.run, known.job.job_id): known.attempt.first_seen_at
        for known in queued.tracked.values()
        if known.run and known.job.is_running and known.attempt and known.attempt.ended_at is None
    }


def _context_of(
    parts: Parts,
    state: State,
    record: RunRecord,
    signals: Mapping[int, LimitSignal | None],
    flags: Iterable[Flag],
    actions: RunActions,
) -> RunContext:
    """Return the live data about a run that is not in the database."""
    asked = {job.job_id: signals.get(job.job_id) for job in record.jobs}
    tallies = state.latest(EndTallies)
    flags = tuple(flags)
    return RunContext(
        is_named_by_script=record.key in state.latest(ScanProgress).named_by_script,
        is_preempted_there=any(tallies.is_preempted(job.partition) for job in record.jobs),
        interruptions=tallies.find_interruptions(record),
        maintenance=state.latest(PolledQueue).maintenance,
        holds=state.latest(JobHolds).find(record.attempts),
        signals={job_id: signal for job_id, signal in asked.items() if signal},
        signalled=actions.signalled,
        standing=actions.standing,
        resubmitted=actions.resubmitted,
        flagged=frozenset((flag.finding.rule, flag.finding.job_id) for flag in flags),
        open_evidence={(flag.finding.rule, flag.finding.job_id): flag.finding.evidence for flag in flags},
        purge=_purge_of(parts, state, record.key),
    )


def _purge_of(parts: Parts, state: State, key: RunKey) -> SitePurge:
    """Return what the site deletes by itself at a run's directory."""
    workspace = None
    if parts.workspace_databases and key.is_located:
        unread = Unknown(what="workspace", reason="the database of workspaces was not read yet")
        workspace = state.latest(PurgeFacts).workspaces.get(key, unread)
    return SitePurge(rules=parts.purge_rules, workspace=workspace)


def _read_current(parts: Parts, state: State, queued: PolledQueue, keys: set[RunKey]) -> list[RunRecord]:
    """Return the records of runs with newer data: jobs, other writers, the last scan, free space."""
    jobs: dict[RunKey, list[Job]] = defaultdict(list)
    writers: dict[str, list[tuple[RunKey, Job]]] = defaultdict(list)
    room = state.latest(FreeSpaceSamples).by_run
    ended = state.latest(PurgeFacts).ended
    for known in queued.tracked.values():
        if known.is_open and known.run is not None:
            jobs[known.run].append(known.job)
            writers[known.run.directory].append((known.run, known.job))
    current: list[RunRecord] = []
    for record in parts.store.histories.read(parts.cluster, keys, forgets_others=True):
        key = record.key
        watched = state.watchlist.get(key)
        current.append(
            replace(
                record,
                jobs=tuple(jobs[key]),
                other_writers=tuple((job, job.user) for run, job in writers[key.directory] if run != key),
                polled_at=None if queued.slurm_trouble else queued.polled_at,  # while Slurm is silent nothing is judged
                scan=watched.last if watched else ended.get(key),
                room=room.get(key, ()),
            )
        )
    return current
