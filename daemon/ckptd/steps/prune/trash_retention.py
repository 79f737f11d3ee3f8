"""Tracks the recorded entries in the trashes of runs; they can be listed again at any time.

Users can write anything into their own trash. Unrecorded entries are only counted here, at no cost for other users, and
`unrecorded_trash` deletes them later.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashLocation, TrashRequest
from ckptd.checkpoints.trash import RequestedEntries, TrashEntry
from ckptd.core.fleet.prune_totals import TrashTotals
from ckptd.core.model import RunKey, Unknown
from ckptd.steps.prune import owner_turns
from ckptd.steps.prune.recovery import PruneParts

MAX_HELD = 20_000  # entries of one run that are remembered
TURN = 100  # runs whose trash is listed again in each step


@dataclass(slots=True)
class KnownTrash:
    """The known entries in the trashes of runs."""

    entries: dict[RunKey, dict[TrashLocation, tuple[TrashEntry, ...]]] = field(default_factory=dict)
    tried_at: dict[str, datetime] = field(default_factory=dict)  # by act: a deletion that failed
    # of everything that is in a trash, where anything is
    name_counts: dict[TrashLocation, int] = field(default_factory=dict)
    emptied_to: int | None = None  # the user whose turn of deletions was the last one
    _sizes: dict[RunKey, dict[str, int]] = field(default_factory=dict)  # by act, of those on record
    _listed_to: RunKey | None = None

    def read(self, hands: PruneParts, runs: Iterable[RunKey], now: datetime) -> set[RunKey]:
        """List the trashes of these runs, of a few owners at a time; return the runs without an answer.

        Their known entries stay, as do those of runs that were deferred.
        """
        silent: set[RunKey] = set()
        silent_count = 0
        for group in owner_turns.group_by_owners(runs, hands.silent.list_suspects(now)):
            moved = hands.store.audit.read_moved_bytes(group)
            asked = _ask(group, moved)
            listings = owner_turns.ask(
                list(asked.values()), lambda part: trash_client.list_known(hands.agent, part, hands.site.look_deadline)
            )
            found = dict(zip(asked, listings, strict=True))
            unheard = {place for place, listed in found.items() if isinstance(listed, Unknown)}
            quiet = {run for run in group if unheard.intersection(trash_client.places_of([run]))}
            for run in group:
                self._add_listing(run, found, moved.get(run, {}))
            silent |= quiet
            silent_count += hands.silent.is_any_left_out(group, now)
            if silent_count == owner_turns.MAX_SILENT:
                break
        there = {entry.act_id for held in self.entries.values() for listed in held.values() for entry in listed}
        self.tried_at = {act_id: at for act_id, at in self.tried_at.items() if act_id in there}
        return silent

    def _add_listing(
        self, run: RunKey, found: Mapping[TrashLocation, RequestedEntries | Unknown], moved: Mapping[str, int]
    ) -> None:
        self._sizes.pop(run, None)
        held = dict(self.entries.pop(run, {}))
        for place in trash_client.places_of([run]):
            listed = found[place]
            if not isinstance(listed, Unknown):
                own = [replace(entry, reasons=()) for entry in listed.entries if entry.act_id in moved]
                held[place] = tuple(own[:MAX_HELD])
                self._set_count(place, listed.name_count)
        self._keep(run, held, moved)

    def _set_count(self, place: TrashLocation, count: int) -> None:
        self.name_counts.pop(place, None)
        if count:
            self.name_counts[place] = count

    def _keep(
        self, run: RunKey, held: Mapping[TrashLocation, tuple[TrashEntry, ...]], sizes: Mapping[str, int]
    ) -> None:
        self.entries.pop(run, None)
        self._sizes.pop(run, None)
        held = {place: entries for place, entries in held.items() if entries}
        if held:
            self.entries[run] = held
            there = {entry.act_id for entries in held.values() for entry in entries}
            self._sizes[run] = {act_id: size for act_id, size in sizes.items() if act_id in there}

    def forget(self, run: RunKey, place: TrashLocation, act_ids: Collection[str]) -> None:
        """Note that these entries of a run were deleted."""
        if not act_ids:
            return
        gone = set(act_ids)
        held = dict(self.entries.get(run, {}))
        held[place] = tuple(entry for entry in held.get(place, ()) if entry.act_id not in gone)
        self._keep(run, held, self._sizes.get(run, {}))
        self.record_swept(place, len(gone))
        for act_id in gone:
            self.tried_at.pop(act_id, None)

    def record_swept(self, place: TrashLocation, count: int) -> None:
        """Note the number of deleted unrecorded entries."""
        self._set_count(place, max(0, self.name_counts.get(place, 0) - count))

    def list_strange(self) -> list[TrashLocation]:
        """Return the trashes with unrecorded entries."""
        known = Counter[TrashLocation]()
        for held in self.entries.values():
            for place, entries in held.items():
                known[place] += len(entries)
        return [place for place, count in self.name_counts.items() if count > known[place]]

    def next_runs(self) -> list[RunKey]:
        """Return the next runs whose trash is listed again, because their owners may have changed it."""
        known = sorted(self.entries)
        start = bisect_right(known, self._listed_to) if self._listed_to else 0
        turn = known[start : start + TURN]
        self._listed_to = turn[-1] if turn else None
        return turn

    def sum_up(self, hold: timedelta, now: datetime) -> TrashTotals:
        """Return the totals, with sizes from the audit table; entries whose holds have both ended are overdue."""
        proven = {  # by act, once: a trash may be that of a run and of the one in whose directory that run's is
            entry.act_id: (entry, self._sizes[run][entry.act_id])
            for run, held in self.entries.items()
            for entries in held.values()
            for entry in entries
            if entry.act_id in self._sizes[run]
        }.values()
        return TrashTotals(
            count=len(proven),
            size_bytes=sum(size for _, size in proven),
            oldest_at=min((entry.moved_at for entry, _ in proven), default=None),
            overdue_count=sum(now - entry.moved_at > hold and now > entry.find_release() for entry, _ in proven),
        )


def _ask(runs: Iterable[RunKey], moved: Mapping[RunKey, Mapping[str, int]]) -> dict[TrashLocation, TrashRequest]:
    """List each trash once, with the action ids of all runs whose trash it may be."""
    act_ids: dict[TrashLocation, set[str]] = defaultdict(set)
    for run in runs:
        for place in trash_client.places_of([run]):
            act_ids[place].update(moved.get(run, ()))
    return {place: TrashRequest(place, sorted(known)) for place, known in act_ids.items()}
