"""Sends requests to the agent to find and scan directories as their owners, and decodes the answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ckptd.checkpoints.agent import search_items
from ckptd.checkpoints.agent.answer_pieces import PackedItems, count_items
from ckptd.checkpoints.agent.batches import BatchRunner, decode_answer, run_items, run_items_as_answered
from ckptd.checkpoints.agent.client import Answer
from ckptd.checkpoints.agent.field_checks import MAX_PATH_BYTES
from ckptd.checkpoints.agent.requests import MAX_ITEMS
from ckptd.checkpoints.agent.scan_answers import ScanAnswer, decode_scan_of, limit_counts, with_quota
from ckptd.checkpoints.scanning import copy_locations
from ckptd.checkpoints.scanning.locate import SiteRule
from ckptd.checkpoints.scanning.pointers import decode_link
from ckptd.checkpoints.scanning.tree_fingerprint import CHANGED
from ckptd.checkpoints.scanning.workspaces import decode_workspace
from ckptd.core.discovery.nearby_candidates import DirectorySearch, FoundDirectory, NumberedSave
from ckptd.core.model import (
    NamedLocation,
    Role,
    RunKey,
    Scan,
    SeenLink,
    Unknown,
    Workspace,
)
from ckptd.core.model.records import SettledScan

Value = TypeVar("Value")
KnownRow = Sequence[Any]  # a checkpoint on record, as `encode_content` writes it
KnownRows = Sequence[KnownRow] | PackedItems
QUOTA_GAP = timedelta(minutes=5)  # between two queries for one directory, however often it is scanned


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanLimits:
    """Limit of a scan or search. All other limits are in the agent's own configuration."""

    deadline: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointLocation:
    """The location of a job's checkpoints. Without one, empty `problems` mean that the search was complete."""

    directory: PurePosixPath | None
    located_by: str | None
    user_settings: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    found: FoundDirectory | None = None  # by a search
    copies: tuple[NamedLocation, ...] = ()  # further directories that are named for its checkpoints
    entry_count: int = field(default=0, compare=False)  # directory entries that a search read


def locate_jobs(
    agent: BatchRunner, searches: Sequence[DirectorySearch], rules: Iterable[SiteRule], limits: ScanLimits
) -> list[CheckpointLocation | Unknown]:
    """Find the checkpoint directory of each job; return the results in the given order.

    Where a working directory turns out to be a link, the directories of all other jobs are excluded, and sent with
    another search: those below the link cannot be known by their paths.
    """
    rules = tuple(rules)
    found = _locate(agent, searches, rules, limits)
    linked = [place for place, each in enumerate(found) if _is_found_through_link(searches[place], each)]
    if linked:
        again = _locate(agent, [searches[place].exclude_all() for place in linked], rules, limits)
        for place, each in zip(linked, again, strict=True):
            found[place] = _add_entries(each, found[place])
    return found


def _add_entries(
    answer: CheckpointLocation | Unknown, before: CheckpointLocation | Unknown
) -> CheckpointLocation | Unknown:
    """Return an answer that also counts what the search before it read."""
    if isinstance(answer, Unknown) or isinstance(before, Unknown):
        return answer
    return replace(answer, entry_count=before.entry_count + answer.entry_count)


def _is_found_through_link(search: DirectorySearch, found: CheckpointLocation | Unknown) -> bool:
    """Whether a search found another place than below the name of the working directory, whose real path it has."""
    if isinstance(found, Unknown) or found.found is None or not search.all_known:
        return False
    return search.job.work_dir is None or not found.found.directory.is_relative_to(search.job.work_dir)


def _locate(
    agent: BatchRunner, searches: Sequence[DirectorySearch], rules: tuple[SiteRule, ...], limits: ScanLimits
) -> list[CheckpointLocation | Unknown]:
    searches = [each.exclude_all() if each.values else each for each in searches]  # the site names further places
    items = [(search.job.uid, search_items.make_item(search, rules)) for search in searches]
    named = [place for place, (_, item) in enumerate(items) if search_items.is_told_apart(item)]
    answers: dict[int, Answer] = {}
    if named:
        # a search may need the directories of many other jobs of its user; the scan of a named directory needs none
        asked = [(items[place][0], search_items.without_search(items[place][1])) for place in named]
        found = run_items(agent, "locate", asked, limits.deadline)
        answers = {
            place: answer
            for place, answer in zip(named, found, strict=True)
            if isinstance(answer, Unknown) or answer.get("directory")
        }
    rest = [place for place in range(len(items)) if place not in answers]
    if rest:
        rest.sort(key=lambda place: str(searches[place].job.work_dir))  # the agent lists equal ones in a row once
        found = run_items(agent, "locate", [items[place] for place in rest], limits.deadline)
        answers.update(zip(rest, found, strict=True))
    return [decode_answer(answers[place], _location) for place in range(len(items))]


