"""Deletes what was in the trash for as long as the site holds it."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints import disposal
from ckptd.checkpoints.disposal import Place
from ckptd.checkpoints.trash import Entry, EntryState, Outcome, Result
from ckptd.core.model import CheckpointState, RunHistory, RunKey, Scan, Unknown
from ckptd.core.pruned import Held
from ckptd.core.record import AuditEntry
from ckptd.core.retention import Mode
from ckptd.pruning import acts
from ckptd.pruning.planning import read_facts
from ckptd.pruning.settle import Hands, finish

AT_ONCE = 20  # checkpoints deleted within one deadline
TURN = 100  # runs whose trash is listed again in each step
ROOM_FOR = 2  # more checkpoints: below that there is no room


@dataclass(slots=True)
class Trash:
    """What is known to lie in the trashes of runs; all of it can be had again by listing them."""

    entries: dict[RunKey, dict[Place, tuple[Entry, ...]]] = field(default_factory=dict)
    tried_at: dict[str, datetime] = field(default_factory=dict)  # by act: a deletion that failed
    _listed_to: RunKey | None = None

    def read(self, hands: Hands, runs: Iterable[RunKey]) -> None:
        """List the trashes of these runs. One that could not be listed holds what it held."""
        wanted = list(runs)
        places = disposal.places_of(wanted)
        found = dict(zip(places, disposal.list_trash(hands.agent, places, hands.site.deadline), strict=True))
        for run in wanted:
            held = self.entries.get(run, {})
            for place in disposal.places_of([run]):
                listed = found[place]
                if not isinstance(listed, Unknown):
                    own = tuple(entry for entry in listed.entries if entry.path.startswith(f"{run.directory}/"))
                    held = {**held, place: own}
            self.entries[run] = {place: entries for place, entries in held.items() if entries}
        self.entries = {run: held for run, held in self.entries.items() if held}
        there = {entry.act_id for held in self.entries.values() for found in held.values() for entry in found}
        self.tried_at = {act_id: at for act_id, at in self.tried_at.items() if act_id in there}

    def stale(self) -> set[RunKey]:
        """Return the next runs whose trash is to be listed again: their owners may have changed it themselves."""
        known = sorted(self.entries)
        start = bisect_right(known, self._listed_to) if self._listed_to else 0
        turn = known[start : start + TURN]
        self._listed_to = turn[-1] if turn else None
        return set(turn)

    def sum_up(self, hold: timedelta, now: datetime) -> Held:
        """Return how much there is; what is held longer than `hold` is overdue."""
        every = [entry for held in self.entries.values() for found in held.values() for entry in found]
        return Held(
            count=len(every),
            size_bytes=sum(entry.size_bytes for entry in every),
            oldest_at=min((entry.moved_at for entry in every), default=None),
            overdue_count=sum(now - entry.moved_at > hold for entry in every),
        )


class Due(NamedTuple):
    """Entries of one trash that are held no longer."""

    run: RunKey
    place: Place
    entries: tuple[Entry, ...]
    held_before: datetime


def empty_due(hands: Hands, trash: Trash, now: datetime) -> int:
    """Delete what enforcing policies hold no longer; return how many checkpoints that was."""
    shortest = min(hands.site.hold, hands.site.no_room_hold or hands.site.hold)
    old = {run: held for run, held in trash.entries.items() if any(_due(held, now - shortest))}
    if not old:
        return 0
    facts = read_facts(hands.store, hands.cluster, hands.site, list(old))
    count = 0
    for known in facts.runs:
        policy = facts.choices[known.history.key].policy
        if policy is None or policy.mode is not Mode.ENFORCE:
            continue
        held_before = now - hold_of(hands, known.history)
        for place, entries in old[known.history.key].items():
            due = [entry for entry in _due({place: entries}, held_before) if _may_try(hands, trash, entry, now)]
            if due:
                count += _empty(hands, trash, Due(known.history.key, place, tuple(due), held_before), now)
        trash.read(hands, [known.history.key])
    return count


def _due(held: Mapping[Place, tuple[Entry, ...]], held_before: datetime) -> list[Entry]:
    return [
        entry
        for entries in held.values()
        for entry in entries
        if entry.state is EntryState.HELD and entry.moved_at < held_before
    ]


def _may_try(hands: Hands, trash: Trash, entry: Entry, now: datetime) -> bool:
    """Whether a deletion was not tried in vain a short while ago."""
    tried_at = trash.tried_at.get(entry.act_id)
    return tried_at is None or now - tried_at > hands.site.caps.error_window


def hold_of(hands: Hands, history: RunHistory) -> timedelta:
    """Return for how long a run's trash is held: shorter where there is no room, as far as the site allows."""
    shorter = hands.site.no_room_hold
    if shorter is None or not isinstance(history.scan, Scan) or (room := history.scan.room_bytes) is None:
        return hands.site.hold
    whole = [
        record.checkpoint
        for record in history.checkpoints
        if record.gone_at is None and record.checkpoint.state is CheckpointState.COMPLETE
    ]
    newest = max(whole, key=lambda found: found.modified_at, default=None)
    has_room = newest is None or room >= ROOM_FOR * newest.size_bytes
    return hands.site.hold if has_room else min(shorter, hands.site.hold)


def _empty(hands: Hands, trash: Trash, due: Due, now: datetime) -> int:
    """Delete some at a time, so that what one deadline has room for is done; silence ends it for now."""
    deleted = 0
    for start in range(0, len(due.entries), AT_ONCE):
        some = due._replace(entries=due.entries[start : start + AT_ONCE])
        intents = {each.act_id: _intend(hands, due.run, each, now) for each in some.entries}
        outcomes = disposal.empty(hands.agent, due.place, list(intents), due.held_before, hands.site.deadline)
        if isinstance(outcomes, Unknown):
            trash.tried_at |= dict.fromkeys(intents, now)
            break
        for outcome in outcomes:
            if intent := intents.pop(outcome.act_id, None):
                finish(hands, intent, outcome, now)
                deleted += _note(trash, outcome, now)
    return deleted


def _intend(hands: Hands, run: RunKey, held: Entry, now: datetime) -> AuditEntry:
    reasons = (f"held since {held.moved_at.isoformat()}",)
    entry = acts.intend(acts.EMPTY, run, held.path, act_id=held.act_id, actor="hold", reasons=reasons, now=now)
    return replace(entry, audit_id=hands.store.append_audit(entry))


def _note(trash: Trash, outcome: Outcome, now: datetime) -> bool:
    if outcome.result is Result.DELETED:
        trash.tried_at.pop(outcome.act_id, None)
        return True
    trash.tried_at[outcome.act_id] = now
    return False
