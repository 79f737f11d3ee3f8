"""The JSON documents under /api/v1, made of the same rows as the commands'."""

import dataclasses
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from ckptd.core.model import Flag, RunKey
from ckptd.core.model.records import ClusterStatus, EndedRun
from ckptd.core.text.json_numbers import replace_infinite
from ckptd.present import listings, models, timeline
from ckptd.present.responses.api_documents import (
    FlagsDocument,
    JobsDocument,
    RunRowsDocument,
    RunsDocument,
    StatusDocument,
    UserDocument,
)
from ckptd.present.responses.job_documents import JobDocument, RunKeyFields, RunRowDocument
from ckptd.present.responses.run_documents import EndedRunDocument, RunDocument, TimelineDocument
from ckptd.present.responses.status_documents import ClusterDocument
from ckptd.web.cache import FleetView, RatedJob, RatedRun, RunDetails
from ckptd.web.query import Page
from ckptd.web.viewer import Viewer

SECONDS_TO_DEATH = timedelta(seconds=90)


def encode(document: Any) -> bytes:
    """Write a document; text that is not UTF-8 appears as escapes of JSON's own."""
    try:
        return json.dumps(document, default=_plain, allow_nan=False).encode("ascii")
    except ValueError:
        return json.dumps(replace_infinite(document), default=_plain, allow_nan=False).encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value)}")


def status(fleet: FleetView, viewer: Viewer, now: datetime) -> StatusDocument:
    """Return the daemon's health, without any data about jobs."""
    return {
        "viewer": viewer.name,
        "is_operator": viewer.is_operator,
        "taken_at": fleet.taken_at,
        "is_stale": fleet.is_stale,
        "clusters": [_cluster(cluster, viewer, now) for cluster in fleet.clusters],
    }


def _cluster(cluster: ClusterStatus, viewer: Viewer, now: datetime) -> ClusterDocument:
    trouble = cluster.poll_trouble
    return {
        "cluster": cluster.cluster,
        "is_alive": cluster.is_led and _is_recent(cluster.heartbeat_at, now),
        "is_slurm_up": trouble is None,
        "slurm_trouble": trouble.reason if trouble and viewer.is_operator else None,
        "polled_at": cluster.polled_at,
        "scanned_at": cluster.scanned_at,
        "heartbeat_at": cluster.heartbeat_at,
    }


def _is_recent(heartbeat_at: datetime | None, now: datetime) -> bool:
    """Whether a daemon that did not stop by itself, and so still holds its lease, has not missed three heartbeats."""
    return heartbeat_at is not None and now - heartbeat_at < SECONDS_TO_DEATH


def jobs(page: Page[RatedJob], fleet: FleetView) -> JobsDocument:
    rows = [job_row(job, fleet.taken_at) for job in page.items]
    return {"jobs": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


def job_row(job: RatedJob, now: datetime) -> JobDocument:
    return {**listings.job_row(job.row, now), "severity": job.severity}


def runs(page: Page[RatedRun], fleet: FleetView) -> RunRowsDocument:
    rows = [run_row(run, fleet.taken_at) for run in page.items]
    return {"runs": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


def run_row(run: RatedRun, now: datetime) -> RunRowDocument:
    """Return one run in the queue with the ids of its started jobs."""
    shared = listings.job_row(run.first, now)
    return {
        **_key(run.key),
        "user": shared["user"],
        "directory": shared["directory"],
        "located_by": shared["located_by"],
        "locations": shared["locations"],
        "epoch": shared["epoch"],
        "step": shared["step"],
        "newest_checkpoint_at": shared["newest_checkpoint_at"],
        "newest_checkpoint_age_seconds": shared["newest_checkpoint_age_seconds"],
        "checkpoints": shared["checkpoints"],
        "checkpoint_bytes": shared["checkpoint_bytes"],
        "jobs": sorted(job.row.key.job_id for job in run.jobs),
        "states": run.states,
        "restart_count": run.restart_count,
        "time_left_seconds": int(run.time_left.total_seconds()) if run.time_left is not None else None,
        "flags": run.flags,
        "severity": run.severity,
    }


def ended_row(run: EndedRun) -> EndedRunDocument:
    """Return one ended run."""
    return {
        **_key(run.run),
        "user": run.user,
        "job_id": run.job_id,
        "name": run.name,
        "attempts": run.attempt_count,
        "ended_at": run.ended_at,
        "cause": run.cause,
        "epoch": run.epoch,
        "step": run.step,
        "newest_checkpoint_at": run.newest_checkpoint_at,
        "checkpoints": run.checkpoint_count,
        "checkpoint_bytes": run.checkpoint_bytes,
    }


def _key(run: RunKey) -> RunKeyFields:
    return {"cluster": run.cluster, "uid": run.uid, "run": run.directory}


def flags(page: Page[Flag], fleet: FleetView) -> FlagsDocument:
    rows = [listings.flag_row(flag) for flag in page.items]
    return {"flags": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


def run(found: RunDetails, now: datetime) -> RunDocument:
    drawn = timeline.draw(found.history, now, found.margins.loss)
    view = models.run_view(found.history, found.flags, now, found.losses, found.ends, found.margins)
    return {
        **view,
        "setting_warnings": [*view["setting_warnings"], *found.refused],
        "taken_at": now,
        "timeline": _timeline(drawn) if drawn else None,
    }


def runs_of_job(found: Iterable[RunDetails], now: datetime) -> RunsDocument:
    return {"runs": [run(each, now) for each in found]}


def _timeline(drawn: timeline.Timeline) -> TimelineDocument:
    """Return the timeline without the attempts, which are in the run's own document."""
    return {
        "begins_at": drawn.begins_at,
        "ends_at": drawn.ends_at,
        "limits": [{"job_id": limit.job_id, "at": limit.at} for limit in drawn.limits],
        "losses": [
            {
                "begins_at": loss.begins_at,
                "ends_at": loss.ends_at,
                "job_id": loss.job_id,
                "is_forecast": loss.is_forecast,
            }
            for loss in drawn.losses
        ],
        "expected_checkpoints_at": list(drawn.expected),
    }


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class UserRecord:
    """One user's runs and flags that the viewer may see."""

    name: str
    runs: list[RatedRun]
    ended: list[EndedRun]
    flags: list[Flag]


def user(found: UserRecord, fleet: FleetView) -> UserDocument:
    return {
        "user": found.name,
        "runs": [run_row(run, fleet.taken_at) for run in found.runs],
        "jobs": [job_row(job, fleet.taken_at) for run in found.runs for job in run.jobs],
        "ended_runs": [ended_row(run) for run in found.ended],
        "flags": [listings.flag_row(flag) for flag in found.flags],
        "checkpoint_bytes": checkpoint_bytes(found.runs),
        "taken_at": fleet.taken_at,
        "is_stale": fleet.is_stale,
    }


def checkpoint_bytes(rows: Iterable[RatedRun]) -> int:
    """Return the total size of runs' checkpoints."""
    return sum(run.first.checkpoint_bytes for run in rows)
