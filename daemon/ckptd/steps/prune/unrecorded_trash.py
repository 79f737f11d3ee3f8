"""Deletes unrecorded entries of users' trashes after their hold: of another daemon, or forged by the owner.

The hold is that of the entry's manifest. A step processes a limited number of entries per user, and the audit table
gets one row for all deleted ones, so that thousands of forged entries delay nobody and do not fill the database.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashDeletion, TrashLocation, UnrecordedSearch
from ckptd.checkpoints.trash import NOTHING_LEFT, ReleaseRule, TrashOutcome, TrashResult, TurnLimits, UnrecordedEntries
from ckptd.core.model import RunKey, Unknown
from ckptd.core.model.records import AuditEntry
from ckptd.core.retention import PolicyMode
from ckptd.steps.prune import audit_entries
from ckptd.steps.prune.planning import read_facts
from ckptd.steps.prune.recovery import PruneParts
from ckptd.steps.prune.trash_retention import KnownTrash
from ckptd.store.store import Store

USER_TURN = TurnLimits(limit=100, seconds=2.0)  # names of one user in one step; no further one is begun after that time
USERS_LIMIT = 8  # users in one step, side by side
AGAIN = timedelta(hours=1)  # after a trash was gone through
MAX_NAMED = 10  # paths that the audit's row names


class _Visit(NamedTuple):
    """One user's turn: a trash, and the runs whose policies allow deletions in it."""

    place: TrashLocation
    runs: tuple[RunKey, ...]


@dataclass(slots=True)
class UnrecordedTrashSweeper:
    """How far each trash was processed, and whose turn is next."""

    reached: dict[TrashLocation, str] = field(default_factory=dict)
    swept_at: dict[TrashLocation, datetime] = field(default_factory=dict)  # when it was gone through to its end
    last_uid: int = -1

    def sweep(
        self, hands: PruneParts, trash: KnownTrash, settled: Collection[RunKey], now: datetime
    ) -> frozenset[RunKey]:
        """Process one turn of a trash of each of a few users; return the runs without an answer."""
        visits = self._choose(hands, trash, settled, now)
        if not visits:
            return frozenset()
        self.last_uid = visits[-1].place.uid
        release = ReleaseRule(now - hands.site.hold, now, clock_tolerance=hands.site.guards.clock_tolerance)
        known = _read_known(hands, visits)
        searches = [
            UnrecordedSearch(
                visit.place,
                sorted(known[visit.place.uid]),
                [run.directory for run in visit.runs],
                release,
                USER_TURN._replace(after=self.reached.get(visit.place, "")),
            )
            for visit in visits
        ]
        answers = trash_client.list_unrecorded(hands.agent, searches, hands.site.look_deadline)
        pairs = list(zip(visits, answers, strict=True))
        silent = {run for visit, found in pairs if isinstance(found, Unknown) for run in visit.runs}
        answered = {visit: found for visit, found in pairs if not isinstance(found, Unknown)}
        for visit, found in answered.items():
            self._record_sweep(visit.place, found, now)
        return frozenset(silent | _delete(hands, trash, answered, release, now))

    def _record_sweep(self, place: TrashLocation, found: UnrecordedEntries, now: datetime) -> None:
        self.reached.pop(place, None)
        if found.reached is None:
            self.swept_at[place] = now
        else:
            self.reached[place] = found.reached

    def _choose(self, hands: PruneParts, trash: KnownTrash, settled: Collection[RunKey], now: datetime) -> list[_Visit]:
        """Choose one trash with unrecorded entries of each of the next users."""
        strange = set(trash.list_strange())
        self.swept_at = {place: at for place, at in self.swept_at.items() if place in strange and now - at < AGAIN}
        self.reached = {place: name for place, name in self.reached.items() if place in strange}
        runs = _list_enforced(hands, settled, strange - set(self.swept_at))
        chosen: dict[int, TrashLocation] = {}
        for place in sorted(runs):
            chosen.setdefault(place.uid, place)
        users = sorted(chosen, key=lambda uid: (uid <= self.last_uid, uid))[:USERS_LIMIT]
        return [_Visit(chosen[uid], tuple(runs[chosen[uid]])) for uid in users]


