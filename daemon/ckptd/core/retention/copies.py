"""Finds copies that a person made of a run's checkpoints within its directory: same size and progress, another path.

Another fold or attempt of the same training may save equal sizes and progress. Its checkpoints count as a job's if they
continue without a gap to one that resembles no other, or if they repeat a whole other series, after its end or in
step with it.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

from ckptd.core.model import Checkpoint, RecordedCheckpoint
from ckptd.core.retention.checkpoint_order import find_series
from ckptd.core.retention.rules import Placed, SeriesKey
from ckptd.core.runs import added_files

COPIED = "it has the size and the progress of"
COPY_PACE = 5  # times faster than the program that wrote the originals
INTERVALS = 2  # between two checkpoints of a job in a row: one may have been missed
STEPS = 2  # up, from one checkpoint to the next, that show a job's interval: one is never wider than itself
IN_STEP = 10  # how many times longer than the difference in its delays a job's interval is
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
MAX_ALIKE = 100  # of those that are alike, the ones that were seen first
_ANY = "any"  # number

_Key = tuple[object, ...]  # size, names or number of files, epoch, step


def find_copies(present: Iterable[Placed], recorded: Sequence[RecordedCheckpoint]) -> Iterator[tuple[str, str]]:
    """Yield checkpoints with the size and progress of an earlier one at another path, unless a job saved them."""
    alike: dict[_Key, list[RecordedCheckpoint]] = defaultdict(list)
    for record in recorded:
        for key in _list_own_keys(record.checkpoint):
            alike[key].append(record)
    copies = _Copies(alike, recorded)
    for path, record in present:
        if (was := copies.find_original(record)) is not None:
            yield path, f"{COPIED} {was.checkpoint.path}, which was there before"


def _list_own_keys(found: Checkpoint) -> list[_Key]:
    """Return the keys under which the copies of a checkpoint find it.

    They include the names of its files if the content states no progress. In another place they may show only one of
    its two numbers: `epoch_3/model_300.pt` and its copy `good/epoch_3`.
    """
    key = _make_key(found, found.epoch, found.step)
    if _states_progress(found) or found.epoch is None or found.step is None:
        return [key]
    return [key, _make_key(found, found.epoch, _ANY), _make_key(found, _ANY, found.step)]


def _list_keys_of_originals(found: Checkpoint) -> list[_Key]:
    """Return the keys under which the originals of a copy are found."""
    key = _make_key(found, found.epoch, found.step)
    if _states_progress(found) or (found.epoch is None and found.step is None):
        return [key]
    if found.step is None:
        return [key, _make_key(found, found.epoch, _ANY)]
    if found.epoch is None:
        return [key, _make_key(found, _ANY, found.step)]
    return [key, _make_key(found, found.epoch, None), _make_key(found, None, found.step)]


def _make_key(found: Checkpoint, epoch: object, step: object) -> _Key:
    if _states_progress(found):
        return found.size_bytes, len(found.files), found.content_epoch, found.content_step
    return found.size_bytes, tuple(sorted(file.rpartition("/")[2] for file in found.files)), epoch, step


def _states_progress(found: Checkpoint) -> bool:
    return (found.content_epoch, found.content_step) != (None, None)


class _Course(NamedTuple):
    """The complete checkpoints of a series that have a number, in the order of their times of writing."""

    members: Sequence[RecordedCheckpoint]
    written: Sequence[float]
    progress: Sequence[float]
    widest: float  # step from one to the next
    goes_beyond: Sequence[bool]  # whether those after each one continue up to one unlike all others


class _Copies:
    """Distinguishes a person's copies from similar checkpoints of a job, such as another fold of the same training."""

    def __init__(self, alike: Mapping[_Key, list[RecordedCheckpoint]], recorded: Sequence[RecordedCheckpoint]) -> None:
        self._alike = alike
        self._recorded = recorded
        self._series: dict[SeriesKey, list[RecordedCheckpoint]] | None = None
        self._courses: dict[SeriesKey, _Course] = {}
        self._repeated: dict[tuple[SeriesKey, SeriesKey], bool] = {}
        for found in alike.values():
            found.sort(key=first_seen)

    def find_original(self, record: RecordedCheckpoint) -> RecordedCheckpoint | None:
        """Return the original of a copy; None if the checkpoint is not a copy."""
        originals = self._list_originals(record)
        if not originals or self._goes_beyond(record):
            return None
        for was in originals:
            pair = _series_of(record), _series_of(was)
            if pair not in self._repeated:
                self._repeated[pair] = self._is_repeated(record, was)
            if not self._repeated[pair]:
                return was
        return None

    def _list_originals(self, record: RecordedCheckpoint) -> list[RecordedCheckpoint]:
        found = record.checkpoint
        if not found.grouping.progress:
            return []
        alike = [was for key in _list_keys_of_originals(found) for was in self._alike.get(key, ())[:MAX_ALIKE]]
        return [was for was in alike if _is_copy(record, was) and self._was_before(record, was)]

    def _was_before(self, record: RecordedCheckpoint, was: RecordedCheckpoint) -> bool:
        """Whether one was seen earlier, or has the very times of writing, as after `cp -p`, in a longer series.

        This host's clock may have been wrong at either scan. The change times (ctime) are the file server's.
        """
        if first_seen(was) < first_seen(record) or _is_older(was, record):
            return True
        is_twin = first_seen(was) == first_seen(record) and _list_times(was) == _list_times(record)
        return is_twin and len(self._list_series(was)) > len(self._list_series(record))

    def _goes_beyond(self, record: RecordedCheckpoint) -> bool:
        """Whether its series continues without a gap up to a checkpoint unlike all others: a job saves there."""
        series, before = _series_of(record), read_progress(record.checkpoint)
        if series not in self._courses:
            self._courses[series] = self._follow(record)
        course = self._courses[series]
        at = bisect_right(course.written, _written(record))
        if before is None or at == len(course.members) or not 0 < course.progress[at] - before <= course.widest:
            return False
        return course.goes_beyond[at] or self._is_unlike_others(course.members[at])

    def _follow(self, record: RecordedCheckpoint) -> _Course:
        """Find out once for a series from which of its checkpoints on it goes beyond the copies."""
        numbered = [(each, read_progress(each.checkpoint)) for each in self._list_series(record)]
        members = [each for each, progress in numbered if progress is not None]
        progress = [value for _, value in numbered if value is not None]
        widest, goes_beyond = _find_widest(members), [False] * len(members)
        if sum(later > before for before, later in pairwise(progress)) < STEPS:
            widest = 0.0
        for at in range(len(members) - 2, -1, -1):
            if 0 < progress[at + 1] - progress[at] <= widest:
                goes_beyond[at] = goes_beyond[at + 1] or self._is_unlike_others(members[at + 1])
        return _Course(members, list(map(_written, members)), progress, widest, goes_beyond)

    def _is_unlike_others(self, record: RecordedCheckpoint) -> bool:
        return not self._list_originals(record) and not self._is_moved(record)

    def _is_moved(self, record: RecordedCheckpoint) -> bool:
        """Whether most of its files were complete at another path before: no job saved it where it is."""
        files = added_files.list_files(record.checkpoint)
        moved = [
            file
            for file, key in files
            if any(
                was.checkpoint.path != record.checkpoint.path and first_seen(was) < first_seen(record)
                for was in self._by_file.get(key, ())[:MAX_ALIKE]
            )
        ]
        return 2 * len(moved) > len(files)

    @cached_property
    def _by_file(self) -> Mapping[added_files.FileKey, Sequence[RecordedCheckpoint]]:
        """The complete checkpoints with each file: one that is moved may have more or fewer files there."""
        by_file: dict[added_files.FileKey, list[RecordedCheckpoint]] = defaultdict(list)
        for record in self._recorded:
            if record.completed_at is not None:
                for _, key in added_files.list_files(record.checkpoint):
                    by_file[key].append(record)
        return by_file

    def _is_repeated(self, record: RecordedCheckpoint, was: RecordedCheckpoint) -> bool:
        """Whether a job repeats the whole series of another one, from its start, after its end or at the same pace.

        At the same pace: each one follows its original after the same time, up to the newest.
        """
        members, others = self._list_series(record), self._list_series(was)
        known, expected = _list_progress(members), _list_progress(others)
        values = sorted(known)
        if not values or len(known) < len(members) or not others or list(known) != values:
            return False
        if not {value for value in expected if value <= values[-1]} <= known.keys():
            return False
        originals = [expected[value] for value in values if value in expected]
        if not originals:
            return False
        if _written(members[0]) > max(map(_written, others)):
            return _spread(members) * COPY_PACE > _spread(originals)
        is_up_to_date = values[-1] + _find_widest(others) >= max(expected)
        lags = [_written(known[value]) - _written(expected[value]) for value in values if value in expected]
        return is_up_to_date and (max(lags) - min(lags)) * len(values) * IN_STEP <= _spread(members)

    def _list_series(self, record: RecordedCheckpoint) -> Sequence[RecordedCheckpoint]:
        """Return all complete ones of a checkpoint's series, in the order of their times of writing."""
        if self._series is None:
            self._series = self._sort_series()
        return self._series.get(_series_of(record), [])

    def _sort_series(self) -> dict[SeriesKey, list[RecordedCheckpoint]]:
        series: dict[SeriesKey, list[RecordedCheckpoint]] = defaultdict(list)
        for record in self._recorded:
            if record.completed_at is not None:
                series[_series_of(record)].append(record)
        for members in series.values():
            members.sort(key=_written)
        return series


