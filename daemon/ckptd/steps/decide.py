"""Evaluates the rules for the runs that changed, and records flags and notices in one transaction."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core import health
from ckptd.core.fleet.fleet_totals import measure
from ckptd.core.health import array_folding, flag_changes, node_locations
from ckptd.core.health.no_room import needed_bytes
from ckptd.core.model import Flag, Job, RunHistory, RunKey, Scan, Unknown
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.core.runs.cadence import with_rhythm
from ckptd.steps import awaited_scans, job_action_history, plan_notices, read_scripts
from ckptd.steps.decision_slice import DecisionSlice
from ckptd.steps.evaluated_runs import EvaluatedRun, has_damaged
from ckptd.steps.flag_lines import list_changed
from ckptd.steps.live_facts import bring_up, make_context
from ckptd.steps.packed_checkpoints import pack, unpack
from ckptd.steps.parts import Parts
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.results import IDLE, StepResult, error
from ckptd.steps.run_facts import FreeSpaceSamples, JobHolds
from ckptd.steps.snapshots import CurrentFlags, PollPace, PurgeFacts, RunHistories, ScanProgress, SharedRuns
from ckptd.steps.state import State
from ckptd.steps.unchanged_runs import SharedFacts, UnchangedRuns
from ckptd.store.database_errors import UnknownRunError
from ckptd.store.fresh_checkpoints import ShownCheckpoints
from ckptd.store.histories import RevisedRecord

RUNS_AT_ONCE = 25  # whose checkpoints are in memory, unpacked, while they are evaluated
EMPTY_AT_ONCE = 16 * RUNS_AT_ONCE  # the same, as long as those before had none
FIRST_AT_ONCE = 160 * RUNS_AT_ONCE  # evaluated for the first time in one decision: scans wait for its end
MISSED_SCANS = 4  # a scan that is older than so many intervals is too old for decisions


class _ComparedRuns(NamedTuple):
    """Which runs a decision compares with their last evaluation, beside those that are due."""

    runs: Collection[RunKey]
    unchanged: UnchangedRuns | None  # recognises most of those that did not change, without their histories
    evaluates_all: bool


def await_no_scan(state: State) -> None:
    """Evaluate runs also before their first scan, however many they are: no later decision follows."""
    state.own(DecisionSlice, DecisionSlice).awaited.is_awaiting = False


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Decide once after each poll and after scans that found changes; at a start, about some runs after others."""
    memory = state.own(DecisionSlice, DecisionSlice)
    about_clock = memory.follow_clock(parts, now)
    is_due = memory.must_evaluate_all or state.decision_due.is_set() or memory.must_decide(now, parts.poll_interval)
    memory.note_poll(state.latest(PolledQueue).polled_at, now)
    if not is_due or memory.must_pause(now, parts.poll_interval, is_filling=parts.store.histories.fresh.is_filling):
        return StepResult(found_work=False, lines=about_clock) if about_clock else IDLE
    memory.decided_at = now
    state.decision_due.clear()  # what is polled or scanned from here on is for the next decision
    failed_before = set(memory.failed_rules)
    changes = decide(parts, state, now)
    if memory.postponed:
        state.decision_due.set()
    lines = [*about_clock, *list_changed(changes)]
    lines += [
        error(f"the rule {rule} failed on the run in {run.directory!a}", cause, run=run.directory, rule=rule)
        for (run, rule), cause in memory.failed_rules.items()
        if (run, rule) not in failed_before
    ]
    return StepResult(lines=tuple(lines), has_failed=bool(memory.failed_rules), is_unfinished=bool(memory.postponed))


def decide(parts: Parts, state: State, now: datetime) -> flag_changes.FlagChanges:
    """Evaluate the runs of which anything changed; record flags that opened, got worse or resolved with their notices.

    If an address or a batch script must be read from Slurm, this is done without the lock, and the runs that this
    concerns are evaluated again. If another process moved or removed a run meanwhile, everything is decided once more.
    """
    try:
        return _decide(parts, state, now)
    except UnknownRunError:
        return _decide(parts, state, now)


def _decide(parts: Parts, state: State, now: datetime) -> flag_changes.FlagChanges:
    try:
        with state.record_lock:
            changes = _judge(parts, state, now)
            unread, unasked = _list_questions(parts, state, changes, now)
            if not unasked and not unread:
                return _record(parts, state, changes, now)
        read_scripts.read_signals(parts, state, unread)
        plan_notices.ask_mail_users(parts, state, unasked, now)
        with state.record_lock:
            state.own(DecisionSlice, DecisionSlice).compared_at = None
            return _record(parts, state, _judge(parts, state, now), now)
    except Exception:
        state.own(DecisionSlice, DecisionSlice).compared_at = None  # part of it may be decided, or on record
        raise


