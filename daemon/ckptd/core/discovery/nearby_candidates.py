"""Searches near a job without a named directory: which files may be its run's, and not another job's or older."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from ckptd.core.model import Job, JobKey, Role, RunKey, RunRecord, Scan, Unknown
from ckptd.core.queue import TrackedJob
from ckptd.core.runs.cadence import measure_rhythm
from ckptd.core.runs.ownership import CLOCK_TOLERANCE

PATIENCE = timedelta(minutes=10)  # for a first save that comes later than that of another job of the same script
MAX_REASONS = 3  # reported reasons of one search; users' files and names may cause any number
MAX_REASON = 1_000  # characters of each
NO_WORK_DIR = Unknown(what="job", reason="no working directory")
# a waiting job of which Slurm counts restarts: ckptd cannot distinguish the files of a start that it did not see
NOT_STARTED = Unknown(what="search", reason="the job has not started since ckptd first saw it")


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectorySearch:
    """A job whose checkpoint directory is to be found; files older than `since` are not its run's.

    `excluded` are the directories of other work below the job's working directory. If that is a link, others may be
    below the directory that it leads to: `exclude_all`.
    """

    job: Job
    since: datetime
    began_at: datetime  # its own first start
    excluded: tuple[str, ...] = ()
    all_known: Collection[str] = field(default=(), repr=False, compare=False)  # directories of all jobs of the user
    allowed: Collection[str] = field(default=(), repr=False, compare=False)  # those of them that are not excluded
    shared: tuple[str, ...] = ()  # of the same work: they count where nothing else was written
    holders: Mapping[str, Job] = field(default_factory=dict)  # of the shared ones: who saves there
    undecided: frozenset[str] = frozenset()  # of the shared ones: where this job may save, but also elsewhere later
    until: datetime | None = None  # nor are newer ones, of a run that is over
    script_paths: tuple[str, ...] = ()  # what the job's batch script names, where it may be read
    script_gaps: tuple[str, ...] = ()  # what it names, and variables that nobody knows keep from being resolved
    values: Mapping[str, str] = field(default_factory=dict)  # of variables that the site gives, for this job
    is_declared_only: bool = False  # only what is named counts: by the job, its owner, the site or `script_paths`
    is_role_asked: bool = False  # the files are read even where only one directory was written to

    def exclude_all(self) -> "DirectorySearch":
        """Return the search with the directories of all other work excluded, wherever they are."""
        others = (each for each in self.all_known if each not in self.allowed)
        return replace(self, excluded=tuple(dict.fromkeys([*self.excluded, *others])), all_known=())


class NumberedSave(NamedTuple):
    """A file or directory whose name has a progress number, and when it was last written."""

    name: str
    number: float
    modified_at: datetime


class FoundDirectory(NamedTuple):
    """The directory with the newest write since the start of the searched time, and the time of that write."""

    directory: PurePosixPath
    first_at: datetime
    newest_at: datetime
    is_only: bool  # no other with as strong evidence was written to
    role: Role = Role.DATA  # of what was written there, where that was asked
    is_named_for_job: bool = False  # by its id: no other job writes there
    saves: tuple[NumberedSave, ...] = ()  # the newest there, as far as their names have a number
    saves_before: tuple[NumberedSave, ...] = ()  # as the search before saw them


class Neighbour(NamedTuple):
    """Another job of the same user, and when it ran: from its first start to its last end."""

    key: JobKey
    job: Job
    run: RunKey
    started_at: datetime
    ended_at: datetime | None


class _Located(NamedTuple):
    known: TrackedJob
    run: RunKey


@dataclass(frozen=True, slots=True)
class LocatedJobs:
    """The open jobs of one user whose directories are known.

    A search excludes nearly all their directories that it can come to. So they are collected once, and a search asks
    only about the few jobs that may be the same work (`could_share`).
    """

    directories: set[str] = field(default_factory=set)
    ordered: list[str] = field(default_factory=list)  # the same, as far as they were sorted
    outside: list[_Located] = field(default_factory=list)  # not below the name of their job's working directory
    linked: list[bool] = field(default_factory=list)  # the answer of `has_links`, once it is known
    by_array: dict[int, list[_Located]] = field(default_factory=lambda: defaultdict(list))
    by_script: dict[tuple[str, PurePosixPath | None], list[_Located]] = field(default_factory=lambda: defaultdict(list))

    def add(self, known: TrackedJob, run: RunKey) -> None:
        """Add a job with its run, whose directory is known."""
        located = _Located(known, run)
        self.directories.add(run.directory)
        work_dir = known.job.work_dir
        if work_dir is not None and not f"{run.directory}/".startswith(f"{str(work_dir).rstrip('/')}/"):
            self.outside.append(located)
        self.by_script[known.job.name, known.job.work_dir].append(located)
        if known.job.array_job_id is not None:
            self.by_array[known.job.array_job_id].append(located)

    def list_below(self, directory: PurePosixPath) -> list[str]:
        """Return a directory, if it is one of them, and those below it."""
        if len(self.ordered) != len(self.directories):
            self.ordered[:] = sorted(self.directories)
        name, above = str(directory), f"{str(directory).rstrip('/')}/"
        first, end = bisect_left(self.ordered, above), bisect_left(self.ordered, f"{above[:-1]}0")  # 0 follows /
        return [*([name] if name in self.directories else ()), *self.ordered[first:end]]

    def has_links(self, histories: Mapping[RunKey, RunRecord]) -> bool:
        """Whether a search found what a job saves in another place than below the name of its working directory."""
        if not self.linked:
            found = (histories.get(each.run) for each in self.outside)
            self.linked.append(any(each is not None and each.located_by == "discovery" for each in found))
        return self.linked[0]

    def list_possible_same_work(self, job: Job) -> list[_Located]:
        """Return the jobs that may be the same work as this one, each once."""
        same_script = self.by_script.get((job.name, job.work_dir), [])
        same_array = [] if job.array_job_id is None else self.by_array.get(job.array_job_id, [])
        keys = {each.known.key for each in same_script}
        return [*same_script, *(each for each in same_array if each.known.key not in keys)]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The recorded jobs, sorted for the queries below."""

    by_run: dict[RunKey, list[TrackedJob]] = field(default_factory=lambda: defaultdict(list))
    by_array: dict[int, list[TrackedJob]] = field(default_factory=lambda: defaultdict(list))
    unlocated: dict[int, list[TrackedJob]] = field(default_factory=lambda: defaultdict(list))  # open ones, by uid
    located: dict[int, LocatedJobs] = field(default_factory=lambda: defaultdict(LocatedJobs))  # open ones, by uid


