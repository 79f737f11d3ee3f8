"""Finds the checkpoints that a person keeps on purpose: renamed, moved, or put back after they were pruned.

A rename keeps inode, size and modification time, so the database has the same files under another path. A checkpoint
from an archive has an earlier modification time than others of its series that were on disk before it. A copy from the
trash keeps names and sizes. The checkpoints of a job that starts over and reuses pruned names look like such copies.
They are taken for the job's own only if they count up from the start without a gap, and if one of them differs from all
pruned ones.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from statistics import median
from typing import NamedTuple

from ckptd.core.model import Checkpoint, RecordedCheckpoint
from ckptd.core.retention import copies
from ckptd.core.retention.checkpoint_order import Ranks, find_series
from ckptd.core.retention.rules import Placed, SeriesKey
from ckptd.core.runs import added_files

PRUNED_BEFORE = "it appeared again after it was pruned"
RENAMED = "it was renamed or moved after it was complete"
MEMBER_RENAMED = "it was moved away and back, or a file in it was renamed, after it was complete"
BACKDATED = "it appeared later than others of its series that were written after it"

_NUMBER = re.compile(r"[0-9]")
_RECENT = 10  # checkpoints of an attempt that show in what steps it saves

Contents = tuple[tuple[str, int], ...]  # base names and sizes: what else is there decides how much of a path is a set's


class _EarlierFile(NamedTuple):
    """A file of a checkpoint that was at its path before."""

    path: str
    record: RecordedCheckpoint


def find_kept(
    present: Sequence[Placed],
    recorded: Sequence[RecordedCheckpoint],
    ranks: Ranks,
    tolerance: timedelta,
    *,
    is_copied: bool = False,
) -> Mapping[str, str]:
    """Return the reason, by path, for each present checkpoint that a person keeps.

    `recorded` are all recorded checkpoints of the run, including deleted and pruned ones; clocks of hosts may differ by
    `tolerance`. Where `is_copied`, they are copies of another location's, which may arrive in any order.
    """
    reasons = {} if is_copied else dict.fromkeys(_find_backdated(present, recorded, tolerance), BACKDATED)
    reasons |= {
        path: MEMBER_RENAMED for path, record in present if record.renamed_at is not None and not record.was_in_trash
    }
    reasons |= copies.find_copies(present, recorded)
    earlier = [each for each in recorded if each.deleted_at is not None or each.pruned_at is not None]
    if not earlier and not any(record.was_in_trash for _, record in present):
        return reasons
    reasons |= _find_moved(present, earlier, _Temporaries(recorded))
    pruned = _Pruned(earlier)
    history = _History(recorded, ranks, pruned)
    for path, record in present:
        if path not in reasons and pruned.is_copy(record) and not history.is_saved_again(record):
            reasons[path] = PRUNED_BEFORE
    return reasons


def _find_backdated(
    present: Sequence[Placed], recorded: Iterable[RecordedCheckpoint], tolerance: timedelta
) -> Iterator[str]:
    """Yield the paths of checkpoints that appeared out of order, as those do that are extracted from an archive.

    A program writes the next checkpoint after the last one; `cp -p` and `tar` keep the times of writing.
    """
    seen: dict[SeriesKey, list[tuple[datetime, datetime]]] = defaultdict(list)
    for record in recorded:
        found = record.checkpoint
        if found.grouping.progress and found.modified_at <= record.first_seen_at + tolerance:
            seen[find_series(found, str(found.path))].append((record.first_seen_at, found.modified_at))
    newest: dict[SeriesKey, list[datetime]] = {}  # when the newest was written of all that were seen so far
    for series, times in seen.items():
        times.sort()
        newest[series] = list(accumulate((written for _, written in times), max))
    for path, record in present:
        series = find_series(record.checkpoint, path)
        before = bisect_left(seen.get(series, ()), (record.first_seen_at,))
        if before and newest[series][before - 1] > record.checkpoint.modified_at + tolerance:
            yield path


def _find_moved(
    present: Sequence[Placed], earlier: Iterable[RecordedCheckpoint], temporaries: "_Temporaries"
) -> Iterator[tuple[str, str]]:
    inodes = {identity.inode for _, record in present for identity in record.checkpoint.identities}
    known: dict[added_files.FileKey, list[_EarlierFile]] = defaultdict(list)
    for record in earlier:
        if record.completed_at is not None and any(each.inode in inodes for each in record.checkpoint.identities):
            for path, key in added_files.list_files(record.checkpoint):
                known[key].append(_EarlierFile(path, record))
    if known:
        for path, record in present:
            if reason := _explain_moved(record, known, temporaries):
                yield path, reason


def _explain_moved(
    record: RecordedCheckpoint,
    known: Mapping[added_files.FileKey, Collection[_EarlierFile]],
    temporaries: "_Temporaries",
) -> str | None:
    """Return the reason if a person moved it: most of its files were those of another, complete checkpoint."""
    files = added_files.list_files(record.checkpoint)
    moved: list[str] = []
    for path, key in files:
        for was in known.get(key, ()):
            if was.record.pruned_at is not None:
                moved.append(PRUNED_BEFORE)
                break
            if was.path == path or not _is_seen_before(was.record, record):
                continue
            if not temporaries.is_temporary(was.path, path):
                moved.append(RENAMED)
                break
    return moved[0] if 2 * len(moved) > len(files) else None


def _is_seen_before(was: RecordedCheckpoint, record: RecordedCheckpoint) -> bool:
    """Whether a scan found it at its other path first; at a fixed name, only until it appeared here.

    Some programs give a checkpoint of a fixed name a second, numbered name (hard link), and later replace the first.
    """
    if was.deleted_at is None or was.first_seen_at >= record.first_seen_at:
        return False
    return was.deleted_at <= record.first_seen_at or bool(was.checkpoint.grouping.progress)


class _Temporaries:
    """Distinguishes programs' temporary names for unfinished saves from places that people move files out of."""

    def __init__(self, recorded: Iterable[RecordedCheckpoint]) -> None:
        self._recorded = recorded
        self._answers: dict[str, bool] = {}
        self._counts: dict[str, int] = {}

    def is_temporary(self, was: str, path: str) -> bool:
        """Whether the name that changed is one of a save in progress: of the file, or of a directory for that alone.

        In `ckpt_part_00.pt` the word is that of a shard; renamed by a person, the file still has it.
        """
        parent, _, name = was.rpartition("/")
        new_names = set(path.split("/"))
        if any(added_files.is_temporary(new) for new in new_names.difference(was.split("/"))):
            return False
        if name not in new_names and added_files.is_temporary(name):
            return True
        parts = parent.split("/")
        found = (
            count for count, part in enumerate(parts, 1) if part not in new_names and added_files.is_temporary(part)
        )
        return any(self._is_of_one("/".join(parts[:count]), name) for count in found)

    def _is_of_one(self, directory: str, name: str) -> bool:
        """Whether a directory never held checkpoints of different progress at the same time.

        Where it held no second one at all, a number in the file's name says that it was complete as it was.
        """
        if directory not in self._answers:
            within = [each for each in self._recorded if str(each.checkpoint.path).startswith(f"{directory}/")]
            within.sort(key=copies.first_seen)
            self._answers[directory] = not any(_is_together(*pair) for pair in pairwise(within))
            self._counts[directory] = len({copies.read_progress(each.checkpoint) for each in within})
        return self._answers[directory] and (self._counts[directory] > 1 or not _NUMBER.search(name))


