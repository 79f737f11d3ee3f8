"""Chooses whose content is compared: the newest complete checkpoint of a run that has copies, and these copies."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.model import Checkpoint, CheckpointState, RecordedCheckpoint, RunRecord
from ckptd.core.runs import copied_checkpoints
from ckptd.core.runs.compared_content import identify_files
from ckptd.core.runs.copied_checkpoints import CopyIdentity, OriginalDates
from ckptd.core.runs.earlier_directories import directory_of
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


def list_copied(history: RunRecord) -> Iterator[CopiedCheckpoint]:
    """Yield the complete checkpoints of a run that have copies, the newest first.

    A copy is one of the save that it can be of: where a program overwrites one file, an earlier copy of the same size
    is none of the present save.
    """
    known = _Originals(history)
    copied: dict[_CopiedSave | None, list[PlacedCopy]] = defaultdict(list)
    for location in history.copies:
        for each in filter(_is_there, location.checkpoints):
            copied[known.find(each.checkpoint, location.directory)].append(PlacedCopy(location.directory, each))
    originals = [each for each in list_resumable(history.checkpoints) if _is_there(each)]
    for original in sorted(originals, key=lambda each: each.checkpoint.modified_at, reverse=True):
        found = original.checkpoint
        copies = copied.get(_CopiedSave(found.path, found.format, found.modified_at))
        if copies:
            yield CopiedCheckpoint(original, tuple(copies))


class _CopiedSave(NamedTuple):
    path: PurePosixPath
    format: str
    saved_at: datetime


class _Originals:
    """Which save of a run a copy is of, as far as names, sizes and dates tell.

    Checkpoints in several directories below one location, such as `fold_1` and `fold_2`, may have the same names and
    sizes. A copy is then that of the one which lies as it does, with more directories above or fewer.
    """

    def __init__(self, history: RunRecord) -> None:
        saves: dict[PurePosixPath, list[RecordedCheckpoint]] = defaultdict(list)
        self._places: dict[CopyIdentity, dict[PurePosixPath, tuple[str, ...]]] = defaultdict(dict)
        for each in history.checkpoints:
            if each.checkpoint.state is CheckpointState.COMPLETE:
                path = each.checkpoint.path
                saves[path].append(each)
                parts = _split(path, directory_of(history, each))
                self._places[copied_checkpoints.identify(each.checkpoint)][path] = parts
        self._dates = {path: OriginalDates(found) for path, found in saves.items()}

    def find(self, copy: Checkpoint, directory: str) -> _CopiedSave | None:
        """Return the save that a copy in a location is of; None: it is of none, or may be of several."""
        parts = _split(copy.path, directory)
        alike: dict[PurePosixPath, tuple[bool, int]] = {}
        for path, known in self._places.get(copied_checkpoints.identify(copy), {}).items():
            length = min(len(parts), len(known))
            if parts[len(parts) - length :] == known[len(known) - length :]:
                alike[path] = (parts == known, length)
        best = max(alike.values(), default=None)
        found = [path for path, likeness in alike.items() if likeness == best]
        if len(found) != 1:
            return None
        saved_at = self._dates[found[0]].find(copy)
        return None if saved_at is None else _CopiedSave(found[0], copy.format, saved_at)


def _split(path: PurePosixPath, directory: str) -> tuple[str, ...]:
    return path.relative_to(directory).parts if path.is_relative_to(directory) else path.parts


def _is_there(record: RecordedCheckpoint) -> bool:
    found = record.checkpoint
    return record.deleted_at is None and found.state is CheckpointState.COMPLETE and bool(found.files)
