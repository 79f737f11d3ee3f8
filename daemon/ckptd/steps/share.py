"""Records which directories this cluster declares to share with others."""

from datetime import datetime

from ckptd.steps.parts import Parts
from ckptd.steps.results import IDLE, StepResult
from ckptd.steps.state import State


def begin(parts: Parts, state: State, now: datetime) -> None:
    """Record what the configuration declares before any other step runs."""
    run(parts, state, now)


def run(parts: Parts, _state: State, _now: datetime) -> StepResult:
    """Record what the configuration declares, if the database has anything else."""
    parts.store.declared_shares.record(parts.cluster, parts.shared)
    return IDLE
