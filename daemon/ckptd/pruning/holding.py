"""Deletes what was in the trash for as long as the site holds it."""

from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints import disposal
from ckptd.checkpoints.disposal import Found, Place
from ckptd.checkpoints.trash import Entry, EntryState, Outcome, Result
from ckptd.core.model import CheckpointState, RunHistory, RunKey, Scan, Unknown
from ckptd.core.pruned import Held
from ckptd.core.record import AuditEntry
from ckptd.core.retention import Mode
from ckptd.pruning import acts, owners
from ckptd.pruning.planning import read_facts
from ckptd.pruning.settle import Hands, finish

AT_ONCE = 20  # checkpoints deleted within one deadline
MAX_HELD = 20_000  # entries of one run that are remembered
TURN = 100  # runs whose trash is listed again in each step
ROOM_FOR = 2  # more checkpoints: below that there is no room


@dataclass(slots=True)
class Trash:
    """What is known to lie in the trashes of runs; all of it can be had again by listing them."""

    entries: dict[RunKey, dict[Place, tuple[Entry, ...]]] = field(default_factory=dict)
    tried_at: dict[str, datetime] = field(default_factory=dict)  # by act: a deletion that failed
    _sizes: dict[RunKey, dict[str, int]] = field(default_factory=dict)  # by act, of those on record
    _listed_to: RunKey | None = None

    def read(self, hands: Hands, runs: Iterable[RunKey]) -> set[RunKey]:
        """List the trashes of these runs, of a few owners at a time; return the runs of which nothing was heard.

        Such a run holds what it held, and so do those that were left for later.
        """
        silent: set[RunKey] = set()
        silent_count = 0
        for group in owners.group_by_owners(runs):
            places = disposal.places_of(group)
            found = dict(zip(places, disposal.list_trash(hands.agent, places, hands.site.look_deadline), strict=True))
            unheard = {place for place, listed in found.items() if isinstance(listed, Unknown)}
            quiet = {run for run in group if unheard.intersection(disposal.places_of([run]))}
            moved = hands.store.read_moved(group)
            for run in group:
                self._take(run, found, moved.get(run, {}))
            silent |= quiet
            silent_count += quiet == set(group)
            if silent_count == owners.MAX_SILENT:
                break
        there = {entry.act_id for held in self.entries.values() for listed in held.values() for entry in listed}
        self.tried_at = {act_id: at for act_id, at in self.tried_at.items() if act_id in there}
        return silent

    def _take(self, run: RunKey, found: Mapping[Place, Found | Unknown], moved: Mapping[str, int]) -> None:
        self._sizes.pop(run, None)
        held = dict(self.entries.pop(run, {}))
        for place in disposal.places_of([run]):
            listed = found[place]
            if not isinstance(listed, Unknown):
                prefix = f"{run.directory}/"
                own = [replace(entry, reasons=()) for entry in listed.entries if entry.path.startswith(prefix)]
                held[place] = tuple(own[:MAX_HELD])
        held = {place: entries for place, entries in held.items() if entries}
        if held:
            self.entries[run] = held
            there = {entry.act_id for entries in held.values() for entry in entries}
            self._sizes[run] = {act_id: size for act_id, size in moved.items() if act_id in there}

    def take_turn(self) -> list[RunKey]:
        """Return the next runs whose trash is to be listed again: their owners may have changed it themselves."""
        known = sorted(self.entries)
        start = bisect_right(known, self._listed_to) if self._listed_to else 0
        turn = known[start : start + TURN]
        self._listed_to = turn[-1] if turn else None
        return turn

    def sum_up(self, hold: timedelta, now: datetime) -> Held:
        """Return how much there is of what the audit says was moved; what is held longer than `hold` is overdue.

        Anybody can write anything into a trash of their own: that is deleted in time like all else, and counts nothing.
        """
        proven = {  # by act, once: a trash may be that of a run and of the one in whose directory that run's is
            entry.act_id: (entry.moved_at, self._sizes[run][entry.act_id])
            for run, held in self.entries.items()
            for entries in held.values()
            for entry in entries
            if entry.act_id in self._sizes[run]
        }.values()
        return Held(
            count=len(proven),
            size_bytes=sum(size for _, size in proven),
            oldest_at=min((moved_at for moved_at, _ in proven), default=None),
            overdue_count=sum(now - moved_at > hold for moved_at, _ in proven),
        )


class Due(NamedTuple):
    """Entries of one trash that are held no longer."""

    run: RunKey
    place: Place
    entries: tuple[Entry, ...]
    held_before: datetime


class Emptied(NamedTuple):
    """How many checkpoints were deleted, and the runs of which nothing was heard."""

    deleted_count: int = 0
    silent: frozenset[RunKey] = frozenset()


def empty_due(hands: Hands, trash: Trash, settled: Container[RunKey], now: datetime) -> Emptied:
    """Delete what enforcing policies hold no longer, of settled runs; stop where file systems are silent."""
    shortest = min(hands.site.hold, hands.site.no_room_hold or hands.site.hold)
    old = {run: held for run, held in trash.entries.items() if run in settled and any(_due(held, now - shortest))}
    if not old:
        return Emptied()
    facts = read_facts(hands.store, hands.cluster, hands.site, list(old))
    count = 0
    silent: set[RunKey] = set()
    for known in facts.runs:
        run, policy = known.history.key, facts.choices[known.history.key].policy
        if policy is None or policy.mode is not Mode.ENFORCE or len(silent) == owners.MAX_SILENT:
            continue
        held_before = now - hold_of(hands, known.history)
        due = [
            Due(run, place, tuple(entry for entry in found if _may_try(hands, trash, entry, now)), held_before)
            for place, entries in old[run].items()
            if (found := _due({place: entries}, held_before))
        ]
        for each in due:
            deleted, is_silent = _empty(hands, trash, each, now)
            count += deleted
            silent |= {run} if is_silent else set()
        if any(each.entries for each in due) and run not in silent:
            silent |= trash.read(hands, [run])
    return Emptied(count, frozenset(silent))


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


def _empty(hands: Hands, trash: Trash, due: Due, now: datetime) -> tuple[int, bool]:
    """Delete some at a time, so that what one deadline has room for is done; return how many, and whether it hung."""
    deleted = 0
    for start in range(0, len(due.entries), AT_ONCE):
        intents = {each.act_id: _intend(hands, due.run, each, now) for each in due.entries[start : start + AT_ONCE]}
        outcomes = disposal.empty(
            hands.agent,
            due.place,
            list(intents),
            due.held_before,
            hands.site.deadline,
            clock_tolerance=hands.site.guards.clock_tolerance,
        )
        if isinstance(outcomes, Unknown):
            return deleted, True
        for outcome in outcomes:
            if intent := intents.pop(outcome.act_id, None):
                finish(hands, intent, outcome, now)
                deleted += _note(trash, outcome, now)
    return deleted, False


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