def _list_questions(
    parts: Parts, state: State, changes: flag_changes.FlagChanges, now: datetime
) -> tuple[list[int], list[Job]]:
    """Return the jobs whose scripts, and those whose MailUser, must be read before the changes are recorded."""
    open_flags = state.own(DecisionSlice, DecisionSlice).flags.all
    unread = read_scripts.list_unread(parts, state, (*changes.opened, *open_flags))
    return unread, plan_notices.list_unasked(parts, state, (*changes.opened, *changes.worsened), now)


def _record(parts: Parts, state: State, changes: flag_changes.FlagChanges, now: datetime) -> flag_changes.FlagChanges:
    memory = state.own(DecisionSlice, DecisionSlice)
    plan_notices.address_waiting(parts, state, now)
    notices = plan_notices.plan_notices(parts, state, changes, memory.flags.all, now)
    opened = parts.store.flags.record(changes, now, notices)
    memory.evaluated.mark_recorded(changes, memory.flags.by_id)
    memory.flags.record(changes, opened)
    state.publish(CurrentFlags(memory.flags.all))
    state.events.count_flags(changes)
    return changes


def _judge(parts: Parts, state: State, now: datetime) -> flag_changes.FlagChanges:
    """Return how the recorded flags change by what changed of their runs."""
    memory = state.own(DecisionSlice, DecisionSlice)
    queued = state.latest(PolledQueue)
    shared = SharedFacts.read(state, _list_snapshots(parts, state))
    is_comparison = memory.is_comparison_due(shared, now, parts.poll_interval)
    moved = queued.find_moved(memory.decided_about)
    is_comparison = is_comparison or moved is None
    if is_comparison or any(run in memory.flags.runs for run in moved or ()):  # the flags of a run move with its jobs
        memory.flags = memory.flags.read_again(parts.store.flags.list_open(parts.cluster))
    if is_comparison:
        _leave_runs(parts, state, memory, now)
    changed = state.watchlist.take_changed()
    concerned = memory.sort_jobs(queued).add_neighbours(moved) if moved and not is_comparison else frozenset()
    if is_comparison or memory.is_catching_up or memory.must_evaluate_all or _is_poll_old(parts, state, now):
        scans = _list_scans(state, queued, memory)
        memory.evaluated.keep(scans.keys())
        memory.read_once &= scans.keys()
    else:  # the other runs are as they were at the last decision
        evaluated = memory.evaluated
        named = {*changed, *concerned, *evaluated.take_ended(now), *evaluated.flagged, *evaluated.noted_flags}
        scans = _list_scans(state, queued, memory, named)
        for key in named - scans.keys():
            evaluated.remove(key)
    known = memory.evaluated.by_run
    memory.failed_rules = {name: each for name, each in memory.failed_rules.items() if name[0] in known}
    if is_comparison:
        state.change(FreeSpaceSamples, lambda samples: samples.keep(scans.keys()))
    before = memory.compared_with
    evaluates_all = memory.must_evaluate_all
    evaluates_all = evaluates_all or (is_comparison and before is not None and before.snapshots[0] is not parts)
    compared: Collection[RunKey] = scans if is_comparison else concerned
    is_same = shared.is_same(before)
    unchanged = UnchangedRuns.of(state, memory.sort_jobs(queued), memory.flags) if is_same else None
    _evaluate(parts, state, scans, now, _ComparedRuns(compared, unchanged, evaluates_all=evaluates_all))
    memory.compared_with, memory.decided_about = shared, queued
    memory.must_evaluate_all = False
    if is_comparison:
        memory.compared_at = now
    return _compare(memory, queued, now)


def _list_snapshots(parts: Parts, state: State) -> tuple[object, ...]:
    """Return what others replace when anything changes that rules read of a run, beside its scans and the queue."""
    return (
        parts,
        state.latest(PurgeFacts),
        state.latest(JobHolds),
        state.latest(ScanProgress).named_by_script,
        state.latest(SharedRuns),
    )


