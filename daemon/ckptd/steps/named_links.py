"""Follows the links by which jobs, their owners, scripts or the site name checkpoint directories, when they move.

`latest` leads to `run_1` when a job is searched for, and to `run_2` after its restart. A job that has saved nothing for
longer than usual is asked again where the same name leads: as its owner, below the site's allowed roots.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckptd.checkpoints.agent.scan_client import CheckpointLocation, locate_jobs
from ckptd.checkpoints.scanning.locate import plan_candidates
from ckptd.core.discovery import batch_script, declared
from ckptd.core.discovery.nearby_candidates import PATIENCE, DirectorySearch
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import RunKey, RunRecord, Unknown
from ckptd.core.model.records import LocationRecord
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.earlier_directories import name_earlier
from ckptd.steps import declared_locations
from ckptd.steps.packed_checkpoints import last_modified_at
from ckptd.steps.parts import Parts
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import State
from ckptd.steps.tracked_jobs import list_tracked

SILENT_INTERVALS = 1.5  # without a save, until it is asked where a name leads
ASK_GAP = timedelta(minutes=5)  # between two questions for one run
LONGER_GAP = 4  # ... and at least this part of the time without a save


@dataclass(slots=True)
class LinkSlice:
    """State of this module alone."""

    asked_at: dict[RunKey, datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _SilentRun:
    """A run with one running job that has saved nothing for longer than usual."""

    watched: WatchedRun
    record: RunRecord
    known: TrackedJob


def follow_links(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> None:
    """Ask where the names of silent runs of one owner lead; watch the new directory, with the old one as an earlier."""
    silent = _list_silent(parts, state, due, now)
    if not silent:
        return
    memory = state.own(LinkSlice, LinkSlice)
    # a copy: other owners' scans add to it meanwhile
    memory.asked_at = asked_at = {key: at for key, at in dict(memory.asked_at).items() if key in state.watchlist}
    asked: list[tuple[_SilentRun, DirectorySearch]] = []
    for each in silent:
        asked_at[each.watched.key] = now
        if (sought := _plan(parts, each)) is not None:
            asked.append((each, sought))
    if not asked:
        return
    answers = locate_jobs(parts.agent, [sought for _, sought in asked], parts.site_rules, parts.limits)
    moved: list[tuple[WatchedRun, LocationRecord]] = []
    with state.recording():
        for (each, sought), found in zip(asked, answers, strict=True):
            if not isinstance(found, Unknown) and _leads_elsewhere(found, each, sought):
                moved.append((each.watched, _make_record(parts, state, each, sought, found)))
        declared_locations.record_moves(parts, state, moved, now)


def must_ask(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> bool:
    """Whether `follow_links` asks where the name of one of these runs leads."""
    return bool(_list_silent(parts, state, due, now))


def _list_silent(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> list[_SilentRun]:
    histories = state.latest(RunHistories).by_run
    memory = state.own(LinkSlice, LinkSlice)
    named = {
        each.key: (each, record)
        for each in due
        if not each.is_last_scan
        and (record := histories.get(each.key)) is not None
        and record.located_by in declared.NAMING_PLACES
    }
    silent: list[_SilentRun] = []
    for key, (watched, record) in named.items():
        jobs = [known for known in list_tracked(state, key) if known.is_open and known.attempt is not None]
        if not jobs:
            continue
        silence = _measure_silence(record, jobs[0], now)
        asked_at = memory.asked_at.get(key)
        is_asked_lately = asked_at is not None and abs(now - asked_at) < max(ASK_GAP, silence / LONGER_GAP)
        if len(jobs) > 1 or is_asked_lately or silence < ASK_GAP:
            continue
        is_long = silence >= (measure_rhythm(record).step_interval or PATIENCE) * SILENT_INTERVALS
        if is_long and not _is_no_link(parts, watched, record, jobs[0]):
            silent.append(_SilentRun(watched=watched, record=record, known=jobs[0]))
    return silent


def _is_no_link(parts: Parts, watched: WatchedRun, record: RunRecord, known: TrackedJob) -> bool:
    """Whether a comment or the site's rule names the watched directory itself, which the last scan could still open."""
    if watched.is_unknown:
        return False
    named = [each for each in plan_candidates(known.job, parts.site_rules) if each.located_by == record.located_by]
    return any(declared.means(each.path, known.job, watched.key.directory) for each in named)


def _measure_silence(record: RunRecord, known: TrackedJob, now: datetime) -> timedelta:
    assert known.attempt is not None
    saved_at = last_modified_at(record.checkpoints)
    return now - (known.attempt.started_at if saved_at is None else max(known.attempt.started_at, saved_at))


def _plan(parts: Parts, silent: _SilentRun) -> DirectorySearch | None:
    """Return what to ask; None where the script that names the directory cannot be read now."""
    assert silent.known.attempt is not None
    job, began_at = silent.known.job, silent.known.attempt.started_at
    sought = declared_locations.with_values(
        parts, DirectorySearch(job=job, since=began_at, began_at=began_at, is_declared_only=True)
    )
    if silent.record.located_by != "batch-script":
        return sought
    script = parts.source.read_batch_script(job) if parts.reads_batch_scripts else None
    if script is None or isinstance(script, Unknown):
        return None
    return replace(sought, script_paths=batch_script.read_places(script, job, sought.values).paths)


def _leads_elsewhere(found: CheckpointLocation, silent: _SilentRun, sought: DirectorySearch) -> bool:
    """Whether the same name leads to a directory that the scans of the watched one do not see.

    One that a script names as it stands is no link: it was there before, or is for something else.
    """
    if found.directory is None or found.located_by != silent.record.located_by:
        return False
    if found.directory.is_relative_to(silent.watched.key.directory):
        return False
    return not any(declared.means(path, sought.job, str(found.directory)) for path in sought.script_paths)


def _make_record(
    parts: Parts, state: State, silent: _SilentRun, sought: DirectorySearch, found: CheckpointLocation
) -> LocationRecord:
    """Return the new location of the whole run; of this job alone where another run is known to save there."""
    key = silent.watched.key
    located = declared_locations.make_record(parts, sought, found, [silent.known.key])
    if located.run in state.watchlist:
        return located
    copies = name_earlier(key, located.run, state.watchlist.copies_of(key))
    return replace(located, copies=copies, continues=key)
