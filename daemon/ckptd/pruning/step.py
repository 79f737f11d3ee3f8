"""The daemon's act: settle, delete what was held long enough, look again at what may go, plan, move aside."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd import cycle
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.pruned import Going, Pruned
from ckptd.core.retention import Mode, RunPlan
from ckptd.cycle import Parts, State
from ckptd.pruning import brake, enforcing, pause, planning
from ckptd.pruning.arrivals import Arrivals, Poll
from ckptd.pruning.brake import Brake
from ckptd.pruning.clock import Clock
from ckptd.pruning.holding import Emptied, Trash, empty_due
from ckptd.pruning.hopes import Hopes
from ckptd.pruning.looking import Turns
from ckptd.pruning.settle import Hands
from ckptd.pruning.settling import Settled
from ckptd.pruning.site import Site
from ckptd.pruning.tally import Tally
from ckptd.store.store import Store

log = logging.getLogger("ckptd.pruning")


@dataclass(slots=True)
class Memory:
    """What is carried from one step to the next."""

    settled: Settled = field(default_factory=Settled)
    hopes: Hopes = field(default_factory=Hopes)
    turns: Turns = field(default_factory=Turns)
    trash: Trash = field(default_factory=Trash)
    tally: Tally = field(default_factory=Tally)
    clock: Clock = field(default_factory=Clock)
    planned: str | None = None
    pruned: Pruned = field(default_factory=Pruned)  # for metrics, as of the last step


@dataclass(frozen=True, slots=True)
class Result:
    """What one step did."""

    moved_count: int = 0
    moved_bytes: int = 0
    deleted_count: int = 0
    failed_count: int = 0


def act(  # noqa: PLR0913, PLR0917 - what the schedule gives every step of it
    parts: Parts, state: State, site: Site, memory: Memory, now: datetime, elapsed: timedelta, poll: Poll
) -> Result:
    """Do one step. `elapsed` is the time by a clock that cannot be set; `poll` reads the queue and records it.

    The queue is read at most twice: where something may go, and again once something was moved.
    """
    if not site.matches:
        return Result()
    hands = Hands(parts.store, parts.agent, site, parts.cluster)
    changed = memory.tally.read(parts.store, parts.cluster, now)
    doubt = memory.clock.find_doubt(parts.read_clock, site.guards, now, elapsed)
    pause.record(parts.store, parts.cluster, doubt, now)
    if doubt:
        _sum_up(hands, memory, {}, now, is_clock_doubted=True)
        return Result()
    memory.settled.list_again(hands, memory.trash, changed, now)
    memory.settled.settle(hands, memory.trash, now)
    may_delete = memory.clock.may_delete(elapsed)
    emptied = empty_due(hands, memory.trash, memory.settled.runs, now) if may_delete else Emptied()
    for run in emptied.silent:
        memory.settled.doubt(run, now)
    going: dict[str, Going] = {}
    arrivals = Arrivals(parts, state, poll, site.guards.restart_grace)
    moved = _prune(hands, memory, arrivals, now, going)
    _sum_up(hands, memory, going, now)
    return replace(moved, deleted_count=emptied.deleted_count)


def _prune(hands: Hands, memory: Memory, arrivals: Arrivals, now: datetime, going: dict[str, Going]) -> Result:
    parts, state = arrivals.parts, arrivals.state
    revisions = parts.store.read_revisions(parts.cluster)
    due = memory.hopes.list_due(revisions, hands.site, now)
    facts = planning.read_facts(parts.store, parts.cluster, hands.site, due)
    hopeful = planning.plan_if_fresh(facts, now).runs
    memory.hopes.note(hopeful, revisions, now)
    for mode in planning.ACTIVE_MODES:
        of_mode = [run for run in hopeful if run.mode is mode]
        going[mode.value] = Going(sum(len(run.remove) for run in of_mode), sum(run.remove_bytes for run in of_mode))
    found = planning.check_brake(parts.store, parts.cluster, hands.site, now)
    tried = (brake.skip_refused(run, found.refused) for run in hopeful)
    wanted = [run for run in tried if run.remove and _may_be_pruned(run, memory, found)]
    memory.turns.verify(parts, facts, wanted, hands.site, now)
    looks = memory.turns.choose(facts, wanted, now)
    enforced = {run.run.uid for run in wanted if run.mode is Mode.ENFORCE and run.run in looks}
    is_queue_read = bool(enforced) and arrivals.look(enforced, now)
    scans = cycle.look_again(parts, state, tuple(looks), frozenset().union(*looks.values()), now)
    if not is_queue_read:
        return Result()
    return _enforce(hands, memory, arrivals, Looked(found, scans), now, going)


class Looked(NamedTuple):
    """What was seen just before anything goes."""

    brake: Brake
    scans: Mapping[RunKey, Scan | Unknown]


def _enforce(
    hands: Hands, memory: Memory, arrivals: Arrivals, looked: Looked, now: datetime, going: dict[str, Going]
) -> Result:
    """Plan what was looked at once more, by what was seen, and carry that out within the limits."""
    facts = planning.read_facts(hands.store, hands.cluster, hands.site, list(looked.scans))
    arrivals.note_facts(facts)
    made = planning.plan(facts, now, looked.scans)
    elsewhere = memory.hopes.count_elsewhere(looked.scans)
    modes = frozenset({Mode.ENFORCE})
    limited = brake.limit(made, hands.site.caps, looked.brake, now, modes=modes, elsewhere=elsewhere)
    if enforcing.list_enforced(limited) and memory.planned != limited.plan_id:
        memory.planned = limited.plan_id
        enforcing.record_plan(hands, limited, now)
    carried = enforcing.carry_out(hands, memory.settled, limited, looked.scans, arrivals, now)
    memory.trash.read(hands, [run for run in carried.runs if run in memory.settled.runs])
    with arrivals.state.lock:
        arrivals.state.watchlist.hasten(carried.runs, now)
    left = going[Mode.ENFORCE.value]
    going[Mode.ENFORCE.value] = Going(left.count - carried.moved_count, left.size_bytes - carried.moved_bytes)
    return Result(carried.moved_count, carried.moved_bytes, 0, carried.failed_count)


def _may_be_pruned(run: RunPlan, memory: Memory, found: Brake) -> bool:
    """Whether a closer look at a run is worth it: at one that is only shown it is, so that the truth is shown."""
    if run.mode is Mode.ENFORCE:
        return run.run in memory.settled.runs and run.run.uid not in found.users and found.everyone is None
    return run.mode in planning.ACTIVE_MODES


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
        doubtful_run_count=len(memory.settled.doubts),
        stepped_at=now,
    )


def recall(store: Store, cluster: str) -> Memory:
    """Return the memory of a daemon that starts, to be read before it leaves any sign of life of its own."""
    known = [status for status in store.read_status() if status.cluster == cluster]
    signs = [at for status in known for at in (status.polled_at, status.heartbeat_at) if at is not None]
    return Memory(clock=Clock(recorded_at=max(signs, default=None)))
