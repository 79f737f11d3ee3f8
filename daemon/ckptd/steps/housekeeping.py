"""Records the daemon's heartbeat, and counts the waiting mail."""

from datetime import datetime

from ckptd.steps.parts import Parts
from ckptd.steps.results import StepResult
from ckptd.steps.state import State


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Record a heartbeat if this is a daemon, and publish the counts of the outbox."""
    if parts.runner.identity is not None:
        parts.store.clusters.record_heartbeat(parts.cluster, parts.runner.identity, now)
    state.publish(parts.store.outbox.read_waiting(parts.cluster, now))
    return StepResult()
