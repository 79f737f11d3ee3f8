"""Which files near a job may be its run's checkpoints, where nobody says so: not another job's, not older ones."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath

from ckptd.core.model import Job, RunHistory, RunKey, Scan, Unknown
from ckptd.core.tracking import TrackedJob

MAX_REASONS = 3  # of one search that are told; users' own files and names may give any number
MAX_REASON = 1_000  # characters of each


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """A job whose checkpoint directory is to be found; files older than `since` are not its run's."""

    job: Job
    since: datetime
    excluded: tuple[PurePosixPath, ...] = ()
    until: datetime | None = None  # nor are newer ones, of a run that is over
    script_paths: tuple[str, ...] = ()  # what the job's batch script names, where it may be read


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The jobs on record, sorted for the questions below."""

    by_run: dict[RunKey, list[TrackedJob]] = field(default_factory=lambda: defaultdict(list))
    by_array: dict[int, list[TrackedJob]] = field(default_factory=lambda: defaultdict(list))
    open_by_uid: dict[int, list[TrackedJob]] = field(default_factory=lambda: defaultdict(list))


def sort_neighbours(tracked: Iterable[TrackedJob]) -> Neighbours:
    """Sort the jobs on record once for many searches."""
    sorted_jobs = Neighbours()
    for known in tracked:
        if known.run is not None:
            sorted_jobs.by_run[known.run].append(known)
        if known.job.array_job_id is not None:
            sorted_jobs.by_array[known.job.array_job_id].append(known)
        if known.is_open:
            sorted_jobs.open_by_uid[known.job.uid].append(known)
    return sorted_jobs


def plan_search(key: RunKey, neighbours: Neighbours, history: RunHistory | None) -> Search | None:
    """Say what to look for on behalf of a run without a directory; None where there is nowhere to look."""
    mine = neighbours.by_run.get(key, [])
    job = mine[0].job if mine else None
    if job is None or job.work_dir is None:
        return None
    siblings = neighbours.by_array.get(job.array_job_id, []) if job.array_job_id is not None else []
    starts = [known.attempt.started_at for known in (*mine, *siblings) if known.attempt]
    starts += [attempt.started_at for attempt in history.attempts[:1]] if history else []
    located = [known for known in neighbours.open_by_uid[job.uid] if _is_located(known)]
    shared = {known.run for known in located if could_share(known.job, job)}
    excluded = tuple(PurePosixPath(known.run.directory) for known in located if known.run and known.run not in shared)
    return Search(job=job, since=min(starts), excluded=excluded) if starts else None


def find_rival(job: Job, directory: PurePosixPath, neighbours: Neighbours) -> Job | None:
    """Return another job that could as well have written what a look around found; then nobody can tell whose it is."""
    for known in neighbours.open_by_uid[job.uid]:
        other = known.job
        if other.job_id == job.job_id or _is_located(known) or could_share(other, job) or other.work_dir is None:
            continue
        if directory.is_relative_to(other.work_dir):
            return other
    return None


def summarize_doubt(found: Scan | Unknown | None) -> Unknown | None:
    """Say in one reason why a search could not tell where a job's checkpoints are; None where it saw everything."""
    reasons = (
        [found.reason] if isinstance(found, Unknown) else [each.reason for each in found.problems] if found else []
    )
    if not reasons:
        return None
    told = [reason if len(reason) <= MAX_REASON else reason[:MAX_REASON] + "…" for reason in reasons[:MAX_REASONS]]
    if len(reasons) > MAX_REASONS:
        told.append(f"and {len(reasons) - MAX_REASONS} more")
    return Unknown(what="search", reason="; ".join(told))


def could_share(one: Job, other: Job) -> bool:
    """Whether two jobs look like the same work: tasks of one array, or one script submitted twice from one place."""
    is_same_array = one.array_job_id is not None and one.array_job_id == other.array_job_id
    return is_same_array or (one.name == other.name and one.work_dir == other.work_dir)


def _is_located(known: TrackedJob) -> bool:
    return known.run is not None and known.run.is_located
