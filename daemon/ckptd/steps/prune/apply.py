"""Carries out a plan: the only function with which the daemon and `ckptd prune` move checkpoints to the trash.

The plan may be out of date. Before the first move, the clock is compared with Slurm's, interrupted acts are
recovered, the newest checkpoint is verified if its verification is too old, the queue is polled, each directory is
scanned, and the plan is made again. After the moves, the queue is polled once more for jobs that have started.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints.trash import TrashOutcome, TrashResult
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.core.retention import Plan, PolicyMode, ReferenceSources, RunPlan
from ckptd.steps.parts import Scans
from ckptd.steps.prune import audit_entries, circuit_breaker, current_settings, owner_turns, planning
from ckptd.steps.prune.clock_guard import ClockGuard
from ckptd.steps.prune.foreign_removals import ForeignRemovals
from ckptd.steps.prune.observer import Observer
from ckptd.steps.prune.planning import PlanFacts
from ckptd.steps.prune.recovered_runs import RecoveredRuns
from ckptd.steps.prune.recovery import PruneParts, recover_runs
from ckptd.steps.prune.removal import STOPPED, Removal
from ckptd.steps.prune.scan_before_prune import ScanTurns, find_stale, list_newest, list_reported
from ckptd.steps.prune.start_guard import StartGuard

ANOTHER_ACT = "the outcome of an earlier removal in its run is unknown"
NOT_VERIFIED = "its newest complete checkpoint could not be verified"
REPORTED = "a job of its owner found a checkpoint damaged, and this node has not verified it"
NOT_SCANNED = "its directory was not scanned"
NOT_READ = "its owner's .ckptd.toml was not read"
NOT_LISTED = "its trash was not read to its end"
SILENT_USER = "nothing was heard of another run of its user"
SILENT_DISK = "nothing was heard of several users on its file system"
STOP = "removals were stopped before its turn"

log = logging.getLogger("ckptd.steps.prune")


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplyOptions:
    """Who carries out a plan, and which part of it."""

    modes: frozenset[PolicyMode]  # of the runs from which checkpoints are removed
    actor: str | None = None  # None: each run's policy
    is_exact: bool = False  # nothing is removed where planning again does not give the same plan
    retries_refused: bool = False  # what was refused lately is tried again
    planned: str | None = None  # the id of the plan that is on record already
    count_elsewhere: Callable[[Collection[RunKey]], Mapping[int, int]] | None = None  # by file system, of other runs


@dataclass(frozen=True, kw_only=True, slots=True)
class ApplyParts:
    """The objects that carry out a plan.

    `elapsed` is the time of a monotonic clock, and `read_passed` returns what has passed by it since then.
    """

    hands: PruneParts
    observer: Observer
    clock: ClockGuard
    recovered: RecoveredRuns
    turns: ScanTurns
    foreign: ForeignRemovals
    elapsed: timedelta
    read_passed: Callable[[], timedelta]


@dataclass(kw_only=True, slots=True)
class ApplyResult:
    """The result of a plan."""

    refused: str | None = None  # why nothing of it was tried
    plan: Plan  # made again from what was seen right before
    limited: Plan  # what of it caps and circuit breakers let through
    left: dict[RunKey, str] = field(default_factory=dict)  # runs of which nothing was tried, and why
    removals: dict[RunKey, Removal] = field(default_factory=dict)
    is_stopped: bool = False

    @property
    def runs(self) -> tuple[RunKey, ...]:
        return tuple(self.removals)

    @property
    def moved(self) -> list[TrashOutcome]:
        return [
            outcome
            for outcome in self._outcomes
            if isinstance(outcome, TrashOutcome) and outcome.result is TrashResult.MOVED
        ]

    @property
    def failed_count(self) -> int:
        return sum(outcome.reason != STOPPED for outcome in self._outcomes) - len(self.moved)

    def list_outcomes(self, run: RunPlan) -> list[TrashOutcome | Unknown | None]:
        """Return the outcome of each removal of the limited plan in a run; None if it was not tried."""
        outcomes = self.removals[run.run].outcomes if run.run in self.removals else []
        return [*outcomes, *[None] * (len(run.remove) - len(outcomes))]

    @property
    def _outcomes(self) -> list[TrashOutcome | Unknown]:
        return [outcome for removal in self.removals.values() for outcome in removal.outcomes]


def apply(plan: Plan, facts: PlanFacts, means: ApplyParts, terms: ApplyOptions, now: datetime) -> ApplyResult:
    """Move the checkpoints that a plan removes to the trash, in the runs whose mode is among `terms.modes`.

    `facts` is the data that the plan was made from.
    """
    applied = ApplyResult(plan=plan, limited=plan)
    wanted = [run for run in plan.runs if run.remove and run.mode in terms.modes]
    if not wanted:
        return applied
    hands, guard = means.hands, StartGuard(means.observer, means.hands.site.guards.restart_grace)
    applied.refused = _prepare(wanted, facts, means, guard, now)
    if applied.refused:
        return applied
    means.observer.read_names(wanted, facts.named, now)
    scans = means.observer.scan({run.run: list_newest(run) for run in wanted}, now)
    runs = {run.run for run in wanted}
    unread = current_settings.renew(means.observer.parts, [run for run in facts.runs if run.history.key in runs], now)
    unlisted = means.foreign.record(hands, runs, now)
    now += means.read_passed()  # else polls and scans of the meantime would seem to be from the future
    keys = [run.run for run in plan.runs] if terms.is_exact else list(scans)
    facts = planning.read_facts(hands.store, hands.cluster, hands.site, keys)
    scans = planning.prefer_newer(facts, scans)
    facts = planning.judge_again(facts, scans)
    facts = replace(facts, named=means.observer.update(facts.named))
    guard.set_facts(facts)
    applied.plan = applied.limited = made = planning.plan(facts, now, scans)
    if terms.is_exact and made.plan_id != plan.plan_id:
        applied.refused = "; ".join([describe_changed_plan(made), *_list_unread(scans)])
        return applied
    applied.limited = limit(made, hands, terms, now)
    skip_reasons = _find_skip_reasons(list_enforced(applied.limited, terms), facts, scans, means.recovered, now)
    skip_reasons |= dict.fromkeys(unread - skip_reasons.keys(), NOT_READ)
    skip_reasons |= dict.fromkeys(unlisted - skip_reasons.keys(), NOT_LISTED)
    _remove(applied, means, terms, _Observation(guard, scans, skip_reasons, facts), now)
    return applied


class _Observation(NamedTuple):
    """The observations immediately before the removals."""

    guard: StartGuard
    scans: Scans
    skip_reasons: Mapping[RunKey, str]  # runs of which not enough is known to remove anything, and why
    facts: PlanFacts


def describe_changed_plan(made: Plan) -> str:
    """Return the message for a plan that has changed since it was printed."""
    return f"the plan has changed and is now {made.plan_id}: run `ckptd plan` again and check it"


def _list_unread(scans: Scans) -> Iterator[str]:
    for run, scan in scans.items():
        if isinstance(scan, Unknown):
            yield f"{run.directory} could not be scanned: {scan.reason}"


def limit(plan: Plan, hands: PruneParts, terms: ApplyOptions, now: datetime) -> Plan:
    """Return the plan limited by the site's caps and circuit breakers."""
    found = planning.check_circuit_breaker(hands.store, hands.cluster, hands.site, now)
    if terms.retries_refused:
        found = found._replace(refused={})
    elsewhere = terms.count_elsewhere([run.run for run in plan.runs]) if terms.count_elsewhere else {}
    return circuit_breaker.limit(plan, hands.site.caps, found, now, modes=terms.modes, elsewhere=elsewhere)


