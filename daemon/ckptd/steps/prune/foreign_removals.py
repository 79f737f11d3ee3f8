"""Records what other daemons moved to the trash, so that what a person copies back from there stays.

A daemon with a database of its own sees such a checkpoint only disappear. The manifest in the trash says that it was
pruned. The trash's owner may have forged it, which keeps no more than the owner's own checkpoints.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.checkpoints.agent import trash_client
from ckptd.checkpoints.agent.trash_client import TrashListing, TrashLocation, TrashRequest
from ckptd.checkpoints.trash import EntryState, TurnLimits
from ckptd.core.model import RecordedCheckpoint, RunKey, Unknown
from ckptd.core.model.records import PrunableRun
from ckptd.steps.prune import owner_turns
from ckptd.steps.prune.recovery import PruneParts
from ckptd.store.prune_records import Occurrence

AGAIN = timedelta(hours=1)  # until the trash of a run from which files disappear is listed again
_MOST_MOVES = 50_000  # of one owner, who may forge manifests, in memory
TURN = TurnLimits(limit=5000, seconds=2.0)  # of one trash; the rest of it follows in the next step


class ForeignMove(NamedTuple):
    """What the manifest of an entry in the trash says of a checkpoint that another daemon moved there."""

    path: str
    size_bytes: int
    moved_at: datetime


@dataclass(slots=True)
class ForeignRemovals:
    """The moves of other daemons that this one has read, and when the trash of each run was last listed.

    A move stays in memory until its checkpoint is on record as pruned. The next scan may be the first to miss it or to
    see it, and runs beside each other have one trash without being asked about together.
    """

    _read: dict[TrashLocation, set[str]] = field(default_factory=lambda: defaultdict(set))
    _moves: dict[RunKey, dict[str, ForeignMove]] = field(default_factory=lambda: defaultdict(dict))
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
        own = hands.store.audit.read_moved_bytes(runs)
        asked = self._ask(runs, own)
        listings = owner_turns.ask(
            asked, lambda part: trash_client.list_others(hands.agent, part, hands.site.look_deadline)
        )
        answers = {each.place: listing for each, listing in zip(asked, listings, strict=True)}
        for place, listing in answers.items():
            if isinstance(listing, TrashListing) and listing.entries:
                self._remember(place, listing, hands.cluster)
        self._match(hands, runs, own)
        read = [run for run in runs if all(_is_read(place, answers[place]) for place in trash_client.places_of([run]))]
        self._listed_at.update(dict.fromkeys(read, now))
        return read

    def _ask(self, runs: Collection[RunKey], own: Mapping[RunKey, Collection[str]]) -> list[TrashRequest]:
        known: dict[TrashLocation, set[str]] = {}
        for run in runs:
            for place in trash_client.places_of([run]):
                known.setdefault(place, set(self._read[place])).update(own.get(run, ()))
        return [TrashRequest(place, sorted(act_ids), TURN) for place, act_ids in known.items()]

    def _remember(self, place: TrashLocation, listing: TrashListing, cluster: str) -> None:
        """Remember what was read, whichever run it is of: a manifest may name any."""
        count = sum(len(moves) for run, moves in self._moves.items() if run.uid == place.uid)
        for entry in listing.entries:
            if entry.state is EntryState.MOVING:
                continue
            self._read[place].add(entry.act_id)
            if count < _MOST_MOVES:
                count += 1
                run = entry.run._replace(cluster=cluster)
                self._moves[run][entry.act_id] = ForeignMove(entry.path, entry.size_bytes, entry.moved_at)

    def _match(self, hands: PruneParts, runs: Iterable[RunKey], own: Mapping[RunKey, Collection[str]]) -> None:
        """Record what is known of these runs by now, and forget the moves of what is on record and gone."""
        for run in runs:
            moves = self._moves.get(run, {})
            for act_id in moves.keys() & own.get(run, ()):
                del moves[act_id]
        asked = [run for run in runs if self._moves.get(run)]
        for found in hands.store.prune_records.read(hands.cluster, asked) if asked else ():
            history = found.history
            moves = self._moves[history.key]
            moved, brought = match(history.checkpoints, moves.values())
            if moved or brought:
                hands.store.prune_records.record_removed_elsewhere(history.key, moved, brought)
            deleted = (each.checkpoint for each in history.checkpoints if each.deleted_at is not None)
            gone = {(str(each.path), each.size_bytes) for each in deleted}
            self._moves[history.key] = {
                act_id: move for act_id, move in moves.items() if (move.path, move.size_bytes) not in gone
            }


def match(
    recorded: Iterable[RecordedCheckpoint], moves: Iterable[ForeignMove]
) -> tuple[dict[Occurrence, datetime], dict[Occurrence, datetime]]:
    """Return the deleted checkpoints that were moved, and those that are back, with the times of the moves.

    A checkpoint counts as back only if none of its path and size is on record as deleted or pruned: where one is, the
    plan can compare the two. The plan also decides whether a person copied it back or a job saved it again.
    """
    times: dict[tuple[str, int], list[datetime]] = defaultdict(list)
    for move in moves:
        times[move.path, move.size_bytes].append(move.moved_at)
    there: dict[tuple[str, int], list[RecordedCheckpoint]] = defaultdict(list)
    for record in recorded:
        place = str(record.checkpoint.path), record.checkpoint.size_bytes
        if place in times:
            there[place].append(record)
    moved: dict[Occurrence, datetime] = {}
    brought: dict[Occurrence, datetime] = {}
    for place, records in there.items():
        instants = sorted(times[place])
        for record in records:
            occurrence = (place[0], record.first_seen_at)
            if record.deleted_at is not None and record.pruned_at is None:
                number = bisect_right(instants, record.deleted_at)
                moved[occurrence] = instants[number - 1] if number else record.deleted_at
            elif len(records) == 1 and record.renamed_at is None:
                number = bisect_left(instants, record.first_seen_at)
                if number:
                    brought[occurrence] = instants[number - 1]
    return moved, brought


def _is_read(place: TrashLocation, listing: TrashListing | Unknown) -> bool:
    """Whether a trash could be listed to its end; single entries in it may be broken."""
    if isinstance(listing, Unknown):
        return False
    return listing.is_whole and all(each.what != str(place.path) for each in listing.problems)
