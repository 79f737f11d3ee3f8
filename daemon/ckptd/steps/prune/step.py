"""The step `prune`: recover, delete entries whose hold has ended, plan removals and carry them out."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.core.fleet.prune_totals import PruneTotals, RemovableTotals
from ckptd.core.retention import Plan, PolicyMode, RunPlan
from ckptd.steps.parts import Parts
from ckptd.steps.prune import apply, audit_entries, circuit_breaker, current_settings, pause_record, planning
from ckptd.steps.prune.apply import ApplyOptions, ApplyParts, ApplyResult
from ckptd.steps.prune.audit_counts import AuditCounts
from ckptd.steps.prune.candidates import PruneCandidates
from ckptd.steps.prune.circuit_breaker import BreakerState
from ckptd.steps.prune.clock_guard import ClockGuard
from ckptd.steps.prune.foreign_removals import ForeignRemovals
from ckptd.steps.prune.observer import RecordingObserver
from ckptd.steps.prune.planning import PlanFacts
from ckptd.steps.prune.recovered_runs import RecoveredRuns
from ckptd.steps.prune.recovery import PruneParts
from ckptd.steps.prune.scan_before_prune import ScanTurns, list_newest
from ckptd.steps.prune.silent_users import ListeningAgent, SilentUsers
from ckptd.steps.prune.trash_expiry import TrashExpiryResult, empty_due
from ckptd.steps.prune.trash_retention import KnownTrash
from ckptd.steps.prune.unrecorded_trash import UnrecordedTrashSweeper
from ckptd.steps.results import IDLE, StepResult
from ckptd.steps.site_policy import SitePolicy
from ckptd.steps.snapshots import SharedRuns
from ckptd.steps.state import State
from ckptd.store.store import Store

log = logging.getLogger("ckptd.steps.prune")


@dataclass(slots=True)
class PruneSlice:
    """State that is carried from one run of the step to the next."""

    recovered: RecoveredRuns = field(default_factory=RecoveredRuns)
    silent: SilentUsers = field(default_factory=SilentUsers)
    candidates: PruneCandidates = field(default_factory=PruneCandidates)
    turns: ScanTurns = field(default_factory=ScanTurns)
    trash: KnownTrash = field(default_factory=KnownTrash)
    foreign: ForeignRemovals = field(default_factory=ForeignRemovals)
    sweeper: UnrecordedTrashSweeper = field(default_factory=UnrecordedTrashSweeper)
    tally: AuditCounts = field(default_factory=AuditCounts)
    clock: ClockGuard = field(default_factory=ClockGuard)
    planned: str | None = None
    pruned: PruneTotals = field(default_factory=PruneTotals)  # for metrics, as of the last step
    is_busy: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The result of one run of the step."""

    moved_count: int = 0
    moved_bytes: int = 0
    deleted_count: int = 0
    failed_count: int = 0