def _is_copy(record: RecordedCheckpoint, was: RecordedCheckpoint) -> bool:
    """Whether one that is alike is the original of another: elsewhere, with a number that counts, and another file."""
    found, known = record.checkpoint, was.checkpoint
    if not known.grouping.progress or was.completed_at is None or _written(was) > _written(record):
        return False
    if _mask(find_series(found, str(found.path))) == _mask(find_series(known, str(known.path))):
        return False  # `fold_1/` and `fold_2/` are trainings of one program; a person gives a copy another name
    return _list_inodes(found).isdisjoint(_list_inodes(known))


def _is_older(was: RecordedCheckpoint, record: RecordedCheckpoint) -> bool:
    """Whether no file of one was changed any more, not even renamed, when the first one of another was made."""
    before, after = (
        [identity.changed_ns for identity in each.checkpoint.identities if identity.changed_ns]
        for each in (was, record)
    )
    return bool(before) and bool(after) and max(before) < min(after)


def _series_of(record: RecordedCheckpoint) -> SeriesKey:
    return find_series(record.checkpoint, str(record.checkpoint.path))


def _list_inodes(found: Checkpoint) -> set[tuple[int, int]]:
    return {(each.device, each.inode) for each in found.identities}


def _list_times(record: RecordedCheckpoint) -> list[int]:
    return sorted(identity.modified_ns for identity in record.checkpoint.identities)


