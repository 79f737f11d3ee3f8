"""Records what other daemons moved to the trash, so that what a person copies back from there stays.

A daemon with a database of its own sees such a checkpoint only disappear. The manifest in the trash says that it was
pruned. The trash's owner may have forged it, which keeps no more than the owner's own checkpoints.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashListing, TrashLocation, TrashRequest
from ckptd.checkpoints.trash import EntryState, TrashEntry, TurnLimits
from ckptd.core.model import RecordedCheckpoint, RunKey, Unknown
from ckptd.core.model.records import PrunableRun
from ckptd.steps.prune import owner_turns
from ckptd.steps.prune.recovery import PruneParts
from ckptd.store.prune_records import Occurrence

AGAIN = timedelta(hours=1)  # until the trash of a run from which files disappear is listed again
TURN = TurnLimits(limit=5000, seconds=2.0)  # of one trash; the rest of it follows in the next step


@dataclass(slots=True)
class ForeignRemovals:
    """Which entries of trashes were read, and when the trash of each run was last listed.

    Runs beside each other have one trash. What is read of other runs than those asked about waits for their turn.
    """

    _read: dict[TrashLocation, set[str]] = field(default_factory=lambda: defaultdict(set))
    _waiting: dict[RunKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    _listed_at: dict[RunKey, datetime] = field(default_factory=dict)

    def list_due(self, runs: Iterable[PrunableRun], ready: Collection[RunKey], now: datetime) -> list[RunKey]:
        """Return the runs that are new here or lost a checkpoint since their trash was listed, and not too often."""
        asked = (run.history for run in runs if run.history.key in ready)
        return [each.key for each in asked if self._is_due(each.key, each.checkpoints, now)]

    def _is_due(self, run: RunKey, checkpoints: Iterable[RecordedCheckpoint], now: datetime) -> bool:
        listed_at = self._listed_at.get(run)
        if listed_at is None:
            return True
        if listed_at <= now < listed_at + AGAIN:
            return False
        return any(each.deleted_at and not each.pruned_at and each.deleted_at >= listed_at for each in checkpoints)

    def record(self, hands: PruneParts, runs: Collection[RunKey], now: datetime) -> set[RunKey]:
        """Record what others moved from these runs; return the runs whose trash was not read to its end."""
        unread = set(runs)
        silent_count = 0
        for group in owner_turns.group_by_owners(runs, hands.silent.list_suspects(now)):
            unread.difference_update(self._record_group(hands, group, now))
            silent_count += hands.silent.is_any_left_out(group, now)
            if silent_count == owner_turns.MAX_SILENT:
                break
        return unread

    def _record_group(self, hands: PruneParts, runs: Collection[RunKey], now: datetime) -> list[RunKey]:
        """Return those of these runs whose trash was read to its end."""
        asked = self._ask(runs, hands.store.audit.read_moved_bytes(runs))
        listings = owner_turns.ask(
            asked, lambda part: trash_client.list_others(hands.agent, part, hands.site.look_deadline)
        )
        answers = {each.place: listing for each, listing in zip(asked, listings, strict=True)}
        self._record_entries(hands, runs, [each for each in listings if isinstance(each, TrashListing)])
        for place, listing in answers.items():
            if isinstance(listing, TrashListing):
                self._remember(place, _list_moved(listing, hands.cluster), frozenset(runs))
        read = [run for run in runs if all(_is_read(place, answers[place]) for place in trash_client.places_of([run]))]
        self._listed_at.update(dict.fromkeys(read, now))
        return read

    def _ask(self, runs: Collection[RunKey], own: Mapping[RunKey, Collection[str]]) -> list[TrashRequest]:
        waiting = {act_id for run in runs for act_id in self._waiting.get(run, ())}
        known: dict[TrashLocation, set[str]] = {}
        for run in runs:
            for place in trash_client.places_of([run]):
                known.setdefault(place, self._read[place] - waiting).update(own.get(run, ()))
        return [TrashRequest(place, sorted(act_ids), TURN) for place, act_ids in known.items()]

    def _remember(
        self, place: TrashLocation, moved: Iterable[tuple[RunKey, TrashEntry]], runs: frozenset[RunKey]
    ) -> None:
        for run, entry in moved:
            self._read[place].add(entry.act_id)
            if run not in runs:
                self._waiting[run].add(entry.act_id)
            elif run in self._waiting:
                self._waiting[run].discard(entry.act_id)

    @staticmethod
    def _record_entries(hands: PruneParts, runs: Collection[RunKey], listings: Iterable[TrashListing]) -> None:
        entries: dict[RunKey, list[TrashEntry]] = defaultdict(list)
        asked = frozenset(runs)
        for run, entry in (each for listing in listings for each in _list_moved(listing, hands.cluster)):
            if run in asked:
                entries[run].append(entry)
        for found in hands.store.prune_records.read(hands.cluster, entries) if entries else ():
            history = found.history
            moved, brought = match(history.checkpoints, entries[history.key])
            if moved or brought:
                hands.store.prune_records.record_removed_elsewhere(history.key, moved, brought)


def match(
    recorded: Iterable[RecordedCheckpoint], entries: Iterable[TrashEntry]
) -> tuple[dict[Occurrence, datetime], dict[Occurrence, datetime]]:
    """Return the deleted checkpoints that are these entries, and those that are back, with the times of the moves.

    A checkpoint counts as back only if none of its path and size is on record as deleted or pruned: where one is, the
    plan can compare the two. The plan also decides whether a person copied it back or a job saved it again.
    """
    times: dict[tuple[str, int], list[datetime]] = defaultdict(list)
    for entry in entries:
        times[entry.path, entry.size_bytes].append(entry.moved_at)
    there: dict[tuple[str, int], list[RecordedCheckpoint]] = defaultdict(list)
    for record in recorded:
        place = str(record.checkpoint.path), record.checkpoint.size_bytes
        if place in times:
            there[place].append(record)
    moved: dict[Occurrence, datetime] = {}
    brought: dict[Occurrence, datetime] = {}
    for place, records in there.items():
        moves = sorted(times[place])
        for record in records:
            occurrence = (place[0], record.first_seen_at)
            if record.deleted_at is not None and record.pruned_at is None:
                number = bisect_right(moves, record.deleted_at)
                moved[occurrence] = moves[number - 1] if number else record.deleted_at
            elif len(records) == 1 and record.renamed_at is None:
                number = bisect_left(moves, record.first_seen_at)
                if number:
                    brought[occurrence] = moves[number - 1]
    return moved, brought


def _list_moved(listing: TrashListing, cluster: str) -> Iterator[tuple[RunKey, TrashEntry]]:
    """Yield the entries whose move is complete, each with its run as this cluster's daemon knows it."""
    for entry in listing.entries:
        if entry.state is not EntryState.MOVING:
            yield entry.run._replace(cluster=cluster), entry


def _is_read(place: TrashLocation, listing: TrashListing | Unknown) -> bool:
    """Whether a trash could be listed to its end; single entries in it may be broken."""
    if isinstance(listing, Unknown):
        return False
    return listing.is_whole and all(each.what != str(place.path) for each in listing.problems)