def list_enforced(plan: Plan, terms: ApplyOptions) -> list[RunPlan]:
    """Return the runs from which something is removed."""
    return [run for run in plan.runs if run.mode in terms.modes and run.remove]


def _prepare(
    wanted: Collection[RunPlan], facts: PlanFacts, means: ApplyParts, guard: StartGuard, now: datetime
) -> str | None:
    """Recover interrupted operations, verify if needed and poll; return why nothing may be removed, or None."""
    hands, parts = means.hands, means.observer.parts
    passed = means.read_passed()
    if doubt := means.clock.find_doubt(parts.read_clock, hands.site.guards, now + passed, means.elapsed + passed):
        return f"the clock cannot be trusted: {doubt}"
    unknown = {run.run for run in wanted} - means.recovered.runs
    means.recovered.runs |= unknown - recover_runs(hands, unknown, now)
    means.turns.renew_verdicts(parts, hands, facts, wanted, now)
    return guard.poll({run.run.uid for run in wanted}, now)


def _find_skip_reasons(
    wanted: Collection[RunPlan], facts: PlanFacts, scans: Scans, recovered: RecoveredRuns, now: datetime
) -> dict[RunKey, str]:
    """Return the runs with too little current data to remove anything, with the reason."""
    skip_reasons: dict[RunKey, str] = {}
    for run in wanted:
        scan, policy = scans.get(run.run), facts.choices[run.run].policy
        if run.run not in recovered.runs:
            skip_reasons[run.run] = ANOTHER_ACT
        elif not isinstance(scan, Scan):
            skip_reasons[run.run] = scan.reason if scan else NOT_SCANNED
        elif policy is None or find_stale(run, policy, now):
            skip_reasons[run.run] = NOT_VERIFIED
        elif list_reported(run):
            skip_reasons[run.run] = REPORTED
    return skip_reasons