def _mask(series: SeriesKey) -> tuple[str, ...]:
    """Return a series without its numbers."""
    return tuple(_NUMBER.sub("#", str(part)) for part in series)


def first_seen(record: RecordedCheckpoint) -> tuple[float, float]:
    return record.first_seen_at.timestamp(), _written(record)


def _list_progress(members: Iterable[RecordedCheckpoint]) -> dict[float, RecordedCheckpoint]:
    """Return the first checkpoint of each progress; one without any is left out."""
    found: dict[float, RecordedCheckpoint] = {}
    for each in members:
        if (progress := read_progress(each.checkpoint)) is not None:
            found.setdefault(progress, each)
    return found


def _find_widest(members: Sequence[RecordedCheckpoint]) -> float:
    """Return the widest step from one checkpoint of a job to the next that leaves out no more than one."""
    values = [value for each in members if (value := read_progress(each.checkpoint)) is not None]
    rising = [later - before for before, later in pairwise(values) if later > before]
    return INTERVALS * median_low(rising) if rising else 0  # of two steps, the mean would hide any gap


def _written(record: RecordedCheckpoint) -> float:
    return record.checkpoint.modified_at.timestamp()


def _spread(records: Iterable[RecordedCheckpoint]) -> float:
    times = [_written(record) for record in records]
    return max(times) - min(times)


def read_progress(found: Checkpoint) -> float | None:
    if found.step is not None:
        return found.step
    return found.epoch if found.epoch is not None else next(iter(found.grouping.progress), None)
