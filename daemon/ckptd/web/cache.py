"""The data of pages: one snapshot of the fleet that all pages share, and single runs.

Listing ten thousand runs takes a second, which is too long for a page. The snapshot is therefore read in the
background, once a minute, or at most every few seconds while somebody looks, and every page shows its time.
"""

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from ckptd.core.forecast.limit_margins import DEFAULT_MARGINS, FindMargins, LimitMargins, use_default_margins
from ckptd.core.model import Flag, JobState, RunKey, RunRecord, Severity
from ckptd.core.model.records import ClusterStatus, EndedRun, JobRow
from ckptd.core.runs.lost_work import LedgerLine
from ckptd.core.runs.observations import TALLY_AGE, EndTally
from ckptd.errors import CkptdError
from ckptd.web.lost_work_reports import LostWorkReports, SumLostWork

FRESH_SECONDS = 10.0  # a younger picture is shown as it is
STALE_SECONDS = 60.0  # an older one is shown only where no new one can be had
FIRST_SECONDS, AGAIN_SECONDS = 5.0, 50.0  # between the start and the first one, and between two, while nobody looks
ENDS_SECONDS = 600.0  # between two sums of how attempts ended
ENDED_SHOWN = 50  # runs of one user that have ended

log = logging.getLogger("ckptd")


ListLimitedSettings = Callable[[RunKey], Sequence[str]]


class ReadFlags(Protocol):
    """Reads flags, open ones unless `include_resolved`; of all runs where `run` is None."""

    def __call__(self, *, include_resolved: bool = False, run: RunKey | None = None) -> Sequence[Flag]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PageQueries:
    """The queries that pages make to the database, as callables, so that this package imports no database."""

    list_jobs: Callable[[datetime], Sequence[JobRow]]
    read_flags: ReadFlags
    read_histories: Callable[[str, Collection[RunKey]], Sequence[RunRecord]]
    read_losses: Callable[[RunKey], Sequence[LedgerLine]]
    read_ends: Callable[[str, datetime], Sequence[EndTally]]
    read_status: Callable[[], Sequence[ClusterStatus]]
    find_runs_of_job: Callable[[int, str | None, int | None], Sequence[RunKey]]
    join_parts: Callable[[Collection[RunKey]], Sequence[RunKey]]
    list_ended_runs: Callable[[str, int, str | None], Sequence[EndedRun]]
    sum_lost_work: SumLostWork
    find_margins: FindMargins = use_default_margins  # as configured, not from the database


@dataclass(frozen=True, slots=True)
class RatedJob:
    """One job with the worst of its open flags."""

    row: JobRow
    severity: Severity | None


@dataclass(frozen=True, slots=True)
class RatedRun:
    """One run with its started jobs, those with the worst flags first."""

    jobs: tuple[RatedJob, ...]

    @property
    def first(self) -> JobRow:
        """What all jobs of a run share, each of them has: its checkpoints, its directory, its owner."""
        return self.jobs[0].row

    @property
    def key(self) -> RunKey:
        return self.first.run

    @property
    def severity(self) -> Severity | None:
        return self.jobs[0].severity

    @property
    def time_left(self) -> timedelta | None:
        """How long the job has left that ends first."""
        return min((job.row.time_left for job in self.jobs if job.row.time_left is not None), default=None)

    @property
    def restart_count(self) -> int:
        return max(job.row.restart_count for job in self.jobs)

    @property
    def flags(self) -> list[str]:
        return sorted({rule for job in self.jobs for rule in job.row.flags})

    @property
    def folded_array(self) -> int | None:
        """The array of which these are tasks without a directory, folded into one."""
        return self.first.array_job_id if any(job.row.run != self.key for job in self.jobs) else None

    @property
    def states(self) -> list[JobState]:
        return sorted({job.row.state for job in self.jobs})


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetView:
    """The fleet at one instant. `is_stale`: there is no newer snapshot, because the database does not answer."""

    taken_at: datetime
    jobs: Sequence[RatedJob]  # the worst first, among equals the one with the least time left
    runs: Sequence[RatedRun]  # in the same order
    flags: Sequence[Flag]  # those that hold
    clusters: Sequence[ClusterStatus]
    is_stale: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDetails:
    """One run with all its flags and the lost work of its attempts."""

    history: RunRecord
    flags: Sequence[Flag]
    losses: Sequence[LedgerLine]
    ends: Sequence[EndTally] = ()  # how attempts on its cluster ended
    refused: Sequence[str] = ()  # user settings that the site limits
    margins: LimitMargins = DEFAULT_MARGINS  # of the rules that judge it