def _is_together(one: RecordedCheckpoint, other: RecordedCheckpoint) -> bool:
    values = {copies.read_progress(one.checkpoint), copies.read_progress(other.checkpoint)}
    return len(values) > 1 and (one.deleted_at is None or one.deleted_at > other.first_seen_at)


class _Pruned:
    """Pruned checkpoints, by names and sizes."""

    def __init__(self, earlier: Iterable[RecordedCheckpoint]) -> None:
        self._known: dict[tuple[int, int], list[RecordedCheckpoint]] = defaultdict(list)
        for record in earlier:
            if record.pruned_at is not None:
                self._known[self._size(record)].append(record)
        # when the first of each series and progress was pruned, of the sizes that were asked about
        self._alike: dict[Contents, dict[SeriesKey, dict[float | None, datetime]]] = {}

    @staticmethod
    def _size(record: RecordedCheckpoint) -> tuple[int, int]:
        return len(record.checkpoint.files), record.checkpoint.size_bytes

    def is_copy(self, record: RecordedCheckpoint) -> bool:
        """Whether it appeared after one with the same names and sizes was pruned, and is no other one of its series.

        All checkpoints of DeepSpeed or Megatron have the same files; only the numbers of their directories differ.
        Under a name of another kind, a person chose the number. What another daemon pruned may not be on record.
        """
        if record.was_in_trash:
            return True
        found = record.checkpoint
        self._index(self._known.pop(self._size(record), ()))
        if not self._alike:
            return False
        own, progress = find_series(found, str(found.path)), copies.read_progress(found)
        for series, pruned in self._alike.get(_list_contents(found), {}).items():
            is_chosen = series != own or progress is None
            times = pruned.values() if is_chosen else (pruned[each] for each in (progress, None) if each in pruned)
            changed_at = 0.0 if is_chosen else _find_last_change(record)
            if any(record.first_seen_at >= at or changed_at >= at.timestamp() for at in times):
                return True
        return False

    def _index(self, records: Iterable[RecordedCheckpoint]) -> None:
        for record in records:
            assert record.pruned_at is not None
            found = record.checkpoint
            by_series = self._alike.setdefault(_list_contents(found), {})
            pruned = by_series.setdefault(find_series(found, str(found.path)), {})
            progress = copies.read_progress(found)
            pruned[progress] = min(record.pruned_at, pruned.get(progress, record.pruned_at))