def _list_scans(
    state: State, queued: PolledQueue, memory: DecisionSlice, named: Collection[RunKey] | None = None
) -> dict[RunKey, Scan | Unknown | None]:
    """Return the runs to decide about, all or those of the named ones, each with its last scan."""
    ended, flagged = state.latest(PurgeFacts).ended, memory.flags.runs
    copies, elsewhere = state.watchlist.copies, state.latest(SharedRuns).elsewhere
    only_copies = copies - {known.run for known in queued.tracked.values()} if copies else copies
    all_or_named = state.watchlist.all if named is None else state.watchlist.list_named(named)
    watched = {each.key: each.last for each in all_or_named if each.key not in only_copies}
    if named is None:
        named = {*flagged, *queued.timed_out, *ended, *watched}
    scans: dict[RunKey, Scan | Unknown | None] = {
        key: ended.get(key) for key in named if key in flagged or key in queued.timed_out or key in ended
    }
    scans |= watched
    return {key: scan for key, scan in scans.items() if key not in elsewhere} if elsewhere else scans


def _leave_runs(parts: Parts, state: State, memory: DecisionSlice, now: datetime) -> None:
    """Resolve the flags of runs for which the daemon of another cluster acts; it judges them, so nobody is notified."""
    elsewhere = state.latest(SharedRuns).elsewhere
    left = [flag for flag in memory.flags.all if flag.finding.run in elsewhere]
    if left:
        changes = flag_changes.FlagChanges(resolved=tuple(replace(flag, resolved_at=now) for flag in left))
        parts.store.flags.record(changes, now)
        memory.flags.record(changes, ())
        state.publish(CurrentFlags(memory.flags.all))
        state.events.count_flags(changes)


def _is_poll_old(parts: Parts, state: State, now: datetime) -> bool:
    polled_at = state.latest(PolledQueue).polled_at
    return polled_at is not None and now - polled_at > state.latest(PollPace).longest_age(parts.max_poll_age)


def _evaluate(
    parts: Parts,
    state: State,
    scans: Mapping[RunKey, Scan | Unknown | None],
    now: datetime,
    comparison: _ComparedRuns,
) -> None:
    """Evaluate the runs that are due, and those to be compared of which anything else changed."""
    memory = state.own(DecisionSlice, DecisionSlice)
    known = memory.evaluated.by_run
    is_poll_old = _is_poll_old(parts, state, now)
    due = {
        key for key, scan in scans.items() if key not in known or known[key].is_due(scan, now, is_poll_old=is_poll_old)
    }
    due |= memory.evaluated.flagged
    if comparison.evaluates_all:
        due = set(scans)
    unread = [key for key in scans if key not in memory.read_once]
    is_awaiting = len(unread) > awaited_scans.MANY
    awaited = memory.awaited.find(parts, state, memory.read_once, now) if is_awaiting else frozenset()
    memory.postponed = frozenset([key for key in unread if key not in awaited][FIRST_AT_ONCE:])
    left = memory.postponed | awaited
    memory.is_catching_up = bool(left)
    noted = memory.evaluated.noted_flags
    asked = [key for key in scans if (key in due or key in comparison.runs or key in noted) and key not in left]
    memory.read_once.update(asked)
    start, count = 0, RUNS_AT_ONCE
    while portion := asked[start : start + count]:
        start += count
        checkpoint_count = _evaluate_some(
            parts, state, {key: scans[key] for key in portion}, due, comparison.unchanged, now
        )
        count = RUNS_AT_ONCE if checkpoint_count else min(count * 2, EMPTY_AT_ONCE)
    for key in scans.keys() & memory.evaluated.by_run.keys() - due:
        memory.evaluated.note_scan(key, scans[key])
    evaluated = memory.evaluated.by_run
    histories = {key: each.history for key, each in evaluated.items()}
    state.publish(RunHistories(histories, {key: each.share for key, each in evaluated.items()}))


