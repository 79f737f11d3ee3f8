"""Bounds how much one cycle removes, and stops altogether when removals go wrong: the second step over a plan."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from ckptd.core.retention.policy import Mode
from ckptd.core.retention.results import Decision, Plan, RunPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """How many checkpoints one cycle may remove, and how many failures it takes to stop."""

    cycle_count: int = 500
    user_count: int = 100
    filesystem_count: int = 250
    filesystem_share: float = 0.2  # of the checkpoints on it; one whole save may always go
    error_count: int = 3
    error_window: timedelta = timedelta(hours=6)


class Removal(NamedTuple):
    """One removal that was tried, as the audit table tells it."""

    at: datetime
    is_error: bool  # it failed, or what it found was not what was planned


def check_brake(recent: Iterable[Removal], caps: Caps, now: datetime) -> str | None:
    """Return why nothing may be removed for now, or None."""
    since = now - caps.error_window
    tried = [removal for removal in recent if removal.at >= since]
    failed = sum(removal.is_error for removal in tried)
    if failed < caps.error_count:
        return None
    return f"the error brake holds: {failed} of the last {len(tried)} removals failed"


def limit(
    plan: Plan,
    caps: Caps,
    recent: Sequence[Removal],
    now: datetime,
    *,
    modes: frozenset[Mode] = frozenset({Mode.ENFORCE}),
    elsewhere: Mapping[int, int] = MappingProxyType({}),
) -> Plan:
    """Return the plan with what is over a cap kept for now, oldest saves going first; the plan keeps its id.

    `elsewhere` tells how many checkpoints runs that are no part of the plan have, by file system (device). Runs whose
    mode is not among `modes` are as they were and use up nothing. Parts of one save wait together.
    """
    if reason := check_brake(recent, caps, now):
        return replace(plan, runs=tuple(_defer(run, frozenset(_saves(run)), reason) for run in plan.runs))
    room = _Room(plan, caps, elsewhere)
    runs = (_limit_run(run, room) if run.mode in modes else run for run in plan.runs)
    return replace(plan, runs=tuple(runs))


class _Room:
    """What is left of each cap as runs take from it."""

    def __init__(self, plan: Plan, caps: Caps, elsewhere: Mapping[int, int]) -> None:
        self._caps = caps
        self._cycle = 0
        self._users: Counter[int] = Counter()
        self._filesystems: Counter[int] = Counter()
        self._there: Counter[int] = Counter(elsewhere)
        self._there.update(
            _device(decision) for run in plan.runs for decision in run.decisions if decision.record.checkpoint.files
        )

    def take(self, uid: int, parts: Sequence[Decision]) -> str | None:
        """Take one save's parts out of every cap, or return which cap has no room for them."""
        count = len(parts)
        device = _device(parts[0])
        share = int(self._caps.filesystem_share * self._there[device])
        used = self._filesystems[device]
        if self._cycle + count > self._caps.cycle_count:
            return f"the cap of {self._caps.cycle_count} removals in one cycle"
        if self._users[uid] + count > self._caps.user_count:
            return f"the cap of {self._caps.user_count} removals per user in one cycle"
        if used + count > self._caps.filesystem_count:
            return f"the cap of {self._caps.filesystem_count} removals per file system in one cycle"
        if used and used + count > share:
            return f"the cap of {self._caps.filesystem_share:.0%} of a file system's checkpoints in one cycle"
        self._cycle += count
        self._users[uid] += count
        self._filesystems[device] += count
        return None


def _limit_run(run: RunPlan, room: _Room) -> RunPlan:
    for save, parts in groupby(run.remove, key=lambda decision: decision.save):
        if reason := room.take(run.run.uid, list(parts)):
            later = frozenset(other for other in _saves(run) if other >= save)
            return _defer(run, later, f"{reason} is reached")
    return run


def _saves(run: RunPlan) -> set[int]:
    return {decision.save for decision in run.remove}


def _defer(run: RunPlan, saves: frozenset[int], reason: str) -> RunPlan:
    told = (f"may go, but waits: {reason}",)
    return replace(
        run,
        decisions=tuple(
            decision
            if decision.is_kept or decision.save not in saves
            else decision._replace(is_kept=True, reasons=told)
            for decision in run.decisions
        ),
    )


def _device(decision: Decision) -> int:
    return decision.record.checkpoint.identities[0].device
