"""Limits the removals of one cycle, and stops removals after failures. Applied to a finished plan."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from ckptd.core.retention.plan import Decision, Plan, RunPlan
from ckptd.core.retention.policy import PolicyMode


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """How many checkpoints one cycle may remove, and how many failures it takes to stop."""

    cycle_count: int = 500
    user_count: int = 100
    filesystem_count: int = 250
    filesystem_share: float = 0.2  # of the checkpoints on it; one may always go
    user_files: int = 100_000  # member files of one user's checkpoints; one checkpoint may always go
    error_count: int = 3
    error_window: timedelta = timedelta(hours=6)


class RemovalAttempt(NamedTuple):
    """One attempted removal from the audit table."""

    at: datetime
    is_error: bool  # it failed, or what it found was not what was planned


def check_circuit_breaker(recent: Iterable[RemovalAttempt], caps: Caps, now: datetime) -> str | None:
    """Return why nothing may be removed for now, or None."""
    since = now - caps.error_window
    tried = [removal for removal in recent if removal.at >= since]
    failed = sum(removal.is_error for removal in tried)
    if failed < caps.error_count:
        return None
    return f"the circuit breaker stopped removals: {failed} of the last {len(tried)} failed"


def limit(
    plan: Plan,
    caps: Caps,
    recent: Sequence[RemovalAttempt],
    now: datetime,
    *,
    modes: frozenset[PolicyMode] = frozenset({PolicyMode.ENFORCE}),
    elsewhere: Mapping[int, int] = MappingProxyType({}),
) -> Plan:
    """Return the plan in which removals above a cap are deferred, the oldest ones first; its id does not change.

    `elsewhere` is the number of checkpoints of runs outside the plan, by file system (device). Runs whose mode is not
    in `modes` do not change and use no cap.
    """
    if reason := check_circuit_breaker(recent, caps, now):
        return replace(plan, runs=tuple(defer_all(run, reason) for run in plan.runs))
    room = _CapsLeft(plan, caps, elsewhere)
    runs = (_limit_run(run, room) if run.mode in modes else run for run in plan.runs)
    return replace(plan, runs=tuple(runs))


class _CapsLeft:
    """The rest of each cap."""

    def __init__(self, plan: Plan, caps: Caps, elsewhere: Mapping[int, int]) -> None:
        self._caps = caps
        self._cycle = 0
        self._users: Counter[int] = Counter()
        self._user_files: Counter[int] = Counter()
        self._filesystems: Counter[int] = Counter()
        self._there: Counter[int] = Counter(elsewhere)
        self._there.update(
            _device(decision) for run in plan.runs for decision in run.decisions if decision.record.checkpoint.files
        )

    def take(self, uid: int, decision: Decision) -> str | None:
        """Take one checkpoint out of every cap, or return which cap is reached."""
        caps, device = self._caps, _device(decision)
        files = len(decision.record.checkpoint.files)
        used, used_files = self._filesystems[device], self._user_files[uid]
        if self._cycle + 1 > caps.cycle_count:
            return f"the cap of {caps.cycle_count} removals in one cycle"
        if self._users[uid] + 1 > caps.user_count:
            return f"the cap of {caps.user_count} removals per user in one cycle"
        if used_files and used_files + files > caps.user_files:
            return f"the cap of {caps.user_files} files per user in one cycle"
        if used + 1 > caps.filesystem_count:
            return f"the cap of {caps.filesystem_count} removals per file system in one cycle"
        if used and used + 1 > int(caps.filesystem_share * self._there[device]):
            return f"the cap of {caps.filesystem_share:.0%} of a file system's checkpoints in one cycle"
        self._cycle += 1
        self._users[uid] += 1
        self._user_files[uid] += files
        self._filesystems[device] += 1
        return None


def _limit_run(run: RunPlan, room: _CapsLeft) -> RunPlan:
    going = run.remove
    for index, decision in enumerate(going):
        if reason := room.take(run.run.uid, decision):
            return defer(run, {each.path: f"{reason} is reached" for each in going[index:]})
    return run


def defer_all(run: RunPlan, reason: str) -> RunPlan:
    """Return the plan of a run in which all removals are deferred."""
    return defer(run, {each.path: reason for each in run.remove})


def defer(run: RunPlan, waiting: Mapping[str, str]) -> RunPlan:
    """Return the plan of a run in which the removals in `waiting` are deferred, with the reasons by path."""
    if not waiting:
        return run
    decisions = (
        decision
        if decision.is_kept or (why := waiting.get(decision.path)) is None
        else decision._replace(is_kept=True, reasons=(f"to be removed, but deferred: {why}",))
        for decision in run.decisions
    )
    return replace(run, decisions=tuple(decisions))


def _device(decision: Decision) -> int:
    return decision.record.checkpoint.identities[0].device
