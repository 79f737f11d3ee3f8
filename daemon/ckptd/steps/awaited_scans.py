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
LONGEST_WAIT = timedelta(minutes=10)  # then rules say what they can without the scan


@dataclass(slots=True)
class AwaitedScans:
    """Remembers which of the runs that wait for a scan have none on record: after a restart, most of them have one."""

    is_awaiting: bool = True
    since: dict[RunKey, datetime] = field(default_factory=dict)  # when each run that waits was first asked about
    never_scanned: set[RunKey] = field(default_factory=set)

    def find(self, parts: Parts, state: State, evaluated: Container[RunKey], now: datetime) -> frozenset[RunKey]:
        """Return the runs that were neither scanned nor evaluated and do not wait for too long, if they are many."""
        waiting = {each.key for each in state.watchlist.all if each.last is None and each.key not in evaluated}
        if not self.is_awaiting or len(waiting) <= MANY:
            return frozenset()
        asked = self.since.keys()
        new = [key for key in waiting - asked if not is_on_nodes(key.directory, parts.node_scans.directories)]
        if new:
            self.never_scanned |= parts.store.runs.list_never_scanned(new)
        self.since = {key: self.since.get(key, now) for key in waiting}
        self.never_scanned &= waiting
        found = frozenset(key for key in self.never_scanned if abs(now - self.since[key]) < LONGEST_WAIT)
        return found if len(found) > MANY else frozenset()