class JobTasks(NamedTuple):
    """Tasks of a ticket for a first scan that have left their results."""

    ticket: str
    tasks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlaces:
    """What scans ask about the jobs of runs besides their directories.

    `work_dirs` are those of the runs' jobs, newest first: links in them may lead to checkpoints. `resuming_jobs` are
    the ids of jobs whose `.ckptd/resumed` is read. `candidates` are what an attempt may have loaded since it started:
    the scan tells which of them were read, where the file system keeps access times. `results` are those of jobs of the
    owners that have read checkpoints, to be taken over.
    """

    work_dirs: Mapping[RunKey, Sequence[str]] = field(default_factory=dict)
    resuming_jobs: Mapping[RunKey, Sequence[int]] = field(default_factory=dict)
    candidates: Mapping[RunKey, tuple[datetime, Sequence[str]]] = field(default_factory=dict)
    results: Mapping[RunKey, JobTasks] = field(default_factory=dict)


def scan_runs(
    agent: BatchRunner,
    runs: Sequence[tuple[RunKey, KnownRows, Scan | Unknown | None]],
    limits: ScanLimits,
    now: datetime,
    places: JobPlaces = JobPlaces(),
) -> list[Scan | Unknown]:
    """Scan as `request_scans`, each directory with a parser of its own, and decode all results."""
    return [each.decode() for each in request_scans(agent, runs, limits, now, places)]


def request_scans(
    agent: BatchRunner,
    runs: Sequence[tuple[RunKey, KnownRows, Scan | Unknown | None]],
    limits: ScanLimits,
    now: datetime,
    places: JobPlaces = JobPlaces(),
    *,
    shares_parser: bool = False,
) -> list[ScanAnswer]:
    """Scan the directory of each run, given its known checkpoints and last scan; answers are in the given order.

    With `shares_parser`, one parser may read several of an owner's directories; never before something is removed.
    Known checkpoints that did not change are not read again, and the results have their places among the known ones
    as `unchanged`. The quota is read at most once per QUOTA_GAP.
    """
    fresh = [_fresh_quota(last, now) for _, _, last in runs]
    items = [
        (
            key.uid,
            _scan_item(key, now, places, known=known, asks_quota=quota is None) | {"shares_parser": shares_parser},
        )
        for (key, known, _), quota in zip(runs, fresh, strict=True)
    ]
    answers = run_items(agent, "scan", items, limits.deadline)
    return limit_counts(
        ScanAnswer(key, answer, known.expected_count if isinstance(known, PackedItems) else len(known), quota)
        for answer, (key, known, _), quota in zip(answers, runs, fresh, strict=True)
    )


Settled = tuple[RunKey, SettledScan, Scan | Unknown | None]  # a run, the scan that agrees with its record, the last one


def rescan_runs(
    agent: BatchRunner,
    runs: Sequence[Settled],
    limits: ScanLimits,
    now: datetime,
    places: JobPlaces = JobPlaces(),
) -> list[Scan | Unknown | None]:
    """Scan directories again, given the scan that agrees with each record, and the last one; None if anything changed.

    No checkpoint is sent in either direction: those of an unchanged directory are the same as before, and the result
    has none. Many directories of one owner take several turns: those that were not reached are NOT_REACHED.
    """
    items = [_rescan_item(each, now, places) for each in runs]
    answers = run_items(agent, "scan", items, limits.deadline, MAX_ITEMS)
    return [_read_rescan(answer, each, now) for answer, each in zip(answers, runs, strict=True)]


def rescan_as_answered(
    agent: BatchRunner,
    runs: Sequence[Settled],
    limits: ScanLimits,
    now: datetime,
    places: JobPlaces = JobPlaces(),
) -> Iterator[dict[RunKey, Scan | Unknown | None]]:
    """Scan directories of several owners again, as `rescan_runs`; yield all results of some owners at a time."""
    items = [_rescan_item(each, now, places) for each in runs]
    for answers in run_items_as_answered(agent, "scan", items, limits.deadline):
        yield {runs[place][0]: _read_rescan(answer, runs[place], now) for place, answer in answers.items()}


def _rescan_item(settled: Settled, now: datetime, places: JobPlaces) -> tuple[int, dict[str, Any]]:
    key, scan, last = settled
    asks_quota = _fresh_quota(last, now) is None
    return key.uid, _scan_item(key, now, places, fingerprint=scan.fingerprint, asks_quota=asks_quota)


def _read_rescan(answer: Answer, settled: Settled, now: datetime) -> Scan | Unknown | None:
    key, before, last = settled
    scan = decode_answer(answer, partial(_decode_rescan, key=key))
    if not isinstance(scan, Scan):
        return scan
    same = replace(scan, markers=before.markers, unrecognised=before.unrecognised)
    return with_quota(same, _fresh_quota(last, now))


def _decode_rescan(data: dict[str, Any], key: RunKey) -> Scan | None:
    if data["answer"] == CHANGED:
        return None
    if count_items(data["checkpoints"]):
        raise ValueError("a directory that did not change was listed")
    scan = decode_scan_of(key, data)
    if scan.checkpoints or scan.fingerprint is None:
        raise ValueError("a directory that did not change was listed")
    return scan