def _list_enforced(
    hands: PruneParts, settled: Collection[RunKey], places: Collection[TrashLocation]
) -> dict[TrashLocation, list[RunKey]]:
    """Return the recovered runs of these trashes whose policies enforce."""
    if not places:
        return {}
    asked = [run for run in settled if not set(places).isdisjoint(trash_client.places_of([run]))]
    facts = read_facts(hands.store, hands.cluster, hands.site, asked)
    runs: dict[TrashLocation, list[RunKey]] = defaultdict(list)
    for known in facts.runs:
        policy = facts.choices[known.history.key].policy
        if policy is not None and policy.mode is PolicyMode.ENFORCE:
            for place in trash_client.places_of([known.history.key]):
                if place in places:
                    runs[place].append(known.history.key)
    return runs


def _read_known(hands: PruneParts, visits: Sequence[_Visit]) -> dict[int, set[str]]:
    """Return the recorded action ids of each of these users, of all their runs, because runs share a trash."""
    uids = {visit.place.uid for visit in visits}
    runs = [run for run in hands.store.runs.list_keys() if run.uid in uids]
    known: dict[int, set[str]] = {uid: set() for uid in uids}
    for run, moved in hands.store.audit.read_moved_bytes(runs).items():
        known[run.uid].update(moved)
    return known


def _delete(
    hands: PruneParts, trash: KnownTrash, found: Mapping[_Visit, UnrecordedEntries], release: ReleaseRule, now: datetime
) -> set[RunKey]:
    """Delete the found entries, with one audit row per user; return the runs without an answer."""
    due = {visit: listed.act_ids for visit, listed in found.items() if listed.act_ids}
    intents = [intend(visit.runs[0], visit.place, act_ids, "hold", now) for visit, act_ids in due.items()]
    rows = [replace(intent, audit_id=hands.store.audit.record(intent)) for intent in intents]
    deletions = [TrashDeletion(visit.place, act_ids, release, USER_TURN) for visit, act_ids in due.items()]
    silent: set[RunKey] = set()
    for visit, row, outcomes in zip(
        due, rows, trash_client.empty(hands.agent, deletions, hands.site.deadline), strict=True
    ):
        if isinstance(outcomes, Unknown):
            silent.update(visit.runs)
        else:
            trash.record_swept(visit.place, sum(each.result is TrashResult.DELETED for each in outcomes))
            finish(hands.store, row, outcomes, now)
    return silent


def intend(run: RunKey, place: TrashLocation, act_ids: Sequence[str], actor: str, now: datetime) -> AuditEntry:
    """Return the intent to delete many unrecorded entries, to be committed before the deletion."""
    return AuditEntry(
        cluster=run.cluster,
        actor=actor,
        action=audit_entries.SWEEP,
        target=f"{len(act_ids)} {audit_entries.UNRECORDED}",
        run=run,
        details={"place": str(place.path), "act_ids": list(act_ids)},
        begun_at=now,
    )


def finish(store: Store, row: AuditEntry, outcomes: Sequence[TrashOutcome], now: datetime) -> None:
    """Record how many entries were deleted, how many of them were empty, and the paths of the first other ones."""
    deleted = [each for each in outcomes if each.result is TrashResult.DELETED]
    filled = [each for each in deleted if each.reason != NOTHING_LEFT]
    outcome = f"deleted: {len(filled)}, and {len(deleted) - len(filled)} of which nothing was there"
    if len(deleted) < len(outcomes):
        outcome += f"; refused: {len(outcomes) - len(deleted)}"
    details = {
        **row.details,
        "size_bytes": sum(each.size_bytes for each in filled),
        "paths": [each.path for each in filled[:MAX_NAMED]],
    }
    assert row.audit_id is not None
    store.audit.finish(row.audit_id, outcome, now, details)