def _remove(applied: ApplyResult, means: ApplyParts, terms: ApplyOptions, seen: _Observation, now: datetime) -> None:
    """Carry out the removals of each run, and put back what a job that started meanwhile may need.

    If a removal gets no answer, stop that user's removals, because the user may have ended the child. If this happens
    for several users on one file system, stop all removals there.
    """
    silence = _UnansweredRequests()
    for run in list_enforced(applied.limited, terms):
        stopped = STOP if means.hands.should_stop() else None
        doubt = seen.skip_reasons.get(run.run) or silence.find_reason(run)
        if doubt is None and means.hands.silent.is_left_out(run.run.uid, now):
            doubt = SILENT_USER
        why = doubt or stopped or seen.guard.find_reason(run.run, now)
        if why:
            applied.left[run.run] = why
            log.info("prune skipped %s: %s", ascii(run.run.directory), ascii(why))
            continue
        if not applied.removals and applied.plan.plan_id != terms.planned:
            _record_plan(means.hands, applied.limited, terms, now)
        scan = seen.scans[run.run]
        assert isinstance(scan, Scan)
        actor = terms.actor or f"policy {run.policy}"
        removal = applied.removals[run.run] = Removal(means.hands, run, applied.plan.plan_id, scan.markers, actor)
        if not removal.move_all(now):
            means.recovered.doubt(run.run, now)
            silence.add(run)
    applied.is_stopped = means.hands.should_stop()
    _put_back_needed(means, applied, seen, now)
    _log_removals(applied)


@dataclass(slots=True)
class _UnansweredRequests:
    """The users and file systems whose removals got no answer."""

    users: set[int] = field(default_factory=set)
    by_device: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def find_reason(self, run: RunPlan) -> str | None:
        """Return why a run is skipped; None if it is not."""
        if run.run.uid in self.users:
            return SILENT_USER
        is_silent = any(len(self.by_device.get(device, ())) >= owner_turns.MAX_SILENT for device in _list_devices(run))
        return SILENT_DISK if is_silent else None

    def add(self, run: RunPlan) -> None:
        """Note that the outcome of an operation on this run is unknown."""
        self.users.add(run.run.uid)
        for device in _list_devices(run):
            self.by_device[device].add(run.run.uid)


def _list_devices(run: RunPlan) -> set[int]:
    return {each.record.checkpoint.identities[0].device for each in run.remove}


def _put_back_needed(means: ApplyParts, applied: ApplyResult, seen: _Observation, now: datetime) -> None:
    """Poll once more, and put back what a job may need that started or was submitted before the move.

    Scripts and paths of the jobs that were submitted meanwhile are read, because they may name what was moved.
    """
    moved = {run: removal for run, removal in applied.removals.items() if removal.is_any_moved}
    if not moved:
        return
    seen.guard.poll({run.uid for run in moved}, now)
    plans = [run for run in applied.limited.runs if run.run in moved]
    means.observer.read_names(plans, ReferenceSources(), now)
    facts = replace(
        seen.facts,
        named=means.observer.update(
            planning.read_named(means.hands.store, means.hands.cluster, {run.uid for run in moved})
        ),
    )
    for run in plans:
        why = seen.guard.find_reason(run.run, now) or planning.find_named(facts, run, now)
        if why and not moved[run.run].put_back(why, now):
            means.recovered.doubt(run.run, now)


def _log_removals(applied: ApplyResult) -> None:
    for run, removal in applied.removals.items():
        for outcome in removal.outcomes:
            if isinstance(outcome, Unknown) or outcome.result is not TrashResult.MOVED:
                log.warning("removal failed in %s: %s", ascii(run.directory), ascii(outcome.reason))
    if moved := applied.moved:
        log.info("moved to the trash: %d checkpoints, %d bytes", len(moved), sum(each.size_bytes for each in moved))


def _record_plan(hands: PruneParts, plan: Plan, terms: ApplyOptions, now: datetime) -> None:
    """Log what will be removed, and from how many runs."""
    runs = list_enforced(plan, terms)
    hands.store.audit.record(
        AuditEntry(
            cluster=hands.cluster,
            actor=terms.actor or "ckptd",
            action=audit_entries.PLAN,
            target=f"{len(runs)} runs",
            plan_id=plan.plan_id,
            details={
                "remove": sum(len(run.remove) for run in runs),
                "remove_bytes": sum(run.remove_bytes for run in runs),
            },
            begun_at=now,
            finished_at=now,
            outcome="planned",
        )
    )
