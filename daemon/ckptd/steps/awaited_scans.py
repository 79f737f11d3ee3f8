"""Runs that are not evaluated before their first scan, where so many wait for one that this would delay the scans.

Rules find little about a run that was never scanned, and are asked again when it was. Owned by the step `decide`.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.model import RunKey
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.steps.parts import Parts
from ckptd.steps.state import State

MANY = 1000  # fewer are evaluated at once
LONGEST_WAIT = timedelta(minutes=10)  # since the scan was due; then rules say what they can without it


@dataclass(slots=True)
class AwaitedScans:
    """Remembers which of the runs that wait for a scan have none on record: after a restart, most of them have one."""

    asked: set[RunKey] = field(default_factory=set)
    never_scanned: set[RunKey] = field(default_factory=set)

    def find(self, parts: Parts, state: State, evaluated: Container[RunKey], now: datetime) -> frozenset[RunKey]:
        """Return the runs that were neither scanned nor evaluated, and whose scan is due for not too long, if many."""
        waiting = {
            each.key
            for each in state.watchlist.all
            if each.last is None and abs(now - each.due_at) < LONGEST_WAIT and each.key not in evaluated
        }
        if len(waiting) <= MANY:
            return frozenset()
        new = [key for key in waiting - self.asked if not is_on_nodes(key.directory, parts.node_scans.directories)]
        if new:
            self.never_scanned |= parts.store.runs.list_never_scanned(new)
        self.asked = waiting
        self.never_scanned &= waiting
        return frozenset(self.never_scanned)