def read_mutes(
    agent: BatchRunner, places: Sequence[tuple[int, str]], limits: ScanLimits
) -> list[frozenset[str] | Unknown]:
    """Return the rules that users mute by the file in each working directory, given with its owner's uid."""
    items = [(uid, {"work_dir": work_dir}) for uid, work_dir in places]
    answers = run_items(agent, "read_mutes", items, limits.deadline)
    return [decode_answer(answer, lambda data: frozenset(data["mute"])) for answer in answers]


def find_workspaces(
    agent: BatchRunner, runs: Sequence[RunKey], deadline: timedelta
) -> list[Workspace | Unknown | None]:
    """Return the workspace that each run's directory is in, read as its owner; None if it is in none."""
    items = [(key.uid, {"directory": key.directory}) for key in runs]
    answers = run_items(agent, "find_workspaces", items, deadline)
    return [decode_answer(answer, decode_workspace) for answer in answers]


class ResolvedPaths(NamedTuple):
    """The real paths of one user's paths, and the checkpoints that links in the working directories name."""

    real: Mapping[str, str | None]  # None: nothing is there; left out: nobody can tell
    links: tuple[SeenLink, ...]


def look_up_paths(
    agent: BatchRunner, asked: Sequence[tuple[int, Sequence[str], Sequence[str]]], limits: ScanLimits
) -> list[ResolvedPaths | Unknown]:
    """Look up paths and read working directories, each as the user with the given uid."""
    items = [(uid, {"paths": list(paths), "work_dirs": list(work_dirs)}) for uid, paths, work_dirs in asked]
    answers = run_items(agent, "look_up_paths", items, limits.deadline)
    return [
        decode_answer(answer, lambda data, paths=item["paths"]: _looked_up(data, paths))  # type: ignore[misc]
        for answer, (_, item) in zip(answers, items, strict=True)
    ]


def _looked_up(data: dict[str, Any], paths: Sequence[str]) -> ResolvedPaths:
    pairs = zip(paths, data["real"], strict=True)
    real = {path: None if found is None else str(found) for path, found in pairs if found is not False}
    return ResolvedPaths(real, tuple(decode_link(link) for link in data["links"]))


def _fresh_quota(last: Scan | Unknown | None, now: datetime) -> Scan | None:
    """Return the last scan if its quota is recent enough."""
    if not isinstance(last, Scan) or last.quota_read_at is None or abs(now - last.quota_read_at) >= QUOTA_GAP:
        return None
    return last


def _location(data: dict[str, Any]) -> CheckpointLocation:
    if not isinstance(data["user_settings"], dict):
        raise TypeError("the user settings are not a table")
    return CheckpointLocation(
        directory=PurePosixPath(data["directory"]) if data["directory"] else None,
        located_by=data["located_by"],
        user_settings=data["user_settings"],
        problems=tuple(str(problem) for problem in data["problems"]),
        found=_found(data["found"]) if data["directory"] and data.get("found") else None,
        copies=copy_locations.decode(data.get("copies", ())),
        entry_count=max(int(data["entry_count"]), 0),
    )


def _found(data: dict[str, Any]) -> FoundDirectory:
    first_at, newest_at = (datetime.fromtimestamp(data[name] / 1e9, UTC) for name in ("first_ns", "newest_ns"))
    return FoundDirectory(
        PurePosixPath(data["directory"]),
        first_at,
        newest_at,
        is_only=bool(data["is_only"]),
        role=Role(data["role"]),
        is_named_for_job=bool(data["is_named_for_job"]),
        saves=tuple(
            NumberedSave(str(name), float(number), datetime.fromtimestamp(modified_ns / 1e9, UTC))
            for name, number, modified_ns in data["saves"]
        ),
    )


def _is_below(path: str, directory: str) -> bool:
    return len(path) <= MAX_PATH_BYTES and path.startswith(f"{directory.rstrip('/')}/")


def _scan_item(
    key: RunKey,
    now: datetime,
    places: JobPlaces,
    *,
    known: KnownRows = (),
    fingerprint: str | None = None,
    asks_quota: bool,
) -> dict[str, Any]:
    read_since, candidates = places.candidates.get(key, (None, ()))
    results = places.results.get(key) if fingerprint is None else None  # nothing is left of a directory that has one
    return {
        "directory": key.directory,
        "now": now.timestamp(),
        "asks_quota": asks_quota,
        "candidates": [each for each in candidates if _is_below(each, key.directory)],
        "read_since": None if read_since is None else read_since.timestamp(),
        "work_dirs": list(places.work_dirs.get(key, ())),
        "resuming_jobs": list(places.resuming_jobs.get(key, ())),
        "known": known,
        "fingerprint": fingerprint,
        "shares_parser": False,
        "results": None if results is None else {"ticket": results.ticket, "tasks": list(results.tasks)},
    }
