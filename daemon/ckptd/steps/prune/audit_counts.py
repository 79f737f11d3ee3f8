"""Counts operations on checkpoints for metrics from the audit table, which has those of the daemon and of commands."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.core.fleet.prune_totals import DONE, FailureCause, PruneAction, PruneTotals
from ckptd.core.model import RunKey
from ckptd.core.model.records import AuditEntry
from ckptd.steps.prune import audit_entries as acts
from ckptd.store.store import Store

OVERLAP = timedelta(minutes=30)  # an act that takes longer from its intent to its outcome is not counted
LIMIT = 50_000  # acts of one step

_CAUSES = frozenset(cause.value for cause in FailureCause)


@dataclass(slots=True)
class AuditCounts:
    """The operations that ended since the audit table was first read."""

    operations: Counter[PruneAction] = field(default_factory=lambda: Counter(PruneTotals().operations))
    operation_bytes: Counter[str] = field(default_factory=lambda: Counter(PruneTotals().operation_bytes))
    _since: datetime | None = None
    _seen: set[int] = field(default_factory=set)
    _read_at: datetime | None = None

    def read(self, store: Store, cluster: str, now: datetime) -> set[RunKey]:
        """Count what ended since the last call; return the runs whose trash commands may have changed."""
        if self._since is None or self._read_at is None:
            self._since = self._read_at = now
        recent = store.audit.list_newest(cluster, begun_since=self._read_at - OVERLAP, limit=LIMIT)
        ended = {entry.audit_id: entry for entry in recent if _is_ended_act(entry, self._since)}
        touched = set()
        for audit_id, entry in ended.items():
            if audit_id is not None and audit_id not in self._seen:
                self._count(entry)
                if entry.run is not None and entry.actor.startswith(acts.PERSON):
                    touched.add(entry.run)
        self._seen = {audit_id for audit_id in ended if audit_id is not None}
        self._read_at = now
        return touched

    def _count(self, entry: AuditEntry) -> None:
        result = (entry.outcome or "").partition(":")[0]
        is_done = DONE[entry.action] == result
        cause = "" if is_done else str(entry.details.get("cause"))
        self.operations[
            PruneAction(entry.action, result, cause if is_done or cause in _CAUSES else FailureCause.OTHER)
        ] += 1
        size_bytes = entry.details.get("size_bytes")
        if is_done and isinstance(size_bytes, int):
            self.operation_bytes[entry.action] += size_bytes


def _is_ended_act(entry: AuditEntry, since: datetime) -> bool:
    return entry.action in acts.ON_TRASH and entry.finished_at is not None and entry.finished_at >= since
