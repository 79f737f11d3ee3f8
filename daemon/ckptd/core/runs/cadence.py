"""How a run saves, as measured over all of its attempts: how often, how long, how much, how fast it gets on."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, takewhile
from statistics import median
from typing import NamedTuple, TypeVar

from ckptd.core.model import Attempt, RecordedCheckpoint, RunRecord
from ckptd.core.model.save_cadence import SaveCadence
from ckptd.core.runs import history as facts
from ckptd.core.runs import suspension
from ckptd.core.runs.checkpoint_readers import find_readers
from ckptd.core.runs.resumable import list_resumable

BURST = timedelta(seconds=10)  # copies such as `last` and `best` follow the save that they copy within this time
RunT = TypeVar("RunT", bound=RunRecord)
RECENT_COUNT = 24  # newest intervals that are measured, so that a change of habit is followed
CHANGE_COUNT = 4  # newest intervals that agree and differ from earlier ones: the run has changed its interval
CHANGE_FACTOR = 2  # by which they are longer or shorter
CHANGE_SPREAD = 0.25  # by which each may differ from their median
SPREAD_PER_MAD = 1.4826  # a normal distribution's standard deviation, in median absolute deviations


class SaveEvent(NamedTuple):
    """One save event: a checkpoint with the copies that were made of it at once."""

    completed_at: datetime
    ended_at: datetime  # of its last copy
    began_at: datetime | None  # the scan that saw it being written; None: no scan did
    found_at: datetime  # the first scan that saw it
    size_bytes: int
    epoch: float | None
    step: int | None


class _Interval(NamedTuple):
    """The time between two saves of one attempt, while it ran."""

    earlier: SaveEvent
    later: SaveEvent
    length: timedelta

    @classmethod
    def between(cls, attempt: Attempt, earlier: SaveEvent, later: SaveEvent) -> "_Interval":
        return cls(earlier, later, _ran(attempt, earlier.completed_at, later.completed_at))


def measure_rhythm(history: RunRecord) -> SaveCadence:
    """Measure over all attempts, unless it was measured already.

    A pause between attempts is no interval, and the time in which a job was suspended is left out of one.
    """
    return history.rhythm or _measure(history)


def with_rhythm(history: RunT) -> RunT:
    """Return a history with its rhythm, measured once for all that ask; as it is where that fails, as it fails them."""
    if history.rhythm is not None:
        return history
    try:
        return replace(history, rhythm=_measure(history))
    except Exception:  # noqa: BLE001 - each rule that asks for it is told so, and no other
        return history


def _measure(history: RunRecord) -> SaveCadence:
    readers = find_readers(history)
    shared = _SharedSaves(history)
    by_attempt = [(attempt, shared.list_of(attempt)) for attempt in history.attempts if attempt.job not in readers]
    pairs = [_Interval.between(*each) for each in islice(_list_pairs(by_attempt), RECENT_COUNT)][::-1]
    recent = [each.length for each in pairs]
    gaps = _list_since_change(recent)
    firsts = [_ran(attempt, attempt.started_at, saves[0].completed_at) for attempt, saves in by_attempt if saves]
    if history.is_truncated:
        firsts = firsts[1:]  # what is left of a long attempt does not tell when it saved first
    durations = _list_last(
        save.completed_at - save.began_at for save in _list_newest(by_attempt) if save.began_at is not None
    )
    growths = [each.later.size_bytes - each.earlier.size_bytes for each in pairs]
    middle = median_duration(gaps)
    least = _list_last(save.completed_at - (save.began_at or save.completed_at) for save in _list_newest(by_attempt))
    lags = _list_last(save.found_at - save.completed_at for save in _list_newest(by_attempt) if save.began_at is None)
    lag = median_duration(lags)
    return SaveCadence(
        interval=middle,
        interval_count=len(gaps),
        longest_recent=max(recent[-CHANGE_COUNT:], default=None),
        save_time=_upper_half(durations),
        least_save_time=median_duration(least),
        unseen_time=None if lag is None else max(lag * 2, timedelta(0)),  # scans may come at any moment in between
        interval_spread=_spread(gaps, middle),
        time_to_first=median_duration(firsts),
        save_count=sum(len(saves) for _, saves in by_attempt),
        seen_save_count=len(durations),
        size_bytes=next((each.size_bytes for each in _list_newest(by_attempt)), None),
        growth_bytes=int(median(growths)) if growths else None,
        time_per_epoch=_time_per("epoch", by_attempt),
        time_per_step=_time_per("step", by_attempt),
    )


_ByAttempt = Sequence[tuple[Attempt, Sequence[SaveEvent]]]
ValueT = TypeVar("ValueT")


def _list_newest(by_attempt: _ByAttempt) -> Iterator[SaveEvent]:
    """Yield the saves of attempts, those of the last attempt first, newest first."""
    return (save for _, saves in reversed(by_attempt) for save in reversed(saves))


def _list_pairs(by_attempt: _ByAttempt) -> Iterator[tuple[Attempt, SaveEvent, SaveEvent]]:
    """Yield each save and the one after it in the same order, with their attempt."""
    for attempt, saves in reversed(by_attempt):
        for place in range(len(saves) - 1, 0, -1):
            yield attempt, saves[place - 1], saves[place]


def _list_last(newest: Iterable[ValueT]) -> list[ValueT]:
    """Return the newest values, the oldest of them first."""
    return [*islice(newest, RECENT_COUNT)][::-1]


def _list_since_change(gaps: list[timedelta]) -> list[timedelta]:
    """Return the intervals since a run changed how often it saves; all of them where it did not."""
    now, before = median_duration(gaps[-CHANGE_COUNT:]), median_duration(gaps[:-CHANGE_COUNT])
    if now is None or before is None or before / CHANGE_FACTOR < now < before * CHANGE_FACTOR:
        return gaps
    since = [*takewhile(lambda gap: abs(gap - now) <= CHANGE_SPREAD * now, reversed(gaps))][::-1]
    return since if len(since) >= CHANGE_COUNT else gaps


def saves_of(history: RunRecord, attempt: Attempt) -> Sequence[SaveEvent]:
    """Return the saves that were completed while an attempt ran, oldest first; data beside states are none."""
    return _SharedSaves(history).list_of(attempt)


class _SharedSaves:
    """The saves of a run. Attempts that ran side by side, such as tasks of an array, share what was saved meanwhile."""

    def __init__(self, history: RunRecord) -> None:
        completed = [
            (record.completed_at, record)
            for record in list_resumable(history.checkpoints)
            if record.completed_at is not None
        ]
        self._completed = sorted(completed, key=lambda entry: entry[0])
        self._instants = [at for at, _ in self._completed]
        self._grouped: dict[tuple[int, int], Sequence[SaveEvent]] = {}

    def list_of(self, attempt: Attempt) -> Sequence[SaveEvent]:
        """Return what `saves_of` does."""
        end = attempt.ended_at
        first = bisect_left(self._instants, attempt.started_at)
        last = len(self._instants) if end is None else bisect_right(self._instants, end)
        if (first, last) not in self._grouped:
            self._grouped[first, last] = _group(self._completed[first:last])
        return self._grouped[first, last]


def _group(completed: Iterable[tuple[datetime, RecordedCheckpoint]]) -> list[SaveEvent]:
    groups: list[list[tuple[datetime, RecordedCheckpoint]]] = []
    for entry in completed:
        if groups and _is_copy(groups[-1][0], entry):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return [_save(group) for group in groups]


def _is_copy(first: tuple[datetime, RecordedCheckpoint], later: tuple[datetime, RecordedCheckpoint]) -> bool:
    """Whether a checkpoint is part of the save before it: the same progress, or at once where none is known.

    What is behind it at once, under another name, is a backup of the save before that: GROMACS copies the one that it
    replaces to `state_prev.cpt`.
    """
    one, other = facts.progress(first[1].checkpoint), facts.progress(later[1].checkpoint)
    is_at_once = later[0] - first[0] <= BURST
    if one is not None and other is not None and one[0] == other[0]:
        is_before = other < one and is_at_once
        return one == other or (is_before and first[1].checkpoint.path != later[1].checkpoint.path)
    return is_at_once


def _save(group: Sequence[tuple[datetime, RecordedCheckpoint]]) -> SaveEvent:
    completed_at, first = group[0]
    save = SaveEvent(
        completed_at=completed_at,
        ended_at=completed_at,
        began_at=_began_at(first, completed_at),
        found_at=first.first_seen_at,
        size_bytes=first.checkpoint.size_bytes,
        epoch=first.checkpoint.epoch,
        step=first.checkpoint.step,
    )
    for ended_at, record in group[1:]:
        began = [at for at in (save.began_at, _began_at(record, completed_at)) if at is not None]
        copy = record.checkpoint
        save = save._replace(
            ended_at=ended_at,
            began_at=min(began, default=None),
            found_at=min(save.found_at, record.first_seen_at),
            size_bytes=max(save.size_bytes, copy.size_bytes),
            epoch=copy.epoch if save.epoch is None else save.epoch,
            step=copy.step if save.step is None else save.step,
        )
    return save


def _began_at(record: RecordedCheckpoint, completed_at: datetime) -> datetime | None:
    """Return since when a part of a save was seen being written, where that is not after the save."""
    at = record.started_writing_at
    return at if at is not None and at <= completed_at else None


def _spread(gaps: Sequence[timedelta], middle: timedelta | None) -> timedelta | None:
    if middle is None or len(gaps) < 2:
        return None
    deviation = median_duration([abs(gap - middle) for gap in gaps])
    return deviation * SPREAD_PER_MAD if deviation is not None else None


def _upper_half(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the upper quartile: each duration is a lower bound, because a scan may see a save only after it began."""
    return sorted(durations)[(3 * (len(durations) - 1) + 2) // 4] if durations else None


def _time_per(unit: str, by_attempt: _ByAttempt) -> timedelta | None:
    rates: list[timedelta] = []
    for attempt, earlier, later in _list_pairs(by_attempt):
        before, after = (earlier.step, later.step) if unit == "step" else (earlier.epoch, later.epoch)
        if before is not None and after is not None and after > before:
            rates.append(_ran(attempt, earlier.completed_at, later.completed_at) / (after - before))
            if len(rates) == RECENT_COUNT:
                break
    return median_duration(rates)


def _ran(attempt: Attempt, since: datetime, until: datetime) -> timedelta:
    """Return how long an attempt ran between two instants: all of it where it seems to never have run."""
    whole = until - since
    idle = suspension.within(attempt.suspensions, since, until)
    return whole - idle if idle < whole else whole


def median_duration(durations: Sequence[timedelta]) -> timedelta | None:
    """The median; None of nothing."""
    return timedelta(seconds=median(each.total_seconds() for each in durations)) if durations else None
