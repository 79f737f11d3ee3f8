"""The known jobs near those whose checkpoint directories are searched for, and what they leave of a search's result."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ckptd.checkpoints.agent.scan_client import CheckpointLocation
from ckptd.core.discovery import nearby_candidates
from ckptd.core.discovery.past_candidates import NearbyJobs
from ckptd.core.discovery.scan_schedule import WatchedRun
from ckptd.core.model import Job, RunKey, Unknown
from ckptd.core.queue import TrackedJob
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.steps.parts import Parts
from ckptd.steps.snapshots import RunHistories
from ckptd.steps.state import State
from ckptd.steps.tracked_jobs import list_owned


def collect_nearby_jobs(parts: Parts, state: State, due: Collection[WatchedRun], now: datetime) -> NearbyJobs:
    """Collect the known jobs near the due ones, which all have one owner."""
    keys = {each.key for each in due}
    visited = state.latest(MissedJobs).visited
    past: dict[RunKey | None, TrackedJob] = {known.run: known for known in visited if known.run in keys}
    since = min((known.key.first_seen_at for known in past.values()), default=None)
    uid = next(iter(keys)).uid
    beside = () if since is None else parts.store.backfill.list_neighbours(parts.cluster, uid, since)
    neighbours = nearby_candidates.sort_neighbours(list_owned(state, uid))
    return NearbyJobs(neighbours, past, state.latest(RunHistories).by_run, now, beside)


def without_rival(
    location: CheckpointLocation | Unknown, key: RunKey, sought: nearby_candidates.DirectorySearch, around: NearbyJobs
) -> CheckpointLocation | Unknown:
    """Drop search results that another job wrote; mark those as unknown that another job may have written.

    A directory that the job may come to share is a problem of a search that succeeded, so that the next one is soon.
    """
    if isinstance(location, Unknown) or location.found is None:
        return location
    nothing = replace(location, directory=None, located_by=None)
    if around.is_anothers(key, sought, location.found) or nearby_candidates.is_one_of_several(sought, location.found):
        return nothing
    if holder := nearby_candidates.find_holder(sought, location.found):
        return replace(nothing, problems=(*location.problems, _name_writer(holder, location)))
    rival = around.find_rival(key, sought, location.found)
    return location if rival is None else Unknown(what="search", reason=_name_writer(rival, location))


def _name_writer(rival: Job, location: CheckpointLocation) -> str:
    return f"job {rival.slurm_name} could have written {location.directory}, too: name it by --comment=ckpt=PATH"