def _find_last_change(record: RecordedCheckpoint) -> float:
    """Return when files of a checkpoint were last changed, in seconds by the file server's clock; 0 if unknown.

    This host's clock may have been behind when the checkpoint was first seen.
    """
    return max((each.changed_ns for each in record.checkpoint.identities), default=0) / 1e9


def _list_contents(found: Checkpoint) -> Contents:
    pairs = zip(found.files, found.identities, strict=False)
    return tuple(sorted((file.rpartition("/")[2], each.size_bytes) for file, each in pairs))


class _Saved(NamedTuple):
    """A complete checkpoint in the order in which the attempts of a run saved it."""

    rank: int
    written: float
    progress: float
    record: RecordedCheckpoint


class _History:
    """The checkpoints of the attempts in each series, to distinguish a job that starts over from a person's copies."""

    def __init__(self, recorded: Iterable[RecordedCheckpoint], ranks: Ranks, pruned: _Pruned) -> None:
        self._recorded = recorded
        self._ranks = ranks
        self._pruned = pruned
        self._saved: dict[SeriesKey, list[_Saved]] | None = None
        self._answers: dict[tuple[SeriesKey, int], bool] = {}

    def is_saved_again(self, record: RecordedCheckpoint) -> bool:
        """Whether a job that started over wrote it."""
        rank = None if record.attempt is None else self._ranks.get(record.attempt)
        if rank is None:
            return False
        if self._saved is None:
            self._saved = self._read()
        series = find_series(record.checkpoint, str(record.checkpoint.path))
        if (series, rank) not in self._answers:
            self._answers[series, rank] = self._is_started_over(self._saved.get(series, []), rank)
        return self._answers[series, rank]

    def _read(self) -> dict[SeriesKey, list[_Saved]]:
        saved: dict[SeriesKey, list[_Saved]] = defaultdict(list)
        for record in self._recorded:
            rank = None if record.attempt is None else self._ranks.get(record.attempt)
            progress = copies.read_progress(record.checkpoint)
            if rank is not None and record.completed_at is not None and progress is not None:
                series = find_series(record.checkpoint, str(record.checkpoint.path))
                saved[series].append(_Saved(rank, record.completed_at.timestamp(), progress, record))
        for members in saved.values():
            members.sort(key=lambda each: each[:3])
        return saved

    def _is_started_over(self, members: Sequence[_Saved], rank: int) -> bool:
        """Whether an attempt's checkpoints continue, without a gap, those of an attempt that started over."""
        for first in sorted({each.rank for each in members if each.rank <= rank}, reverse=True):
            chain = [each for each in members if each.rank >= first]
            # steps from a copy to another one or to what the job saves next are no measure of the job's own
            own = [each for each in chain[-_RECENT:] if not self._pruned.is_copy(each.record)]
            rising = [step for step in _list_steps(own) or _list_steps(members) if step > 0]
            widest = copies.INTERVALS * median(rising) if rising else 0
            if chain[0].progress <= widest:
                is_steady = all(self._is_next(*pair, widest) for pair in pairwise(chain))
                return is_steady and not all(self._pruned.is_copy(each.record) for each in chain)
        return False

    def _is_next(self, before: _Saved, later: _Saved, widest: float) -> bool:
        """Whether no more than one checkpoint is missing between two; none between a copy and what is no copy.

        The one that the job had loaded may be missing there: epoch 2 was copied back, 3 was loaded, and 4 is the next.
        """
        step = later.progress - before.progress
        if step == widest:
            return self._pruned.is_copy(later.record) or not self._pruned.is_copy(before.record)
        return 0 < step < widest


def _list_steps(saved: Sequence[_Saved]) -> list[float]:
    return [later.progress - before.progress for before, later in pairwise(saved)]
