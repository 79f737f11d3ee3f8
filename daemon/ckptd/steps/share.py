"""Finds the runs that continue on another cluster with shared files, and for which of them this daemon acts.

It also records which directories this cluster declares to share. Until each daemon reads what the other has recorded,
both may take themselves for the acting one; each writes its own rows only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckptd.core.model import RunKey
from ckptd.steps.parts import Parts
from ckptd.steps.results import IDLE, StepResult
from ckptd.steps.snapshots import SharedRuns
from ckptd.steps.state import State
from ckptd.store.joined_runs import SharedRun

CLOCK_GAP = timedelta(minutes=10)  # between two comparisons of Slurm's clock with that of the database


@dataclass(slots=True)
class ShareSlice:
    """State of this step alone."""

    compared_at: datetime | None = None  # the clocks
    followed: Mapping[RunKey, SharedRun] | None = None  # as they were when they were last followed; None: never yet


def begin(parts: Parts, state: State, now: datetime) -> None:  # noqa: ARG001
    """Find these runs before any other step scans or judges them."""
    _find_runs(parts, state)


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Find these runs again, and follow the other parts of those where anything changed."""
    _record_clock(parts, state, now)
    return _find_runs(parts, state)


def _record_clock(parts: Parts, state: State, now: datetime) -> None:
    """Record Slurm's clock every few minutes: clusters whose clocks differ cannot tell which attempt started last."""
    memory = state.own(ShareSlice, ShareSlice)
    is_recent = memory.compared_at is not None and abs(now - memory.compared_at) < CLOCK_GAP
    if not parts.shared or parts.read_clock is None or is_recent:
        return
    at = parts.read_clock()
    if isinstance(at, datetime):
        parts.store.declared_shares.record_clock(parts.cluster, at)
        memory.compared_at = now


def _find_runs(parts: Parts, state: State) -> StepResult:
    parts.store.declared_shares.record(parts.cluster, parts.shared)
    memory = state.own(ShareSlice, ShareSlice)
    found = {each.key: each for each in parts.store.joined_runs.read(parts.cluster)} if parts.shared else {}
    followed = memory.followed or {}
    changed = [each for key, each in found.items() if _is_news(each, followed.get(key))]
    parted = [each for key, each in followed.items() if key not in found]
    if changed or parted:
        with state.recording():
            parts.store.joined_runs.follow(
                [each.row_id for each in changed if not each.is_elsewhere],
                [each.row_id for each in changed if each.is_elsewhere],
                [each.row_id for each in parted],
                is_first=memory.followed is None,
            )
        state.decision_due.set()
    memory.followed = found
    _publish(state, found.values())
    return StepResult(found_work=True) if changed or parted else IDLE


def _is_news(run: SharedRun, known: SharedRun | None) -> bool:
    return known is None or (run.acting, run.others) != (known.acting, known.others)


def _publish(state: State, runs: Iterable[SharedRun]) -> None:
    """Publish these runs, if anything about them changed; scan none for which another daemon acts."""
    shared = SharedRuns(
        elsewhere=frozenset(each.key for each in runs if each.is_elsewhere),
        writers={each.key: each.writers for each in runs if each.writers and not each.is_elsewhere},
    )
    if shared != state.latest(SharedRuns):
        state.publish(shared)
        state.watchlist.leave(shared.elsewhere)
        state.decision_due.set()
