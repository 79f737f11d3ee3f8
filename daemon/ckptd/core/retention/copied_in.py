"""Finds checkpoints that a person copied into a run's directory while its job ran, such as another training's.

Their times of writing are those of copying, so the job seems to have written them. A program does not save several
checkpoints in a small part of the time that it took for each one before. What could be a job's own pace counts as that:
of a job that has just started, of one that stays as fast, and wherever scans found the checkpoints one by one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from ckptd.core.model import Attempt, JobKey, RecordedCheckpoint
from ckptd.core.retention import copies
from ckptd.core.retention.checkpoint_order import find_series
from ckptd.core.retention.copies import COPY_PACE, INTERVALS
from ckptd.core.retention.rules import SeriesKey

COPIED_IN = "several of its series were written much faster than the job saves, as copies are"
_FEWEST_INTERVALS = 2  # that show at which pace a job saves
_SHORTEST = 60.0  # seconds between saves: in less, a job's own differ as much, and some file systems know only seconds
_FEWEST = 2  # copies, where nothing else is in their series
_RECURRING = 3  # bursts of a job, such as those of its phases; a person copies less often
_FEWEST_AMONG_OWN = 3  # copies in a job's own series: a job that is asked to end may save twice at once

_Saves = tuple[tuple[JobKey, int], SeriesKey]  # of one attempt in one series


def find_copied_in(recorded: Iterable[RecordedCheckpoint], attempts: Iterable[Attempt]) -> Iterator[tuple[str, str]]:
    """Yield path and reason of each present checkpoint that was copied in; `recorded` are all that the run has had."""
    started = {(each.job, each.restart_count): each.started_at.timestamp() for each in attempts}
    saves: dict[_Saves, list[RecordedCheckpoint]] = defaultdict(list)
    sizes: Counter[SeriesKey] = Counter()
    for record in recorded:
        if record.attempt in started and record.completed_at is not None and record.checkpoint.grouping.progress:
            series = find_series(record.checkpoint, str(record.checkpoint.path))
            saves[record.attempt, series].append(record)
            sizes[series] += 1
    for members in saves.values():
        members.sort(key=_written)
    series_counts = Counter(attempt for attempt, _ in saves)
    gaps = {key: [_written(later) - _written(one) for one, later in pairwise(found)] for key, found in saves.items()}
    usual = _find_interval([gap for found in gaps.values() for gap in found])
    for (attempt, series), members in saves.items():
        intervals = {_find_interval(gaps[attempt, series])}
        if all(each.pruned_at is None for each in members):  # none was known to be the job's before
            intervals.add(usual)
        for interval in intervals:
            bursts = list(_find_bursts(members, interval, started[attempt], sizes[series]))
            if series_counts[attempt] == 1 and len(bursts) >= _RECURRING:
                continue  # the pace of a job that has no other series
            for found in (each for burst in bursts if not _is_passed_through(members, burst) for each in burst):
                if found.deleted_at is None and found.pruned_at is None:
                    yield str(found.checkpoint.path), COPIED_IN


def _find_interval(gaps: Sequence[float]) -> float:
    """Return the interval at which a job saves for most of the time; 0: it is not known.

    Copies take little time, however many there are.
    """
    left = sum(gaps) / 2
    for gap in sorted(gaps, reverse=True):
        left -= gap
        if left <= 0:
            is_usual = sum(2 * each >= gap for each in gaps) >= _FEWEST_INTERVALS
            return gap if is_usual and gap >= _SHORTEST else 0
    return 0


def _find_bursts(
    members: Sequence[RecordedCheckpoint], interval: float, started_at: float, size: int
) -> Iterator[list[RecordedCheckpoint]]:
    """Yield what was written much faster than at an interval and found together; `size` is that of the series."""
    for run in _split(members, interval / COPY_PACE):
        begin, end = _written(run[0]), _written(run[-1])
        if begin - started_at <= INTERVALS * interval or end - begin >= INTERVALS * interval:
            continue
        by_scan: dict[datetime, list[RecordedCheckpoint]] = defaultdict(list)
        for each in run:
            by_scan[each.first_seen_at].append(each)
        fewest = _FEWEST if len(run) == size else _FEWEST_AMONG_OWN
        if burst := [each for found in by_scan.values() if len(found) >= fewest for each in found]:
            yield burst


def _is_passed_through(members: Sequence[RecordedCheckpoint], burst: Sequence[RecordedCheckpoint]) -> bool:
    """Whether the progress rises from the save before a burst, through it, to the one after it."""
    at = members.index(burst[0])
    around = members[max(0, at - 1) : at + len(burst) + 1]
    progress = [found for each in around if (found := copies.read_progress(each.checkpoint)) is not None]
    is_between = at > 0 and at + len(burst) < len(members) and len(progress) == len(around)
    return is_between and all(low < high for low, high in pairwise(progress))


def _split(members: Sequence[RecordedCheckpoint], gap: float) -> Iterator[list[RecordedCheckpoint]]:
    """Split a series where more than a gap lies between two checkpoints."""
    run = list(members[:1])
    for one, later in pairwise(members):
        if _written(later) - _written(one) >= gap:
            yield run
            run = []
        run.append(later)
    yield run


def _written(record: RecordedCheckpoint) -> float:
    return record.checkpoint.modified_at.timestamp()