class PageReader:
    """Reads the database for all pages."""

    def __init__(self, record: PageQueries, list_limited_settings: ListLimitedSettings | None = None) -> None:
        self._record = record
        self.lost_work = LostWorkReports(record)
        self._list_limited_settings = list_limited_settings
        self._fleet: FleetView | None = None
        self._read_at = 0.0
        self._ends: dict[str, tuple[Sequence[EndTally], float]] = {}  # by cluster, and when they were read
        self._summing = threading.Lock()
        self._reading = threading.Lock()
        self._histories = threading.Lock()  # the store's memory of histories is no place for two

    def read_fleet(self) -> FleetView:
        """Return the snapshot of the fleet.

        Raises:
            CkptdError: the database does not answer, and there is no earlier snapshot.

        """
        fleet, age = self._fleet, time.monotonic() - self._read_at
        if fleet is None or age > STALE_SECONDS:
            with self._reading:
                if self._fleet is None or time.monotonic() - self._read_at > FRESH_SECONDS:
                    self._take()
                assert self._fleet is not None
                return self._fleet
        if age > FRESH_SECONDS and self._reading.acquire(blocking=False):
            threading.Thread(target=self._take_behind, name="web-fleet", daemon=True).start()
        return fleet

    def refresh_until(self, is_over: threading.Event) -> None:
        """Take a snapshot once in a while, so that who comes first need not wait for it."""
        wait = FIRST_SECONDS
        while not is_over.wait(wait):
            wait = AGAIN_SECONDS
            if time.monotonic() - self._read_at > FRESH_SECONDS and self._reading.acquire(blocking=False):
                with contextlib.suppress(CkptdError):  # an answer to a request for a page says it
                    self._take_behind()

    def _take_behind(self) -> None:
        try:
            self._take()
        finally:
            self._reading.release()

    def _take(self) -> None:
        now = datetime.now(UTC)
        try:
            flags = self._record.read_flags()
            jobs = rate(self._record.list_jobs(now), flags)
            self._fleet = FleetView(
                taken_at=now,
                jobs=jobs,
                runs=group(jobs),
                flags=sorted(flags, key=lambda flag: (-flag.finding.severity.rank, flag.opened_at)),
                clusters=self._record.read_status(),
            )
        except CkptdError as error:
            if self._fleet is None:
                raise
            log.warning("status page refresh failed: %s; showing the previous state", error)
            self._fleet = replace(self._fleet, is_stale=True)
        self._read_at = time.monotonic()

    def read_run(self, key: RunKey) -> RunDetails | None:
        """Return one run with its details; None if it is not recorded.

        Of a run that continues on another cluster with shared files, this is the part that acts.
        """
        (key,) = self._record.join_parts([key])
        with self._histories:
            found = self._record.read_histories(key.cluster, [key])
            refused = self._list_limited_settings(key) if self._list_limited_settings else ()
        if not found:
            return None
        flags = self._record.read_flags(include_resolved=True, run=key)
        losses, ends = self._record.read_losses(key), self._read_ends(key.cluster)
        margins = self._record.find_margins(found[0])
        return RunDetails(history=found[0], flags=flags, losses=losses, ends=ends, refused=refused, margins=margins)

    def _read_ends(self, cluster: str) -> Sequence[EndTally]:
        """Return counts of how attempts of half a year ended, cached because a million of them take a second."""
        known = self._ends.get(cluster)
        if known is None:
            with self._summing:
                if cluster not in self._ends:
                    self._sum_ends(cluster)
                return self._ends[cluster][0]
        ends, read_at = known
        if time.monotonic() - read_at >= ENDS_SECONDS and self._summing.acquire(blocking=False):
            threading.Thread(target=self._sum_behind, args=(cluster,), name="web-ends", daemon=True).start()
        return ends

    def _sum_behind(self, cluster: str) -> None:
        try:
            self._sum_ends(cluster)
        except CkptdError as error:
            log.warning("status page statistics failed: %s; using the previous ones", error)
        finally:
            self._summing.release()

    def _sum_ends(self, cluster: str) -> None:
        self._ends[cluster] = self._record.read_ends(cluster, datetime.now(UTC) - TALLY_AGE), time.monotonic()

    def find_runs_of_job(self, job_id: int, cluster: str | None, task_id: int | None) -> Sequence[RunKey]:
        """Return the runs of a job or array task, on one cluster or on all; each once, however many it runs on."""
        return self._record.join_parts(self._record.find_runs_of_job(job_id, cluster, task_id))

    def list_ended_runs(self, user: str, cluster: str | None) -> Sequence[EndedRun]:
        """Return the latest ended runs of a user, on one cluster or on all."""
        return self._record.list_ended_runs(user, ENDED_SHOWN, cluster)


def rate(rows: Iterable[JobRow], flags: Iterable[Flag]) -> list[RatedJob]:
    """Return jobs with the worst of their flags, worst first."""
    found: dict[tuple[RunKey, int | None], list[Severity]] = defaultdict(list)
    for flag in flags:
        found[flag.finding.run, flag.finding.job_id].append(flag.finding.severity)
    rated = []
    for row in rows:
        severities = [*found.get((row.run, None), ()), *found.get((row.run, row.key.job_id), ())]
        rated.append(RatedJob(row, max(severities, key=lambda severity: severity.rank, default=None)))
    return sorted(rated, key=_urgency)


def group(jobs: Iterable[RatedJob]) -> list[RatedRun]:
    """Return jobs by their runs, in the order of each run's first one."""
    runs: defaultdict[RunKey, list[RatedJob]] = defaultdict(list)
    for job in jobs:
        runs[job.row.run].append(job)
    return [RatedRun(tuple(found)) for found in runs.values()]


def fold(runs: Iterable[RatedRun]) -> list[RatedRun]:
    """Return runs with those tasks of an array of which no directory is known as one, in the place of the first."""
    runs = [*runs]
    if all(run.key.is_located or run.first.array_job_id is None for run in runs):
        return runs
    folded: defaultdict[tuple[str, int, str | int], list[RatedRun]] = defaultdict(list)
    for run in runs:
        array = None if run.key.is_located else run.first.array_job_id
        folded[run.key if array is None else (run.key.cluster, run.key.uid, array)].append(run)
    return [found[0] if len(found) == 1 else _join(found) for found in folded.values()]


def _join(runs: Iterable[RatedRun]) -> RatedRun:
    return RatedRun(tuple(sorted((job for run in runs for job in run.jobs), key=_urgency)))


def _urgency(job: RatedJob) -> tuple[int, timedelta, int]:
    rank = job.severity.rank if job.severity else -1
    return -rank, timedelta.max if job.row.time_left is None else job.row.time_left, job.row.key.job_id
