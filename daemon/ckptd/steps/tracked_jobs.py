"""The tracked jobs of single runs and owners: the queue of the last poll, sorted once for all owners' scans."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ckptd.core.model import JobKey, RunKey
from ckptd.core.queue import TrackedJob
from ckptd.steps.polled_queue import PolledQueue
from ckptd.steps.state import State


@dataclass(frozen=True, slots=True)
class _OwnedJobs:
    """The tracked jobs of one owner."""

    all: Sequence[TrackedJob] = ()
    by_run: Mapping[RunKey | None, Sequence[TrackedJob]] = field(default_factory=dict)


@dataclass(slots=True)
class _SortedJobs:
    """State of this module alone: a queue and its jobs by owner, replaced together."""

    found: tuple[PolledQueue, dict[int, _OwnedJobs]] = field(default_factory=lambda: (PolledQueue(), {}))


def list_tracked(state: State, run: RunKey) -> Sequence[TrackedJob]:
    """Return the tracked jobs of a run."""
    return _sort(state).get(run.uid, _OwnedJobs()).by_run.get(run, ())


def list_owned(state: State, uid: int) -> Sequence[TrackedJob]:
    """Return the tracked jobs of an owner."""
    return _sort(state).get(uid, _OwnedJobs()).all


def move_jobs(state: State, runs: Mapping[JobKey, RunKey]) -> None:
    """Note the runs of these jobs; only the jobs of their owners are sorted again."""
    with state.record_lock:
        by_owner, before = _sort(state), state.latest(PolledQueue)
        state.publish(after := before.with_runs(runs))
        for uid in {run.uid for run in runs.values()}:
            known = by_owner.get(uid, _OwnedJobs()).all
            by_owner[uid] = _sort_owned(after.tracked[each.key.job_id] for each in known)
        state.own(_SortedJobs, _SortedJobs).found = after, by_owner


def _sort(state: State) -> dict[int, _OwnedJobs]:
    queue, memory = state.latest(PolledQueue), state.own(_SortedJobs, _SortedJobs)
    known, by_owner = memory.found
    if known is not queue:
        owned = defaultdict(list)
        for each in queue.tracked.values():
            owned[each.job.uid].append(each)
        by_owner = {uid: _sort_owned(jobs) for uid, jobs in owned.items()}
        memory.found = queue, by_owner
    return by_owner


def _sort_owned(jobs: Iterable[TrackedJob]) -> _OwnedJobs:
    found = tuple(jobs)
    by_run: dict[RunKey | None, list[TrackedJob]] = defaultdict(list)
    for each in found:
        by_run[each.run].append(each)
    return _OwnedJobs(found, dict(by_run))
