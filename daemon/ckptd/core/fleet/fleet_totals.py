"""Totals over all runs at one time, without any user's or job's name."""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from types import MappingProxyType

from ckptd.core.fleet.histogram import Distribution
from ckptd.core.model import CheckpointState, Job, RecordedCheckpoint, RunKey, RunRecord, Scan, Unknown
from ckptd.core.runs.history import attempt_of, complete_now, present, running_jobs
from ckptd.core.runs.resumable import may_be_results

AGE_BOUNDS = (300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 172800.0, 604800.0)
LEFT_BOUNDS = (300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 172800.0, 604800.0)

FindMount = Callable[[PurePosixPath], str]


@dataclass(kw_only=True, slots=True)
class ResourceShare:
    """Resources of a group of running jobs, and their unsaved work."""

    jobs: int = 0
    nodes: int = 0
    cpus: int = 0
    gpus: int = 0
    unsaved_node_seconds: float = 0.0
    unsaved_cpu_seconds: float = 0.0
    unsaved_gpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FileSystem:
    """A file system that runs save to. The mount point is empty where it is not known."""

    type: str
    mount_point: str = ""


_name_file_system = functools.lru_cache(maxsize=256)(FileSystem)


@dataclass(frozen=True, kw_only=True, slots=True)
class FreeSpace:
    """The smallest free space that a scan found on a file system: users' quotas can differ."""

    free_bytes: int
    free_ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetTotals:
    """Counts over the runs in the queue. `runs_by_newest`: what the newest checkpoint of a running run is."""

    user_count: int = 0  # of users with a run in the queue
    runs_by_newest: Mapping[str, int] = field(default_factory=dict)
    shares_by_partition: Mapping[str, ResourceShare] = field(default_factory=dict)
    age_seconds: Distribution = field(default_factory=lambda: Distribution.empty(AGE_BOUNDS))
    left_seconds: Distribution = field(default_factory=lambda: Distribution.empty(LEFT_BOUNDS))
    jobs_without_limit: int = 0
    checkpoints_by_format: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (format, state)
    bytes_by_format: Mapping[str, int] = field(default_factory=dict)
    space_by_filesystem: Mapping[FileSystem, FreeSpace] = field(default_factory=dict)


NEWEST = ("complete", "damaged", "writing", "none", "unknown")


@dataclass(frozen=True, slots=True)
class RunShare:
    """What one run adds to the totals, whatever the time."""

    uid: int
    checkpoints: Mapping[tuple[str, str], int]
    sizes: Mapping[str, int]
    space: tuple[FileSystem, FreeSpace] | None
    newest: str | None  # None: no job of it runs
    saved_at: datetime | None
    jobs: tuple[tuple[Job, datetime | None], ...]  # those that run, and since when their work is unsaved


@functools.lru_cache(maxsize=4096)  # many runs have as many checkpoints of one format
def _share_counts(counts: tuple[tuple[tuple[str, str], int], ...]) -> Mapping[tuple[str, str], int]:
    return dict(counts)


def _name_no_mount(_directory: PurePosixPath) -> str:
    return ""


class FleetCounter:
    """Sums up the same runs again and again; measures only those whose history was replaced."""

    def __init__(self) -> None:
        self._measured: dict[RunKey, tuple[RunRecord, RunShare]] = {}
        self._find_mount: FindMount = _name_no_mount

    def sum_up(
        self,
        histories: Iterable[RunRecord],
        now: datetime,
        find_mount: FindMount = _name_no_mount,
        shares: Mapping[RunKey, RunShare] = MappingProxyType({}),
    ) -> FleetTotals:
        """Return what `sum_up` does, for histories of different runs.

        `find_mount` returns the mount point of a directory: give another function once mounts have changed. `shares`
        are those of runs that were measured already, with the same checkpoints, jobs and attempts.
        """
        known = self._measured
        self._measured = {
            history.key: (
                history,
                _measure_again(history, known.get(history.key), find_mount, shares.get(history.key)),
            )
            for history in histories
        }
        if find_mount is not self._find_mount:
            self._find_mount = find_mount
            self._measured = {
                key: (history, replace(share, space=_space_of(history, find_mount)))
                for key, (history, share) in self._measured.items()
            }
        return add_up((share for _, share in self._measured.values()), now)


def _measure_again(
    history: RunRecord, known: tuple[RunRecord, RunShare] | None, find_mount: FindMount, measured: RunShare | None
) -> RunShare:
    """Return what a run adds; read its checkpoints only if these, or its jobs or attempts, were replaced."""
    if known is not None and known[0] is history:
        return known[1]
    if measured is not None:
        return replace(measured, space=_space_of(history, find_mount))
    if known is None:
        return measure(history, find_mount)
    before, share = known
    is_same = before.checkpoints is history.checkpoints and before.attempts is history.attempts
    if is_same and before.jobs == history.jobs and _is_whole(before.scan) is _is_whole(history.scan):
        return replace(share, space=_space_of(history, find_mount))
    return measure(history, find_mount)


def _is_whole(scan: Scan | Unknown | None) -> bool | None:
    """Whether a scan read the whole directory; None if there was none, or it failed."""
    return scan.is_whole if isinstance(scan, Scan) else None


def sum_up(histories: Iterable[RunRecord], now: datetime) -> FleetTotals:
    """Count every run once; ages and unsaved work are those of runs with a running job."""
    return add_up(map(measure, histories), now)


