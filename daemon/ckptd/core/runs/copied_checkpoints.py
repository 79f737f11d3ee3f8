"""Recognises copies of a run's checkpoints in its further locations, and finds the newest complete one in any of them.

A copy has the format, the progress, the names and the sizes of its original, and is not known to differ from it in its
content. Its state was saved when the original was,
whatever date the copy has: `cp` gives it the time of copying.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ckptd.core.model import Checkpoint, CheckpointState, CopyLocation, RecordedCheckpoint, RunRecord
from ckptd.core.runs import history as facts
from ckptd.core.runs.compared_content import differs
from ckptd.core.runs.earlier_directories import directory_of
from ckptd.core.runs.resumable import list_resumable
from ckptd.core.runs.rotated_copies import is_previous

ROUNDING = timedelta(seconds=2)  # of times of modification on other file systems

CopyIdentity = tuple[object, ...]


class SavedCopy(NamedTuple):
    """A complete checkpoint in one location of a run, and when its state was saved."""

    saved_at: datetime
    directory: str
    record: RecordedCheckpoint


def identify(found: Checkpoint) -> CopyIdentity:
    """Return what a checkpoint has in common with its copies, and with nothing else of its run."""
    sizes = tuple(sorted(zip(found.files, (each.size_bytes for each in found.identities), strict=False)))
    return found.format, found.path.name, found.step, found.epoch, sizes


def identify_by_name(found: Checkpoint) -> CopyIdentity:
    """Return what a checkpoint has in common with its copies, also where one of them is damaged."""
    return found.path.name, tuple(sorted(found.files))


class OriginalDates:
    """When the checkpoints of a run's primary location were written."""

    def __init__(self, recorded: Iterable[RecordedCheckpoint]) -> None:
        dates: dict[CopyIdentity, list[datetime]] = defaultdict(list)
        for each in recorded:
            if each.checkpoint.state is CheckpointState.COMPLETE:
                dates[identify(each.checkpoint)].append(each.checkpoint.modified_at)
        self._dates: Mapping[CopyIdentity, list[datetime]] = {key: sorted(found) for key, found in dates.items()}

    def find(self, copy: Checkpoint) -> datetime | None:
        """Return when the original of a copy was written; None where it is not on record.

        Of several with the same names and sizes, as where one file is overwritten, it is the latest that the copy can
        be of.
        """
        dates = self._dates.get(identify(copy), [])
        place = bisect_right(dates, copy.modified_at + ROUNDING)
        return dates[place - 1] if place else None


def list_copies(history: RunRecord, copy: CopyLocation) -> list[SavedCopy]:
    """Return the complete checkpoints that are in a further location, in the order in which their states were saved."""
    dates = OriginalDates(history.checkpoints)
    there = [
        each
        for each in list_resumable(copy.checkpoints)
        if each.deleted_at is None and each.checkpoint.state is CheckpointState.COMPLETE and not differs(history, each)
    ]
    found = [SavedCopy(date_of(each, dates), copy.directory, each) for each in there]
    return sorted(found, key=lambda each: each.saved_at)


def find_newest_copy(history: RunRecord, copy: CopyLocation) -> SavedCopy | None:
    """Return the newest complete checkpoint in a further location."""
    copies = list_copies(history, copy)
    there = {str(each.record.checkpoint.path) for each in copies}
    own = [each for each in copies if not is_previous(str(each.record.checkpoint.path), there)]
    return own[-1] if own else None


def date_of(record: RecordedCheckpoint, dates: OriginalDates) -> datetime:
    """Return when the state in a copy was saved, as far as is known."""
    return dates.find(record.checkpoint) or record.checkpoint.modified_at


def find_newest(history: RunRecord) -> SavedCopy | None:
    """Return the newest complete checkpoint of a run in any of its locations: the primary one of equal copies."""
    own = facts.newest_complete(history)
    found = [] if own is None else [SavedCopy(own.checkpoint.modified_at, directory_of(history, own), own)]
    for copy in history.copies:
        newest = find_newest_copy(history, copy)
        found += [] if newest is None else [newest]
    return max(found, key=lambda each: each.saved_at, default=None)


def had_complete(history: RunRecord, instant: datetime) -> bool:
    """Whether any location of a run had a complete checkpoint at that instant."""
    return bool(list_complete_copies(history, instant)) or bool(facts.complete_at(history, instant))


def list_complete_copies(history: RunRecord, instant: datetime) -> list[RecordedCheckpoint]:
    """Return the complete checkpoints that the further locations of a run had at that instant."""
    there = (each for copy in history.copies for each in facts.complete_among(copy.checkpoints, instant))
    return [each for each in there if not differs(history, each)]


def list_unread(history: RunRecord) -> list[str]:
    """Return the further locations of which nobody knows what is in them."""
    return [copy.directory for copy in history.copies if not copy.was_read_whole]