def _evaluate_some(
    parts: Parts,
    state: State,
    scans: Mapping[RunKey, Scan | Unknown | None],
    due: Collection[RunKey],
    unchanged: UnchangedRuns | None,
    now: datetime,
) -> int:
    """Read what the database has of some runs, and evaluate those that are due or of which anything changed.

    `unchanged` recognises most of the others. Return how many checkpoints were read.
    """
    memory = state.own(DecisionSlice, DecisionSlice)
    known = memory.evaluated.by_run
    before_read = {key: memory.evaluated.find_record(key) for key in scans}
    revised = parts.store.histories.read_changed(before_read)
    for key in revised.missing:
        memory.evaluated.remove(key)
    wanted: dict[RunKey, RevisedRecord] = {}
    for key in scans:
        if key in revised.records:
            wanted[key] = revised.records[key]
        elif (each := known.get(key)) is not None:
            if unchanged and key not in due and key not in memory.evaluated.noted_flags and unchanged.has(each):
                continue
            wanted[key] = each.revised
        elif (left := before_read[key]) is not None and key not in revised.missing:
            wanted[key] = left
    before = {key: known[key].history if key in known else None for key in wanted}
    queue = memory.sort_jobs(state.latest(PolledQueue))
    current = [each for each in bring_up(parts, state, wanted, scans, queue, before) if not each.is_only_copy]
    actions = job_action_history.read_actions(parts, state, current, now)
    signals = read_scripts.known_signals(state)
    max_poll_age = state.latest(PollPace).longest_age(parts.max_poll_age)
    for record in current:
        context = make_context(parts, state, record, signals, memory.flags.of_run(record.key), actions[record.key])
        history = RunHistory.join(record, context)
        if record.key in due or record.key in revised.records or known[record.key].is_outdated(history):
            _evaluate_run(parts, memory, wanted[record.key], history, now, max_poll_age)
        else:
            memory.evaluated.note_flags(context, record.key)
    return sum(len(each.record.checkpoints) for each in revised.records.values())


def _evaluate_run(
    parts: Parts,
    memory: DecisionSlice,
    read: RevisedRecord,
    history: RunHistory,
    now: datetime,
    max_poll_age: timedelta,
) -> None:
    opened = with_rhythm(unpack(history))
    history = replace(history, rhythm=opened.rhythm)
    rules = tuple(health.choose_rules(opened, parts.rules, parts.overrides))
    is_unseen_here = is_on_nodes(opened.key.directory, parts.node_scans.directories)
    timed = health.evaluate_until(
        opened,
        node_locations.choose_rules(rules) if is_unseen_here else rules,
        now,
        max_age=max_poll_age,
        max_scan_age=parts.scan_interval * MISSED_SCANS,
        min_job_duration=parts.min_job_duration,
    )
    for name in [name for name in memory.failed_rules if name[0] == history.key]:
        del memory.failed_rules[name]
    memory.failed_rules.update({(history.key, rule): each for rule, each in timed.evaluation.failed.items()})
    context, evaluation = history.context, timed.evaluation
    if is_unseen_here and opened.jobs:  # at the end, flags are resolved as everywhere
        evaluation = node_locations.mark_undecided(evaluation, rules)
    memory.evaluated.put(
        EvaluatedRun(
            row_id=read.row_id,
            revision=read.revision,
            history=pack(history),
            evaluation=evaluation,
            share=measure(opened),
            until=timed.until,
            scan_until=timed.scan_until,
            needed_bytes=needed_bytes(opened, rules),
            shown=ShownCheckpoints.of(read.record.checkpoints if history.earlier else opened.checkpoints),
            own_record=pack(read.record) if history.earlier else None,
            is_acted_on=bool(context.signalled or context.resubmitted or context.standing) or not history.jobs,
            is_damaged=has_damaged(opened),
            was_poll_old=opened.polled_at is not None and now - opened.polled_at > max_poll_age,
        )
    )


def _compare(memory: DecisionSlice, queued: PolledQueue, now: datetime) -> flag_changes.FlagChanges:
    """Return how the flags change by the evaluations that are not recorded yet."""
    concerned = memory.evaluated.list_unrecorded()
    open_flags = memory.flags.of_runs(each.history.key for each in concerned)
    evaluations = array_folding.fold_arrays(
        [each.evaluation for each in concerned], [each.history for each in concerned], open_flags
    )
    changes = flag_changes.compare(open_flags, evaluations, now)
    if memory.clock_pause.is_active:  # only what no time can have changed
        ended = {each.history.key for each in concerned if not each.history.jobs}
        resolved = tuple(flag for flag in changes.resolved if flag.finding.run in ended)
        changes = flag_changes.FlagChanges(resolved=resolved)
    return flag_changes.mark_ended(changes, _running_since(queued, changes.resolved))


def _running_since(queued: PolledQueue, flags: Iterable[Flag]) -> dict[tuple[RunKey, int | None], datetime]:
    """Return when the running attempts of these flags were first polled, by run and job."""
    found: dict[tuple[RunKey, int | None], datetime] = {}
    for each in flags:
        job_id = each.finding.job_id
        known = None if job_id is None else queued.tracked.get(job_id)
        if known and known.run and known.job.is_running and known.attempt and known.attempt.ended_at is None:
            found[known.run, job_id] = known.attempt.first_seen_at
    return found