def measure(history: RunRecord, find_mount: FindMount = _name_no_mount) -> RunShare:
    """Return what a run adds to the totals; `find_mount` returns the mount point of a directory."""
    history = replace(history, checkpoints=tuple(history.checkpoints))  # unpacked once, if they are packed
    there = present(history)
    checkpoints: Counter[tuple[str, str]] = Counter()
    sizes: Counter[str] = Counter()
    for record in there:
        checkpoints[record.checkpoint.format, record.checkpoint.state.value] += 1
        sizes[record.checkpoint.format] += record.checkpoint.size_bytes
    jobs = running_jobs(history)
    saved_at = max((_saved_at(record) for record in complete_now(history)), default=None) if jobs else None
    return RunShare(
        uid=history.key.uid,
        checkpoints=_share_counts(tuple(checkpoints.items())),
        sizes=dict(sizes),
        space=_space_of(history, find_mount),
        newest=_judge_newest(history, there) if jobs else None,
        saved_at=saved_at,
        jobs=tuple((job, _unsaved_since(history, job, saved_at)) for job in jobs),
    )


def add_up(shares: Iterable[RunShare], now: datetime) -> FleetTotals:
    """Return the totals of runs that were measured."""
    newest: Counter[str] = Counter(dict.fromkeys(NEWEST, 0))
    by_partition: defaultdict[str, ResourceShare] = defaultdict(ResourceShare)
    checkpoints: Counter[tuple[str, str]] = Counter()
    sizes: Counter[str] = Counter()
    space: dict[FileSystem, FreeSpace] = {}
    ages: list[float] = []
    left: list[float] = []
    unlimited = 0
    uids: set[int] = set()
    for share in shares:
        uids.add(share.uid)
        for kind, count in share.checkpoints.items():
            checkpoints[kind] += count
        for kind_of_file, size_bytes in share.sizes.items():
            sizes[kind_of_file] += size_bytes
        _add_free_space(space, share.space)
        if share.newest is None:
            continue
        newest[share.newest] += 1
        if share.saved_at is not None:
            ages.append(max((now - share.saved_at).total_seconds(), 0.0))
        for job, since in share.jobs:
            unsaved = max(now - since, timedelta(0)) if since is not None else timedelta(0)
            _add_job(by_partition[job.partition], job, unsaved)
            if job.ends_at is None or job.time_limit is None:
                unlimited += 1
            else:
                left.append(max((job.ends_at - now).total_seconds(), 0.0))
    return FleetTotals(
        user_count=len(uids),
        runs_by_newest=newest,
        shares_by_partition=by_partition,
        age_seconds=Distribution.empty(AGE_BOUNDS).plus(ages),
        left_seconds=Distribution.empty(LEFT_BOUNDS).plus(left),
        jobs_without_limit=unlimited,
        checkpoints_by_format=checkpoints,
        bytes_by_format=sizes,
        space_by_filesystem=space,
    )


def _judge_newest(history: RunRecord, there: tuple[RecordedCheckpoint, ...]) -> str:
    """Return the state of the newest checkpoint, which a restart would find; unknown if the directory was not read."""
    if not isinstance(history.scan, Scan):
        return "unknown"
    settled = [record for record in there if record.checkpoint.state is not CheckpointState.WRITING]
    if not settled:
        return "writing" if there else "none" if history.scan.is_whole else "unknown"
    newest = max(settled, key=lambda record: record.checkpoint.modified_at)
    return newest.checkpoint.state.value


def _saved_at(record: RecordedCheckpoint) -> datetime:
    return record.completed_at or record.checkpoint.modified_at


def _unsaved_since(history: RunRecord, job: Job, saved_at: datetime | None) -> datetime | None:
    """Return since when this attempt's work is in no complete checkpoint.

    None if nobody knows when it began, or if nothing shows that the run's files are checkpoints.
    """
    if may_be_results(history):
        return None
    attempt = attempt_of(history, job)
    began = attempt.started_at if attempt else job.started_at
    return None if began is None else max(began, saved_at or began)


def _add_job(share: ResourceShare, job: Job, unsaved: timedelta) -> None:
    seconds = unsaved.total_seconds()
    share.jobs += 1
    share.nodes += job.node_count
    share.cpus += job.cpu_count
    share.gpus += job.gpu_count
    share.unsaved_node_seconds += seconds * job.node_count
    share.unsaved_cpu_seconds += seconds * job.cpu_count
    share.unsaved_gpu_seconds += seconds * job.gpu_count


def _space_of(history: RunRecord, find_mount: FindMount) -> tuple[FileSystem, FreeSpace] | None:
    """Return a run's file system and the free space there, as far as its last scan knows both."""
    scan = history.scan
    if not isinstance(scan, Scan) or scan.free_bytes is None or not scan.total_bytes or not scan.filesystem_type:
        return None
    space = FreeSpace(free_bytes=scan.free_bytes, free_ratio=scan.free_bytes / scan.total_bytes)
    return _name_file_system(scan.filesystem_type, find_mount(scan.directory)), space


def _add_free_space(space: dict[FileSystem, FreeSpace], found: tuple[FileSystem, FreeSpace] | None) -> None:
    if found is None:
        return
    kind, free = found
    known = space.get(kind)
    if known is None or free.free_ratio < known.free_ratio:
        space[kind] = free