def sort_neighbours(tracked: Iterable[TrackedJob]) -> Neighbours:
    """Sort the recorded jobs once for many searches."""
    sorted_jobs = Neighbours()
    for known in tracked:
        if known.run is not None:
            sorted_jobs.by_run[known.run].append(known)
        if known.job.array_job_id is not None:
            sorted_jobs.by_array[known.job.array_job_id].append(known)
        if known.is_open:
            if known.run is not None and known.run.is_located:
                sorted_jobs.located[known.job.uid].add(known, known.run)
            else:
                sorted_jobs.unlocated[known.job.uid].append(known)
    return sorted_jobs


def plan_search(
    key: RunKey, neighbours: Neighbours, histories: Mapping[RunKey, RunRecord], now: datetime
) -> DirectorySearch | None:
    """Plan the search for a run without a directory; None if there is no place to search."""
    mine = neighbours.by_run.get(key, [])
    job = mine[0].job if mine else None
    if job is None or job.work_dir is None:
        return None
    starts = [known.attempt.started_at for known in mine if known.attempt]
    starts += [attempt.started_at for attempt in histories[key].attempts[:1]] if key in histories else []
    if not starts:
        return None
    began_at = min(starts)
    earlier = [known.attempt.started_at for known in _list_links(mine[0], neighbours, began_at) if known.attempt]
    sought = DirectorySearch(job=job, since=min([began_at, *earlier]), began_at=began_at)
    return _sort_directories(sought, neighbours.located[job.uid], histories, now)


