"""Joins what earlier starts of a run saved in other directories to its record.

Some programs save into a new directory each time they start: Lightning's loggers in `version_1` after `version_0`,
others in one that is named for the time. What they saved before is where a restart resumes from, or fails to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckptd.core.model import (
    AttemptProgress,
    CopyLocation,
    NamedLocation,
    RecordedCheckpoint,
    RunKey,
    RunRecord,
    Scan,
    Unknown,
)
from ckptd.core.runs.attempt_progress import list_saved, measure_reaches
from ckptd.core.runs.cadence import with_rhythm

MAX_EARLIER = 4  # directories of one run, the latest: a job may start a hundred times


def name_earlier(left: RunKey, new: RunKey, known: Iterable[NamedLocation]) -> tuple[NamedLocation, ...]:
    """Return the further locations of a run that now saves in the directory `new` instead of `left`."""
    others = [each for each in known if each.directory not in {left.directory, new.directory}]
    earlier = [NamedLocation(left.directory, is_earlier=True), *(each for each in others if each.is_earlier)]
    return (*earlier[:MAX_EARLIER], *(each for each in others if not each.is_earlier))


def keep_earlier(
    named: tuple[NamedLocation, ...] | None, known: Iterable[NamedLocation]
) -> tuple[NamedLocation, ...] | None:
    """Return the copies that a search found, with the earlier directories that were known; None: nobody searched."""
    if named is None:
        return None
    places = {each.directory for each in named}
    return (*(each for each in known if each.is_earlier and each.directory not in places), *named)


def join_earlier(record: RunRecord, locations: Sequence[CopyLocation]) -> RunRecord:
    """Return a run's record with its further locations, and with the checkpoints of the earlier ones among its own.

    One that is on record of both, because an earlier directory is below the present one, is taken from the earlier one,
    whose record knows which attempt wrote it.
    """
    copies = tuple(each for each in locations if not each.is_earlier)
    earlier = tuple(each for each in locations if each.is_earlier)
    if not earlier:
        return replace(record, copies=copies)
    added = [each for location in earlier for each in location.checkpoints]
    twice = {_name(each) for each in added if each.deleted_at is None}
    own = [each for each in record.checkpoints if each.deleted_at is not None or _name(each) not in twice]
    reaches = record.reaches
    if reaches is not None:
        reaches = tuple(map(_join_reach, reaches, measure_reaches(record.attempts, list_saved(added))))
    joined = replace(
        record,
        copies=copies,
        earlier=earlier,
        checkpoints=tuple(sorted([*own, *added], key=_age_order)),
        scan=_with_unread(record.scan, earlier),
        reaches=reaches,
        rhythm=None,
    )
    return joined if record.rhythm is None else with_rhythm(joined)


def directory_of(record: RunRecord, found: RecordedCheckpoint) -> str:
    """Return the directory of a run that a checkpoint on its record is in."""
    places = (each.directory for each in record.earlier if found.checkpoint.path.is_relative_to(each.directory))
    return next(places, record.key.directory)


def _name(recorded: RecordedCheckpoint) -> tuple[object, ...]:
    return recorded.checkpoint.path, recorded.checkpoint.format


def _age_order(recorded: RecordedCheckpoint) -> tuple[object, ...]:
    return recorded.first_seen_at, recorded.checkpoint.modified_at, recorded.checkpoint.path


def _with_unread(scan: Scan | Unknown | None, earlier: Iterable[CopyLocation]) -> Scan | Unknown | None:
    """Return the last scan of a run with the earlier directories that could not be read as problems."""
    unread = [
        Unknown(what=each.directory, reason="it was not read completely") for each in earlier if not each.was_read_whole
    ]
    return replace(scan, problems=(*scan.problems, *unread)) if unread and isinstance(scan, Scan) else scan


def _join_reach(one: AttemptProgress, other: AttemptProgress) -> AttemptProgress:
    return AttemptProgress(
        one.save_count + other.save_count, _join_range(one.steps, other.steps), _join_range(one.epochs, other.epochs)
    )


def _join_range(one: tuple[float, float] | None, other: tuple[float, float] | None) -> tuple[float, float] | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])
