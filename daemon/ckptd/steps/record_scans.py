"""Scans directories and records the results."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ckptd.checkpoints.agent.client import NOT_REACHED
from ckptd.checkpoints.agent.scan_answers import ScanAnswer
from ckptd.checkpoints.agent.scan_client import (
    JobPlaces,
    KnownRows,
    request_scans,
    rescan_as_answered,
    rescan_runs,
)
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import RunKey, Scan, Unknown
from ckptd.core.model.records import RevisionRise, ScanRecord
from ckptd.core.node_scans.node_directories import is_on_nodes
from ckptd.core.runs import ownership, progress
from ckptd.steps import compared_scans
from ckptd.steps.compared_scans import ComparedScan
from ckptd.steps.event_counter import list_saves
from ckptd.steps.file_system_turns import charge_scans
from ckptd.steps.known_checkpoints import KnownCheckpoints
from ckptd.steps.parts import Parts
from ckptd.steps.run_facts import FreeSpaceSamples
from ckptd.steps.scan_groups import MAX_ENTRIES, LargeDirectories, ScanGroups, split_by_size
from ckptd.steps.snapshots import JobResultOffers
from ckptd.steps.state import State
from ckptd.store.recorded_rows import NO_ROWS

MAX_READ = 100  # directories of one request that are read because they changed; the others stay due


def rescan_directories(
    parts: Parts, state: State, due: list[WatchedRun], now: datetime, groups_at_once: int = 1
) -> bool:
    """Scan directories again; of those in which nothing changed, neither list nor compare the checkpoints.

    So many groups of the others are scanned at once. Return whether anything else was found than by the last scans. The
    results themselves are not kept: with their checkpoints, those of all owners' directories take tens of megabytes.
    """
    keys = [each.key for each in due]
    with state.record_lock:
        settled = parts.store.settled_scans.read(keys)
    asked = [(each.key, settled[each.key], each.last) for each in due if each.key in settled]
    rescanned: dict[RunKey, Scan | Unknown] = {}
    if asked:
        places = _read_places(parts, state, [key for key, _, _ in asked])
        answers = rescan_runs(parts.agent, asked, parts.limits, now, places)
        charge_scans(parts, state, zip((key for key, _, _ in asked), answers, strict=True))
        rescanned = {key: scan for (key, _, _), scan in zip(asked, answers, strict=True) if scan is not None}
        with state.recording():
            _record_rescans(parts, state, due, rescanned, now)
    others = [each for each in due if each.key not in rescanned][:MAX_READ]
    answered = [(each, scan) for each in due if (scan := rescanned.get(each.key, NOT_REACHED)) is not NOT_REACHED]
    has_changes = any(not is_unchanged(each, scan) for each, scan in answered)
    scans = _scan_in_turn(parts, state, ScanGroups(others), now, groups_at_once)
    for each, found in zip(others, scans, strict=True):
        has_changes = has_changes or not is_unchanged(each, found)
    return has_changes


def rescan_owners(
    parts: Parts, state: State, due: Sequence[WatchedRun], now: datetime
) -> Iterator[dict[RunKey, Scan | Unknown | None]]:
    """Scan directories of several owners again where nothing changed; yield the results that were recorded.

    All directories of an owner come at once. None: the owner's task must scan it.
    """
    keys = [each.key for each in due]
    with state.record_lock:
        settled = parts.store.settled_scans.read(keys)
    unsettled = {key.uid for key in keys if key not in settled}
    if unsettled:
        yield {key: None for key in keys if key.uid in unsettled}
    asked = [(each.key, settled[each.key], each.last) for each in due if each.key.uid not in unsettled]
    if not asked:
        return
    places = _read_places(parts, state, [key for key, _, _ in asked])
    for found in rescan_as_answered(parts.agent, asked, parts.limits, now, places):
        charge_scans(parts, state, found.items())
        with state.recording():
            _record_rescans(parts, state, due, {key: scan for key, scan in found.items() if scan is not None}, now)
        yield found


def is_unchanged(watched: WatchedRun, found: Scan | Unknown) -> bool:
    """Whether a scan shows the same files as the last one: a decision about it can wait until the next poll."""
    last = watched.last
    if not isinstance(last, Scan) or not isinstance(found, Scan):
        return False
    return found.fingerprint is not None and found.fingerprint == last.fingerprint


def _scan_in_turn(
    parts: Parts, state: State, groups: ScanGroups, now: datetime, at_once: int
) -> Iterator[Scan | Unknown]:
    """Scan and record groups of directories of one owner; scan further groups while one is recorded.

    The results have no checkpoints.
    """
    first = groups.take()
    if groups.is_empty:
        if first:
            before = _read_record(parts, state, first)
            yield from _decode_and_record(parts, state, first, before, _scan(parts, first, before, now), now)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="scan-ahead") as ahead:

        def begin(group: list[WatchedRun]) -> _BegunGroup:
            before = _read_record(parts, state, group)
            return _BegunGroup(group, before, ahead.submit(_scan, parts, group, before, now))

        begun = deque([begin(first)])
        while begun:
            while len(begun) < at_once and (further := groups.take()):
                begun.append(begin(further))
            group, before, scanning = begun.popleft()
            answers = scanning.result()
            groups.note(each.entry_count for each in answers if isinstance(each, ScanAnswer))
            if following := groups.take():
                begun.append(begin(following))
            yield from _decode_and_record(parts, state, group, before, answers, now)


def scan_directories(
    parts: Parts, state: State, due: list[WatchedRun], now: datetime, reread: Collection[str] | None = None
) -> list[Scan | Unknown]:
    """Scan and record; read the checkpoints at the paths to reread again even if they did not change.

    The results have all checkpoints that were found. With such paths, none or some, something may be removed after it:
    each directory then has a parser of its own.
    """
    if not due:
        return []
    before = _read_record(parts, state, due, reread)
    answers = _scan(parts, due, before, now)
    found = [each.decode() if isinstance(each, ScanAnswer) else each for each in answers]
    for some in split_by_size(zip(due, found, strict=True), _count_checkpoints):
        _record(parts, state, some, before, now)
    parts.runner.note_scanned()
    return [before.known[each.key].complete(scan) for each, scan in zip(due, found, strict=True)]


def record_on_node(parts: Parts, state: State, watched: WatchedRun, found: Scan | Unknown, now: datetime) -> None:
    """Record the scan of a location that only nodes see, or why there is none.

    Whatever the problems of the scan say, checkpoints that it does not have count as deleted.
    """
    key = watched.key
    with state.recording():
        recorded = parts.store.checkpoints.read_many([key]).get(key, ())
        record = ScanRecord(run=key, scan=found)
        if isinstance(found, Scan):
            known = parts.store.checkpoints.read_last_scans(parts.cluster, [key])
            writers = ownership.find_writers(key, known.get(key, ownership.PreviousScan()), watched.observed_at, now)
            changes = progress.merge_scan(
                recorded, replace(found, problems=()), writers, compared_scans.find_end(found, now)
            )
            record = ScanRecord(run=key, scan=found, changes=changes)
        _publish_records(parts, state, [watched], [record], now)
    state.events.count_checkpoints(recorded, record.changes, list_saves(recorded))
    state.decision_due.set()


class _OnRecord(NamedTuple):
    """What is on record of some directories before they are scanned."""

    revisions: Mapping[RunKey, int]
    known: dict[RunKey, KnownCheckpoints]
    sent: dict[RunKey, KnownRows]  # what the agent is to know of them
    places: JobPlaces
    shares_parser: bool


class _BegunGroup(NamedTuple):
    """A group of directories whose scan has begun."""

    due: list[WatchedRun]
    before: _OnRecord
    answers: Future[list[ScanAnswer | Unknown]]


def _read_record(
    parts: Parts, state: State, due: Sequence[WatchedRun], reread: Collection[str] | None = None
) -> _OnRecord:
    keys = [each.key for each in due]
    # after a restart, a directory whose last scan is not known may have any number on record
    expected = sum(each.last.entry_count if isinstance(each.last, Scan) else MAX_ENTRIES + 1 for each in due)
    with state.own(LargeDirectories, LargeDirectories).wait_for_turn(expected):
        with state.record_lock:
            revisions = parts.store.runs.read_revisions_of(keys)  # first: a later change makes them outdated
            present = parts.store.checkpoints.read_present(keys)
        known = {key: KnownCheckpoints(present.pop(key, NO_ROWS), reread or ()) for key in keys}
        sent = {key: each.encode() for key, each in known.items()}
    places = _read_places(parts, state, keys)
    if reread is None:  # what jobs of the owners say is not enough for a removal
        offers = state.latest(JobResultOffers).by_run
        places = replace(places, results={key: offers[key] for key in keys if key in offers})
    return _OnRecord(revisions, known, sent, places, shares_parser=reread is None)


def _scan(parts: Parts, due: Sequence[WatchedRun], before: _OnRecord, now: datetime) -> list[ScanAnswer | Unknown]:
    here = [each for each in due if not is_on_nodes(each.key.directory, parts.node_scans.directories)]
    asked = [(each.key, before.sent[each.key], each.last) for each in here]
    shares = before.shares_parser
    answers = iter(request_scans(parts.agent, asked, parts.limits, now, before.places, shares_parser=shares))
    if len(here) == len(due):
        return [*answers]
    # what is here by that name is another directory
    return [
        NOT_REACHED if is_on_nodes(each.key.directory, parts.node_scans.directories) else next(answers) for each in due
    ]


def _decode_and_record(
    parts: Parts,
    state: State,
    due: Sequence[WatchedRun],
    before: _OnRecord,
    answers: Sequence[ScanAnswer | Unknown],
    now: datetime,
) -> list[Scan | Unknown]:
    """Record what scans of one request found; much of it in several transactions, between which others record.

    Return the results without their checkpoints. What was on record of each directory is removed from `before`.
    """
    large = state.own(LargeDirectories, LargeDirectories)
    found: list[Scan | Unknown] = []
    for some in split_by_size(zip(due, answers, strict=True), _count_checkpoints):
        with large.wait_for_turn(sum(_count_checkpoints(each) for _, each in some)):
            scanned = [(watched, each.decode() if isinstance(each, ScanAnswer) else each) for watched, each in some]
            _record(parts, state, scanned, before, now)
            found += [_without_checkpoints(each) for _, each in scanned]
            for watched, _ in some:  # before the next turn begins
                del before.known[watched.key], before.sent[watched.key]
            del scanned
    parts.runner.note_scanned()
    return found


def _without_checkpoints(found: Scan | Unknown) -> Scan | Unknown:
    return replace(found, checkpoints=(), unchanged=()) if isinstance(found, Scan) else found


def _count_checkpoints(found: ScanAnswer | Scan | Unknown) -> int:
    if isinstance(found, ScanAnswer):
        return found.checkpoint_count
    return len(found.checkpoints) if isinstance(found, Scan) else 0


def _record(
    parts: Parts,
    state: State,
    scanned: Collection[tuple[WatchedRun, Scan | Unknown]],
    before: _OnRecord,
    now: datetime,
) -> None:
    """Record results in one transaction."""
    charge_scans(parts, state, ((watched.key, found) for watched, found in scanned))
    answered = [pair for pair in scanned if pair[1] is not NOT_REACHED]
    if not answered:
        return
    with state.recording():
        compared = compared_scans.compare_scans(parts, answered, before.known)
        records, written = _record_scans(parts, state, answered, compared, now)
        updates = compared_scans.list_updates(records, compared, before.revisions, written)
        for run, update in updates.items():
            parts.store.histories.fresh.keep(run, update)
        if written:
            state.decision_due.set()  # as long as what was recorded is in memory
        alone = {run: each for run, each in updates.items() if before.revisions.get(run) == written[run].before}
        settled = compared_scans.list_settled(records, before.revisions) | compared_scans.settle_updates(
            records, compared, alone, now
        )
        parts.store.settled_scans.record(settled)
        _withdraw_offers(state, answered, before.places)


def _withdraw_offers(state: State, answered: Iterable[tuple[WatchedRun, Scan | Unknown]], places: JobPlaces) -> None:
    """Offer no result again that a recorded scan has taken; what it did not believe is left to this node."""
    runs = [each.key for each, found in answered if isinstance(found, Scan)]
    if taken := {run: places.results[run] for run in runs if run in places.results}:
        state.change(JobResultOffers, lambda offers: offers.without(taken))


def _read_places(parts: Parts, state: State, keys: list[RunKey]) -> JobPlaces:
    with state.record_lock:
        work_dirs = parts.store.runs.read_work_dirs(keys)
        asked = parts.store.runs.read_open_resumes(keys)
    return JobPlaces(
        work_dirs=work_dirs,
        resuming_jobs={key: each.job_ids for key, each in asked.items()},
        candidates={key: (each.started_at, each.candidates) for key, each in asked.items() if each.candidates},
    )


def _record_rescans(
    parts: Parts,
    state: State,
    due: Iterable[WatchedRun],
    rescanned: Mapping[RunKey, Scan | Unknown],
    now: datetime,
) -> None:
    """Record scans that found no checkpoint changed."""
    answered = {key: scan for key, scan in rescanned.items() if scan is not NOT_REACHED}
    free_space = state.latest(FreeSpaceSamples)
    records = [
        ScanRecord(
            run=key, scan=scan, free_space_samples=free_space.sample(key, scan) if isinstance(scan, Scan) else None
        )
        for key, scan in answered.items()
    ]
    _publish_records(parts, state, due, records, now)


def _record_scans(
    parts: Parts,
    state: State,
    scanned: Collection[tuple[WatchedRun, Scan | Unknown]],
    compared: Mapping[RunKey, ComparedScan],
    now: datetime,
) -> tuple[list[ScanRecord], dict[RunKey, RevisionRise]]:
    """Record the results of scans in one transaction, then publish them; if recording fails, the scans are repeated.

    Returned are the results, and the revisions of the runs with changes that are all on record.
    """
    known = parts.store.checkpoints.read_last_scans(parts.cluster, [watched.key for watched, _ in scanned])
    records: list[ScanRecord] = []
    free_space = state.latest(FreeSpaceSamples)
    for watched, answer in scanned:
        key = watched.key
        if isinstance(answer, Unknown):
            records.append(ScanRecord(run=key, scan=answer))
            continue
        writers = ownership.find_writers(key, known.get(key, ownership.PreviousScan()), watched.observed_at, now)
        scan = compared[key].scan
        known_there = compared[key].known
        changes = progress.merge_scan(
            compared[key].recorded, scan, writers, compared_scans.find_end(scan, now), known_there
        )
        records.append(ScanRecord(run=key, scan=scan, changes=changes, free_space_samples=free_space.sample(key, scan)))
    written = _publish_records(parts, state, [watched for watched, _ in scanned], records, now)
    for record in records:
        if (before := compared.get(record.run)) is not None:
            state.events.count_checkpoints(before.recorded, record.changes, before.known.list_saves())
    return records, written


def _publish_records(
    parts: Parts, state: State, due: Iterable[WatchedRun], records: Collection[ScanRecord], now: datetime
) -> dict[RunKey, RevisionRise]:
    """Record the results of scans in one transaction, then publish them; return the revisions of runs with changes."""
    risen = parts.store.checkpoints.record_scans(records) if records else {}
    same = {record.run: risen[record.run] for record in records if record.changes.is_empty and record.run in risen}
    parts.store.histories.fresh.keep_same(same)
    sampled = {record.run: record.free_space_samples for record in records if record.free_space_samples is not None}
    state.change(FreeSpaceSamples, lambda samples: samples.with_samples(sampled))
    scanned = {each.key: each for each in due}
    for record in records:
        state.watchlist.record_scan(record.run, record.scan, now, scanned[record.run])
    return {run: rise for run, rise in risen.items() if run not in same}