def _sort_directories(
    sought: DirectorySearch, located: LocatedJobs, histories: Mapping[RunKey, RunRecord], now: datetime
) -> DirectorySearch:
    """Add the directories of a user's other jobs that a search excludes, and those that it may share."""
    free: set[str] = set()
    holders: dict[str, Job] = {}
    decided: set[str] = set()
    for known, run in located.list_possible_same_work(sought.job):
        if not _ran_at_once(known, sought.began_at):
            free.add(run.directory)
            continue
        if run.directory not in holders and _shares_by_now(histories.get(run), sought.began_at, now):
            decided.add(run.directory)
        holders.setdefault(run.directory, known.job)
    shared = holders.keys() - free
    left = frozenset(holders.keys() | free)
    below = () if sought.job.work_dir is None else located.list_below(sought.job.work_dir)
    sought = replace(
        sought,
        excluded=tuple(each for each in below if each not in left),
        all_known=located.directories,
        allowed=left,
        shared=tuple(sorted(shared)),
        holders={each: holders[each] for each in shared},
        undecided=frozenset(shared - decided),
    )
    return sought.exclude_all() if located.has_links(histories) else sought


def find_holder(sought: DirectorySearch, found: FoundDirectory) -> Job | None:
    """Return the job of the same work that saves in a found directory, if the searched one may yet save elsewhere."""
    directory = str(found.directory)
    return sought.holders[directory] if directory in sought.undecided else None


def is_one_of_several(sought: DirectorySearch, found: FoundDirectory) -> bool:
    """Whether other jobs of the same work save in directories of their own: this job then has none of these."""
    return str(found.directory) in sought.holders and not found.is_only


def find_rival(
    sought: DirectorySearch, found: FoundDirectory, neighbours: Neighbours, beside: Iterable[Neighbour], now: datetime
) -> Job | None:
    """Return another job that may have written what a search found; its writer is then unknown.

    `beside` are jobs of the same user that ran at any time since the searched one started.
    """
    if found.is_named_for_job:
        return None
    for known in neighbours.unlocated[sought.job.uid]:
        other = known.job
        if other.job_id == sought.job.job_id or not may_write(other, sought.job, found.directory):
            continue
        if known.attempt is None or found.first_at < _began_at(known):
            continue
        if not could_share(other, sought.job):
            return other
        last_began_at, first_began_at = max(sought.began_at, _began_at(known)), min(sought.began_at, _began_at(known))
        is_shared = found.is_only and (
            _is_long(now - last_began_at, found.first_at - first_began_at)
            or (not other.restart_count and not sought.job.restart_count and _collides(found, last_began_at))
        )
        if _ran_at_once(known, sought.began_at) and not is_shared:
            return other
    unlocated = (each for each in _list_writers(sought, found, beside) if not each.run.is_located)
    return next((each.job for each in unlocated if may_write(each.job, sought.job, found.directory)), None)


def is_anothers(sought: DirectorySearch, found: FoundDirectory, beside: Iterable[Neighbour]) -> bool:
    """Whether a search found the directory of an ended job, with no write since its end."""
    return any(each.run.directory == str(found.directory) for each in _list_writers(sought, found, beside))


def _list_writers(sought: DirectorySearch, found: FoundDirectory, beside: Iterable[Neighbour]) -> Iterator[Neighbour]:
    """Yield the jobs that ended after the searched one started and after the found files were written."""
    for each in beside:
        if each.job.job_id == sought.job.job_id or each.ended_at is None or each.ended_at <= sought.began_at:
            continue
        if found.newest_at <= each.ended_at + CLOCK_TOLERANCE:
            yield each


