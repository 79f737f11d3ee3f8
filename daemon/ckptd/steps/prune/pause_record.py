"""Records that removals are paused because of the clock, so that commands can show it."""

from datetime import datetime

from ckptd.core.model.records import PAUSE, AuditEntry
from ckptd.steps.prune import audit_entries
from ckptd.store.store import Store

OVER = "over"


def record(store: Store, cluster: str, reason: str | None, now: datetime) -> None:
    """Record once that removals are paused for this reason; None: that they continue."""
    paused = read_open(store, cluster)
    if reason and not paused:
        store.audit.record(
            AuditEntry(
                cluster=cluster,
                actor="ckptd",
                action=PAUSE,
                target="retention",
                reasons=(reason,),
                begun_at=now,
            )
        )
    for entry in () if reason else paused:
        assert entry.audit_id is not None
        store.audit.finish(entry.audit_id, OVER, now)


def read_reason(store: Store, cluster: str) -> str | None:
    """Return why the daemon has paused removals; None if it has not."""
    return next((reason for entry in read_open(store, cluster) for reason in entry.reasons), None)


def read_open(store: Store, cluster: str) -> list[AuditEntry]:
    """Return the pauses that have not ended."""
    unfinished = store.audit.list_newest(cluster, unfinished_only=True, limit=audit_entries.LIMIT)
    return [entry for entry in unfinished if entry.action == PAUSE]