def begin(parts: Parts, state: State, _now: datetime) -> None:
    """Read when a daemon last ran, before this one records a heartbeat."""
    state.own(PruneSlice, lambda: recall(parts.store, parts.cluster))


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Prune by the current configuration; a reload that changes retention stops the removals."""
    site = parts.retention
    if site is None:
        return IDLE

    def should_stop() -> bool:
        return parts.runner.is_stopping() or not parts.runner.still_wants(site)

    memory = state.own(PruneSlice, PruneSlice)
    if not site.matches:
        # or alerts about a late or paused step would fire as long as the daemon runs
        memory.pruned = replace(memory.pruned, stepped_at=None, is_breaker_open=False, is_clock_unreliable=False)
    elif memory.pruned.stepped_at is None:  # or no alert would see a first step that never ends
        memory.pruned = replace(memory.pruned, stepped_at=now)
        state.publish(memory.pruned)
    elapsed = timedelta(seconds=time.monotonic())
    with memory.is_busy:
        done = act(parts, state, site, memory, now, elapsed, should_stop=should_stop)
    took = timedelta(seconds=time.monotonic()) - elapsed
    memory.pruned = replace(memory.pruned, step_duration=took)
    state.publish(memory.pruned)
    return StepResult(done != PruneResult())


def stop(state: State, timeout_seconds: float) -> None:
    """Wait until the removal in progress is put back; one that hangs is recovered at the next start."""
    memory = state.find(PruneSlice)
    if memory is not None:
        memory.is_busy.acquire(timeout=timeout_seconds)  # and not released: no other removal begins


def act(  # noqa: PLR0913 - what the schedule gives every step of it
    parts: Parts,
    state: State,
    site: SitePolicy,
    memory: PruneSlice,
    now: datetime,
    elapsed: timedelta,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> PruneResult:
    """Run the step once. `elapsed` is the time of a monotonic clock.

    Slurm is polled at most twice: if something may be removed, and again after a removal. `should_stop` is called
    before each removal, because a reload may have replaced the configuration.
    """
    began = time.monotonic()
    parts = replace(parts, agent=ListeningAgent(parts.agent, memory.silent, now))
    hands = PruneParts(parts.store, parts.agent, site, parts.cluster, should_stop, memory.silent)
    if not _must_recover(hands):
        return PruneResult()
    changed = memory.tally.read(hands.store, hands.cluster, now)
    memory.recovered.list_again(hands, memory.trash, changed, now)
    memory.recovered.recover(hands, memory.trash, now)
    means = ApplyParts(
        hands=hands,
        observer=RecordingObserver(parts, state),
        clock=memory.clock,
        recovered=memory.recovered,
        turns=memory.turns,
        foreign=memory.foreign,
        elapsed=elapsed,
        read_passed=lambda: timedelta(seconds=time.monotonic() - began),
    )
    done = _prune_recovered(parts, means, memory, now) if site.matches else PruneResult()
    if not should_stop():
        memory.recovered.recover(hands, memory.trash, now, of_suspects=True)
        memory.pruned = replace(memory.pruned, unconfirmed_run_count=len(memory.recovered.doubts))
    return done


def _must_recover(hands: PruneParts) -> bool:
    """Whether to complete or undo interrupted operations: in every mode; without any policy, only if there are some."""
    if hands.site.matches:
        return True
    unfinished = hands.store.audit.list_newest(hands.cluster, unfinished_only=True, limit=audit_entries.LIMIT)
    return any(entry.action in audit_entries.ON_TRASH for entry in unfinished)


def _prune_recovered(parts: Parts, means: ApplyParts, memory: PruneSlice, now: datetime) -> PruneResult:
    """Delete what is due, plan removals and carry them out, in recovered runs, unless the clock is unreliable."""
    hands = means.hands
    doubt = memory.clock.find_doubt(parts.read_clock, hands.site.guards, now, means.elapsed)
    pause_record.record(hands.store, hands.cluster, doubt, now)
    if doubt:
        _sum_up(hands, memory, {}, now, is_clock_unreliable=True)
        return PruneResult()
    emptied = TrashExpiryResult()
    if memory.clock.may_delete(means.elapsed) and not hands.should_stop():
        emptied = empty_due(hands, memory.trash, memory.recovered.list_ready(hands, now), now)
        swept = memory.sweeper.sweep(hands, memory.trash, memory.recovered.list_ready(hands, now), now)
        for run in emptied.silent | swept:
            memory.recovered.doubt(run, now)
    going, applied = _prune(means, memory, now)
    _sum_up(hands, memory, going, now)
    moved = applied.moved
    return PruneResult(len(moved), sum(each.size_bytes for each in moved), emptied.deleted_count, applied.failed_count)


def _prune(means: ApplyParts, memory: PruneSlice, now: datetime) -> tuple[dict[str, RemovableTotals], ApplyResult]:
    """Plan removals and carry them out; return what is left to remove, by mode."""
    hands = means.hands
    elsewhere = means.observer.state.latest(SharedRuns).elsewhere
    recorded = hands.store.runs.read_revisions(hands.cluster)
    revisions = {key: revision for key, revision in recorded.items() if key not in elsewhere}
    due = memory.candidates.list_due(revisions, hands.site, now)
    facts = planning.read_facts(hands.store, hands.cluster, hands.site, due)
    deleted = memory.foreign.list_due(facts.runs, memory.recovered.list_ready(hands, now), now)
    memory.foreign.record(hands, deleted, now)
    hopeful = planning.plan_if_fresh(facts, now)
    memory.candidates.record_plans(hopeful.runs, revisions, now)
    going = {mode.value: _count(run for run in hopeful.runs if run.mode is mode) for mode in planning.ACTIVE_MODES}
    found = planning.check_circuit_breaker(hands.store, hands.cluster, hands.site, now)
    tried = (circuit_breaker.skip_refused(run, found.refused) for run in hopeful.runs)
    asked = (run for run in tried if run.remove and not hands.silent.is_left_out(run.run.uid, now))
    wanted = [run for run in asked if _may_be_pruned(run, memory, found)]
    shown = [run for run in wanted if run.mode is not PolicyMode.ENFORCE]
    means.turns.renew_verdicts(means.observer.parts, hands, facts, shown, now)
    chosen = memory.turns.choose(facts, wanted, now)
    means.observer.read_names([run for run in chosen if run.mode is not PolicyMode.ENFORCE], facts.named, now)
    means.observer.scan({run.run: list_newest(run) for run in chosen if run.mode is not PolicyMode.ENFORCE}, now)
    of_plan = {run.run for run in chosen if run.mode is not PolicyMode.ENFORCE}
    concerned = [run for run in facts.runs if run.history.key in of_plan or run.retention_settings]
    current_settings.renew(
        means.observer.parts, concerned[: current_settings.MAX_RUNS], now
    )  # they may keep less by now
    enforced = tuple(run for run in chosen if run.mode is PolicyMode.ENFORCE)
    applied = _apply(means, memory, replace(hopeful, runs=enforced), facts, now)
    moved, left = applied.moved, going[PolicyMode.ENFORCE.value]
    moved_bytes = sum(each.size_bytes for each in moved)
    return going | {
        PolicyMode.ENFORCE.value: RemovableTotals(left.count - len(moved), left.size_bytes - moved_bytes)
    }, applied


def _count(runs: Iterable[RunPlan]) -> RemovableTotals:
    counted = [(len(run.remove), run.remove_bytes) for run in runs]
    return RemovableTotals(sum(count for count, _ in counted), sum(size for _, size in counted))


def _apply(means: ApplyParts, memory: PruneSlice, plan: Plan, facts: PlanFacts, now: datetime) -> ApplyResult:
    terms = ApplyOptions(
        modes=frozenset({PolicyMode.ENFORCE}), planned=memory.planned, count_elsewhere=memory.candidates.count_elsewhere
    )
    applied = apply.apply(plan, facts, means, terms, now)
    if applied.refused:
        log.info("prune paused: %s", applied.refused)
    if applied.runs:
        memory.planned = applied.plan.plan_id
    ready = memory.recovered.list_ready(means.hands, now)
    memory.trash.read(means.hands, [run for run in applied.runs if run in ready], now)
    means.observer.state.watchlist.hasten(applied.runs, now)
    return applied


def _may_be_pruned(run: RunPlan, memory: PruneSlice, found: BreakerState) -> bool:
    """Whether to scan a run before planning; also in mode `plan`, so that the shown plan is accurate."""
    if run.mode is PolicyMode.ENFORCE:
        return run.run in memory.recovered.runs and run.run.uid not in found.users and found.everyone is None
    return run.mode in planning.ACTIVE_MODES


def _sum_up(
    hands: PruneParts,
    memory: PruneSlice,
    going: Mapping[str, RemovableTotals],
    now: datetime,
    *,
    is_clock_unreliable: bool = False,
) -> None:
    memory.tally.read(hands.store, hands.cluster, now)
    found = planning.check_circuit_breaker(hands.store, hands.cluster, hands.site, now)
    memory.pruned = PruneTotals(
        operations=dict(memory.tally.operations),
        operation_bytes=dict(memory.tally.operation_bytes),
        held=memory.trash.sum_up(hands.site.hold, now),
        going=going or memory.pruned.going,
        is_breaker_open=found.everyone is not None,
        paused_user_count=len(found.users),
        is_clock_unreliable=is_clock_unreliable,
        unconfirmed_run_count=len(memory.recovered.doubts),
        stepped_at=now,
    )


def recall(store: Store, cluster: str) -> PruneSlice:
    """Return the state of a starting daemon; call this before it records a heartbeat."""
    known = [status for status in store.clusters.read_status() if status.cluster == cluster]
    signs = [at for status in known for at in (status.polled_at, status.heartbeat_at) if at is not None]
    return PruneSlice(clock=ClockGuard(recorded_at=max(signs, default=None)))
