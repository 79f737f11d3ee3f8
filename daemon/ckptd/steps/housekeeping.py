"""Records the daemon's heartbeat and what its steps in users' jobs cost, and counts the waiting mail."""

from datetime import datetime

from ckptd.steps.parts import Parts
from ckptd.steps.results import StepResult
from ckptd.steps.snapshots import NodeScanTotals
from ckptd.steps.state import State


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Record a heartbeat if this is a daemon, and publish the counts of the outbox."""
    if parts.runner.identity is not None:
        cost = state.latest(NodeScanTotals).cost
        parts.store.clusters.record_heartbeat(parts.cluster, parts.runner.identity, now, cost)
    state.publish(parts.store.outbox.read_waiting(parts.cluster, now))
    return StepResult()
