"""Chooses whose content is compared: the newest complete checkpoint of a run that has copies, and these copies."""

from collections.abc import Iterator
from typing import NamedTuple

from ckptd.core.model import CheckpointState, RecordedCheckpoint, RunRecord
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs.compared_content import identify_files
from ckptd.core.runs.copied_checkpoints import OriginalDates
from ckptd.core.runs.resumable import list_resumable


class PlacedCopy(NamedTuple):
    """A copy in a further location of a run."""

    directory: str
    record: RecordedCheckpoint


class CopiedCheckpoint(NamedTuple):
    """A complete checkpoint with what is there of its copies."""

    original: RecordedCheckpoint
    copies: tuple[PlacedCopy, ...]

    def leave_out_same(self, *, is_owner_believed: bool) -> "CopiedCheckpoint":
        """Return it without the copies of which a comparison of just these files is on record, without a difference.

        One that differs stays: it is a problem until somebody copies again. Unless the owner is believed, only
        comparisons count that this node made.
        """
        left = (
            each for each in self.copies if not self._is_known_same(each.record, is_owner_believed=is_owner_believed)
        )
        return self._replace(copies=tuple(left))

    def _is_known_same(self, copy: RecordedCheckpoint, *, is_owner_believed: bool) -> bool:
        original = self.original.checkpoint
        read = str(original.path), identify_files(original), identify_files(copy.checkpoint), None
        believed = (each for each in copy.comparisons if is_owner_believed or not each.is_by_owner)
        return any(
            (each.original, each.original_files, each.copy_files, each.differing_file) == read for each in believed
        )


def find_copied(history: RunRecord) -> CopiedCheckpoint | None:
    """Return the newest complete checkpoint of a run that has a copy; None: no copy is on record."""
    return next(iter(list_copied(history)), None)


def list_copied(history: RunRecord) -> Iterator[CopiedCheckpoint]:
    """Yield the complete checkpoints of a run that have copies, the newest first.

    A copy is one of the save that it can be of: where a program overwrites one file, an earlier copy of the same size
    is none of the present save.
    """
    dates = OriginalDates(history.checkpoints)
    originals = [each for each in list_resumable(history.checkpoints) if _is_there(each)]
    for original in sorted(originals, key=lambda each: each.checkpoint.modified_at, reverse=True):
        name, modified_at = copied_checkpoints.identify(original.checkpoint), original.checkpoint.modified_at
        copies = tuple(
            PlacedCopy(location.directory, each)
            for location in history.copies
            for each in location.checkpoints
            if _is_there(each)
            and copied_checkpoints.identify(each.checkpoint) == name
            and dates.find(each.checkpoint) == modified_at
        )
        if copies:
            yield CopiedCheckpoint(original, copies)


def _is_there(record: RecordedCheckpoint) -> bool:
    found = record.checkpoint
    return record.deleted_at is None and found.state is CheckpointState.COMPLETE and bool(found.files)
