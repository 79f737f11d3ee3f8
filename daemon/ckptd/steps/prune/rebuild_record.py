"""Records the entries of trashes from their manifests, after a database was lost.

An entry counts as moved at the time in its manifest, so that its hold continues and no cap counts it as new. Entries
that are already recorded do not change.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.trash import EntryState, TrashEntry
from ckptd.core.model import RunKey
from ckptd.core.model.records import AuditEntry, LocationRecord
from ckptd.steps.prune import audit_entries
from ckptd.store.store import Store

LOCATED_BY = "trash"
OUTCOME = "moved: recorded from its manifest"
USER_LIMIT = 20_000  # entries of one user
OPEN_LIMIT = 50  # interrupted entries of one user: a kill leaves one


class RebuildResult(NamedTuple):
    """The entries, by result."""

    recorded: tuple[TrashEntry, ...] = ()
    known: tuple[TrashEntry, ...] = ()  # already recorded
    foreign: tuple[TrashEntry, ...] = ()  # of another cluster
    # recorded as open intents, which the daemon's next step completes or undoes
    unfinished: tuple[TrashEntry, ...] = ()
    left: tuple[TrashEntry, ...] = ()  # above the limit of a user


def record_entries(
    store: Store, cluster: str, entries: Iterable[TrashEntry], users: Mapping[int, str], actor: str, now: datetime
) -> RebuildResult:
    """Record the entries of these users' trashes, and their runs if they are new."""
    found: dict[str, list[TrashEntry]] = {name: [] for name in RebuildResult._fields}
    ours: list[tuple[RunKey, TrashEntry]] = []
    for entry in entries:
        if entry.run.cluster in {"", cluster}:
            ours.append((entry.run._replace(cluster=cluster), entry))
        else:
            found["foreign"].append(entry)
    runs = {run for run, _ in ours}
    _record_runs(store, runs, users, now)
    moved = store.audit.read_moved_bytes(list(runs))
    counts = Counter[tuple[int, bool]]()
    for run, entry in ours:
        is_whole = entry.state is EntryState.HELD
        counts[run.uid, is_whole] += 1
        if entry.act_id in moved.get(run, ()):
            found["known"].append(entry)
        elif counts[run.uid, is_whole] > (USER_LIMIT if is_whole else OPEN_LIMIT):
            found["left"].append(entry)
        else:
            store.audit.record(_describe(entry, run, actor, now))
            found["recorded" if is_whole else "unfinished"].append(entry)
    return RebuildResult(**{name: tuple(those) for name, those in found.items()})


def _record_runs(store: Store, runs: Collection[RunKey], users: Mapping[int, str], now: datetime) -> None:
    known = set(store.runs.list_keys())
    new = [
        LocationRecord(jobs=(), run=run, user=users.get(run.uid, str(run.uid)), located_by=LOCATED_BY)
        for run in sorted(runs)
        if run not in known
    ]
    if new:
        store.located_runs.record(new, now)


def _describe(entry: TrashEntry, run: RunKey, actor: str, now: datetime) -> AuditEntry:
    moved_at = min(entry.moved_at, now)
    is_whole = entry.state is EntryState.HELD
    return AuditEntry(
        cluster=run.cluster,
        actor=entry.origin.actor or actor,
        action=audit_entries.EMPTY if entry.state is EntryState.DELETING else audit_entries.PRUNE,
        target=entry.path,
        run=run,
        reasons=entry.reasons,
        details={
            "act_id": entry.act_id,
            "size_bytes": entry.size_bytes,
            "policy": entry.origin.policy or None,
            "recorded_by": actor,
            "recorded_at": now.isoformat(),
        },
        begun_at=moved_at,
        finished_at=moved_at if is_whole else None,
        outcome=OUTCOME if is_whole else None,
    )
