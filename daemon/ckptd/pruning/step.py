"""The daemon's act: settle, delete what was held long enough, look again at what may go, plan, move aside."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd import cycle
from ckptd.checkpoints import disposal
from ckptd.core import progress, retention
from ckptd.core.model import Level, RunKey, Scan, Unknown
from ckptd.core.pruned import Going, Pruned
from ckptd.core.record import AuditEntry
from ckptd.core.retention import Mode, Plan, RunPlan
from ckptd.cycle import Parts, State
from ckptd.pruning import acts, brake, planning
from ckptd.pruning.holding import Trash, empty_due
from ckptd.pruning.planning import Facts
from ckptd.pruning.removal import Removal
from ckptd.pruning.settle import Hands, settle
from ckptd.pruning.site import Site
from ckptd.pruning.tally import Tally

MAX_LOOKS = 400  # directories of one step
MAX_VERIFIED = 20  # runs of one step whose newest checkpoint is read whole

log = logging.getLogger("ckptd.pruning")


@dataclass(slots=True)
class Memory:
    """What is carried from one step to the next."""

    settled: set[RunKey] = field(default_factory=set)  # nothing of theirs is cut off
    doubtful: set[RunKey] = field(default_factory=set)  # it is not known what an act on them came to
    trash: Trash = field(default_factory=Trash)
    tally: Tally = field(default_factory=Tally)
    stepped_at: datetime | None = None
    stepped_on: timedelta | None = None  # by a clock that cannot be set
    distrusted_until: timedelta | None = None  # by that clock
    planned: str | None = None
    pruned: Pruned = field(default_factory=Pruned)  # for metrics, as of the last step


@dataclass(frozen=True, slots=True)
class Result:
    """What one step did."""

    moved_count: int = 0
    moved_bytes: int = 0
    deleted_count: int = 0
    failed_count: int = 0


def act(parts: Parts, state: State, site: Site, memory: Memory, now: datetime, elapsed: timedelta) -> Result:
    """Do one step. `elapsed` is the time by a clock that cannot be set."""
    if not site.matches:
        return Result()
    hands = Hands(parts.store, parts.agent, site, parts.cluster)
    memory.trash.read(hands, sorted(memory.tally.read(parts.store, parts.cluster, now) | memory.trash.stale()))
    if not _is_clock_trusted(site, memory, now, elapsed):
        _sum_up(hands, memory, {}, now, is_clock_doubted=True)
        return Result()
    _settle(hands, memory, now)
    deleted = empty_due(hands, memory.trash, now)
    going: dict[str, Going] = {}
    moved = _prune(parts, state, site, memory, now, going)
    _sum_up(hands, memory, going, now)
    return replace(moved, deleted_count=deleted)


def _prune(parts: Parts, state: State, site: Site, memory: Memory, now: datetime, going: dict[str, Going]) -> Result:
    hands = Hands(parts.store, parts.agent, site, parts.cluster)
    facts = planning.read_facts(parts.store, parts.cluster, site)
    hopeful = planning.plan_if_fresh(facts, now)
    wanted = [run for run in hopeful.runs if run.remove and run.mode in planning.ACTIVE_MODES]
    for mode in planning.ACTIVE_MODES:
        of_mode = [run for run in wanted if run.mode is mode]
        going[mode.value] = Going(sum(len(run.remove) for run in of_mode), sum(run.remove_bytes for run in of_mode))
    if not wanted:
        return Result()
    _verify(parts, facts, wanted, site, now)
    looks = _plan_looks(facts, wanted, now)
    reread = frozenset().union(*looks.values())
    scans = cycle.look_again(parts, state, tuple(looks), reread, now)
    facts = planning.read_facts(parts.store, parts.cluster, site)
    made = planning.plan(facts, now, scans)
    found = planning.check_brake(parts.store, parts.cluster, site, now)
    limited = brake.limit(made, site.caps, found, now, modes=frozenset({Mode.ENFORCE}))
    moved = _carry_out(hands, state, memory, limited, scans, now)
    left = going[Mode.ENFORCE.value]
    going[Mode.ENFORCE.value] = Going(left.count - moved.moved_count, left.size_bytes - moved.moved_bytes)
    return moved


def _sum_up(
    hands: Hands, memory: Memory, going: Mapping[str, Going], now: datetime, *, is_clock_doubted: bool = False
) -> None:
    memory.tally.read(hands.store, hands.cluster, now)
    found = planning.check_brake(hands.store, hands.cluster, hands.site, now)
    memory.pruned = Pruned(
        acts=dict(memory.tally.acts),
        act_bytes=dict(memory.tally.act_bytes),
        held=memory.trash.sum_up(hands.site.hold, now),
        going=going or memory.pruned.going,
        is_braked=found.everyone is not None,
        braked_user_count=len(found.users),
        is_clock_doubted=is_clock_doubted,
        doubtful_run_count=len(memory.doubtful),
        stepped_at=now,
    )


def _is_clock_trusted(site: Site, memory: Memory, now: datetime, elapsed: timedelta) -> bool:
    """Whether the clock went on as it should; after a jump nothing is done for as long as old looks are believed."""
    passed = None if memory.stepped_on is None else elapsed - memory.stepped_on
    reason = retention.check_clock(memory.stepped_at, passed, now, site.guards.clock_tolerance)
    memory.stepped_at, memory.stepped_on = now, elapsed
    if reason:
        memory.distrusted_until = elapsed + site.guards.stale_after
        log.error("nothing is removed for %s: %s", site.guards.stale_after, reason)
    return memory.distrusted_until is None or elapsed >= memory.distrusted_until


def _settle(hands: Hands, memory: Memory, now: datetime) -> None:
    """Mend every trash once, and again that of each run with an act whose end is not known."""
    known = {key for key in hands.store.list_run_keys() if key.cluster == hands.cluster}
    fresh = known - memory.settled
    unfinished = hands.store.read_audit(hands.cluster, unfinished_only=True, limit=100_000)
    fresh |= {entry.run for entry in unfinished if entry.action in acts.ON_TRASH and entry.run in known and entry.run}
    if not fresh:
        return
    doubtful = settle(hands, sorted(fresh), now)
    for run in sorted(doubtful):
        log.warning("it is not known what an act on %s came to: nothing is removed there", ascii(run.directory))
    memory.settled = (memory.settled | fresh) - doubtful
    memory.doubtful = doubtful
    memory.trash.read(hands, sorted(fresh - doubtful))


def _verify(parts: Parts, facts: Facts, wanted: list[RunPlan], site: Site, now: datetime) -> None:
    """Read every byte of the newest checkpoints where the policy asks for that and it was not done."""
    count = 0
    for run in wanted:
        policy = facts.choices[run.run].policy
        if policy is None or policy.verify is not Level.FULL:
            continue
        todo = [
            each.record
            for each in run.decisions
            if retention.NEWEST in each.reasons and not retention.is_verified_full(each.record)
        ]
        if not todo or count == MAX_VERIFIED:
            continue
        count += 1
        asked = [record.checkpoint for record in todo]
        found = disposal.verify(parts.agent, run.run, asked, parts.limits, now, site.verify_deadline)
        if isinstance(found, Unknown):
            log.warning("the newest of %s could not be verified: %s", ascii(run.run.directory), found.reason)
        else:
            changes = progress.merge_verified(parts.store.read_recorded(run.run), found, now)
            parts.store.record_changes(run.run, changes)


def _plan_looks(facts: Facts, wanted: list[RunPlan], now: datetime) -> Mapping[RunKey, frozenset[str]]:
    """Choose the directories to look at: all that enforce, others whose last look grows old; the newest are reread."""
    histories = {run.history.key: run.history for run in facts.runs}
    looks: dict[RunKey, frozenset[str]] = {}
    for run in sorted(wanted, key=lambda each: each.mode is not Mode.ENFORCE):
        scan, policy = histories[run.run].scan, facts.choices[run.run].policy
        is_old = not isinstance(scan, Scan) or (policy and scan.scanned_at < now - policy.guards.stale_after / 2)
        if (run.mode is Mode.ENFORCE or is_old) and len(looks) < MAX_LOOKS:
            newest = (each.path for each in run.decisions if retention.NEWEST in each.reasons)
            looks[run.run] = frozenset(newest)
    return looks


def _carry_out(
    hands: Hands, state: State, memory: Memory, plan: Plan, scans: Mapping[RunKey, Scan | Unknown], now: datetime
) -> Result:
    enforced = [run for run in plan.runs if run.mode is Mode.ENFORCE and run.remove and run.run in memory.settled]
    if enforced and memory.planned != plan.plan_id:
        memory.planned = plan.plan_id
        _record_plan(hands, plan, enforced, now)
    count = size_bytes = failed = 0
    touched: list[RunKey] = []
    for run in enforced:
        scan = scans.get(run.run)
        if not isinstance(scan, Scan):
            continue  # it was not among the directories that were looked at just now
        removal = Removal(hands, run, plan.plan_id, scan.markers, f"policy {run.policy}")
        if not removal.carry_out(now):
            memory.settled.discard(run.run)
        for outcome in removal.outcomes:
            if isinstance(outcome, Unknown) or outcome.result.value != "moved":
                failed += 1
                log.warning("not removed in %s: %s", ascii(run.run.directory), ascii(outcome.reason))
            else:
                count += 1
                size_bytes += outcome.size_bytes
        touched.append(run.run)
        with state.lock:
            state.watchlist.hasten([run.run], now)
    if count:
        log.info("moved %d checkpoints of %d bytes to the trash", count, size_bytes)
    memory.trash.read(hands, touched)
    return Result(count, size_bytes, 0, failed)


def _record_plan(hands: Hands, plan: Plan, enforced: list[RunPlan], now: datetime) -> None:
    hands.store.append_audit(
        AuditEntry(
            cluster=hands.cluster,
            actor="ckptd",
            action=acts.PLAN,
            target=f"{len(enforced)} runs",
            plan_id=plan.plan_id,
            details={
                "remove": sum(len(run.remove) for run in enforced),
                "remove_bytes": sum(run.remove_bytes for run in enforced),
            },
            begun_at=now,
            finished_at=now,
            outcome="planned",
        )
    )
