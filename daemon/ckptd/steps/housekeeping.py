"""Records that the daemon is alive, and reads how much mail waits."""

from datetime import datetime

from ckptd.steps.parts import Parts
from ckptd.steps.results import StepResult
from ckptd.steps.state import State


def run(parts: Parts, state: State, now: datetime) -> StepResult:
    """Record a heartbeat where this is a daemon, and publish how full the outbox is."""
    if parts.runner.identity is not None:
        parts.store.clusters.record_heartbeat(parts.cluster, parts.runner.identity, now)
    state.publish(parts.store.outbox.read_waiting(parts.cluster, now))
    return StepResult()