def _list_links(mine: TrackedJob, neighbours: Neighbours, began_at: datetime) -> list[TrackedJob]:
    """Return the earlier tasks of an array with one task at a time, each of which continues the previous one."""
    if mine.job.array_job_id is None or mine.job.array_task_limit not in {None, 1}:
        return []
    others = [known for known in neighbours.by_array.get(mine.job.array_job_id, []) if known.key != mine.key]
    return [] if any(_ran_at_once(known, began_at) for known in others) else others


def _ran_at_once(other: TrackedJob, began_at: datetime) -> bool:
    """Whether another job's latest attempt was still running when one started: neither then continues the other."""
    if other.attempt is None:
        return False
    ended_at = other.attempt.ended_at or other.ended_at
    return ended_at is None or ended_at > began_at


def _shares_by_now(history: RunRecord | None, began_at: datetime, now: datetime) -> bool:
    """Whether a job would have its own directory by now if it saved like the other jobs of the same script."""
    first = measure_rhythm(history).time_to_first if history else None
    return first is not None and _is_long(now - began_at, first)


def _is_long(run_time: timedelta, time_to_first: timedelta) -> bool:
    return run_time >= time_to_first + max(time_to_first, PATIENCE)


def _began_at(known: TrackedJob) -> datetime:
    assert known.attempt is not None
    return min(known.key.first_seen_at, known.attempt.started_at)


def _collides(found: FoundDirectory, since: datetime) -> bool:
    """Whether a second job writes there: one alone, without a restart, never saves a number again or goes back."""
    saves = sorted((each for each in found.saves if each.modified_at > since), key=lambda each: each.number)
    goes_back = any(later.modified_at < earlier.modified_at for earlier, later in pairwise(saves))
    before = {each.name: each.modified_at for each in found.saves_before if each.modified_at > since}
    return goes_back or any(before.get(each.name, each.modified_at) != each.modified_at for each in saves)


def may_write(other: Job, sought: Job, directory: PurePosixPath) -> bool:
    """Whether the working directory of another job is above the directory that a search found.

    What is found has a real path. If that is not below the name of the searched working directory, a link is on the
    way, and the names of both working directories show which is above the other.
    """
    if other.work_dir is None or sought.work_dir is None or directory.is_relative_to(sought.work_dir):
        return other.work_dir is not None and directory.is_relative_to(other.work_dir)
    if directory.is_relative_to(other.work_dir) or sought.work_dir.is_relative_to(other.work_dir):
        return True
    if not other.work_dir.is_relative_to(sought.work_dir):
        return False
    below = other.work_dir.relative_to(sought.work_dir)
    return any(directory.is_relative_to(above / below) for above in directory.parents)


def explain_no_search(job: Job | None) -> Unknown:
    """Return why no search could be planned for a run with this job."""
    return NO_WORK_DIR if job is None or job.work_dir is None else NOT_STARTED


def summarize_doubt(found: Scan | Unknown | None) -> Unknown | None:
    """Return one reason why a search could not find a job's checkpoints; None if it was complete."""
    reasons = (
        [found.reason] if isinstance(found, Unknown) else [each.reason for each in found.problems] if found else []
    )
    if not reasons:
        return None
    shortened = [reason if len(reason) <= MAX_REASON else reason[:MAX_REASON] + "…" for reason in reasons[:MAX_REASONS]]
    if len(reasons) > MAX_REASONS:
        shortened.append(f"and {len(reasons) - MAX_REASONS} more")
    return Unknown(what="search", reason="; ".join(shortened))


def could_share(one: Job, other: Job) -> bool:
    """Whether two jobs may be the same work: tasks of one array, or one script submitted twice from one directory."""
    is_same_array = one.array_job_id is not None and one.array_job_id == other.array_job_id
    return is_same_array or (one.name == other.name and one.work_dir == other.work_dir)
