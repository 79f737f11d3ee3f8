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
from ckptd.web.cache import Fleet, RatedJob, RatedRun, RunDetails
from ckptd.web.query import Page
from ckptd.web.viewer import Viewer

SECONDS_TO_DEATH = timedelta(seconds=90)  # three heartbeats missed


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


def status(fleet: Fleet, viewer: Viewer, now: datetime) -> dict[str, Any]:
    """How the daemon is. Nothing in it is about anybody's jobs."""
    return {
        "viewer": viewer.name,
        "is_operator": viewer.is_operator,
        "taken_at": fleet.taken_at,
        "is_stale": fleet.is_stale,
        "clusters": [_cluster(cluster, viewer, now) for cluster in fleet.clusters],
    }


def _cluster(cluster: ClusterStatus, viewer: Viewer, now: datetime) -> dict[str, Any]:
    trouble = cluster.poll_trouble
    return {
        "cluster": cluster.cluster,
        "is_alive": cluster.heartbeat_at is not None and now - cluster.heartbeat_at < SECONDS_TO_DEATH,
        "is_slurm_up": trouble is None,
        "slurm_trouble": trouble.reason if trouble and viewer.is_operator else None,
        "polled_at": cluster.polled_at,
        "scanned_at": cluster.scanned_at,
        "heartbeat_at": cluster.heartbeat_at,
    }


def jobs(page: Page[RatedJob], fleet: Fleet) -> dict[str, Any]:
    rows = [job_row(job, fleet.taken_at) for job in page.items]
    return {"jobs": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


def job_row(job: RatedJob, now: datetime) -> dict[str, Any]:
    row = job.row
    return {
        **listings.job_row(row, now),
        "cluster": row.run.cluster,
        "uid": row.run.uid,
        "run": row.run.directory,
        "severity": job.severity.value if job.severity else None,
    }


def runs(page: Page[RatedRun], fleet: Fleet) -> dict[str, Any]:
    rows = [run_row(run, fleet.taken_at) for run in page.items]
    return {"runs": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


_OF_THE_RUN = (
    "user",
    "directory",
    "located_by",
    "epoch",
    "step",
    "newest_checkpoint_at",
    "newest_checkpoint_age_seconds",
    "checkpoints",
    "checkpoint_bytes",
)


def run_row(run: RatedRun, now: datetime) -> dict[str, Any]:
    """Return one run in the queue with the numbers of its jobs that have started."""
    shared = listings.job_row(run.first, now)
    return {
        **_key(run.key),
        **{name: shared[name] for name in _OF_THE_RUN},
        "jobs": sorted(job.row.key.job_id for job in run.jobs),
        "states": [state.value for state in run.states],
        "restart_count": run.restart_count,
        "time_left_seconds": int(run.time_left.total_seconds()) if run.time_left is not None else None,
        "flags": run.flags,
        "severity": run.severity.value if run.severity else None,
    }


def ended_row(run: EndedRun) -> dict[str, Any]:
    """Return one run that is over."""
    return {
        **_key(run.run),
        "user": run.user,
        "job_id": run.job_id,
        "name": run.name,
        "attempts": run.attempt_count,
        "ended_at": run.ended_at,
        "cause": run.cause.value if run.cause else None,
        "epoch": run.epoch,
        "step": run.step,
        "newest_checkpoint_at": run.newest_checkpoint_at,
        "checkpoints": run.checkpoint_count,
        "checkpoint_bytes": run.checkpoint_bytes,
    }


def _key(run: RunKey) -> dict[str, Any]:
    return {"cluster": run.cluster, "uid": run.uid, "run": run.directory}


def flags(page: Page[Flag], fleet: Fleet) -> dict[str, Any]:
    rows = [flag_row(flag) for flag in page.items]
    return {"flags": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


def flag_row(flag: Flag) -> dict[str, Any]:
    return {**listings.flag_row(flag), "uid": flag.finding.run.uid}


def run(found: RunDetails, now: datetime) -> dict[str, Any]:
    drawn = timeline.draw(found.history, now)
    view = models.run_view(found.history, (), now, found.losses, found.ends)
    return {
        **view,
        "doubts": [*view["doubts"], *found.refused],
        "flags": [flag_row(flag) for flag in found.flags],
        "uid": found.history.key.uid,
        "taken_at": now,
        "timeline": _timeline(drawn) if drawn else None,
    }


def _timeline(drawn: timeline.Timeline) -> dict[str, Any]:
    """The time line without the attempts, which the run has."""
    return {
        "begins_at": drawn.begins_at,
        "ends_at": drawn.ends_at,
        "limits": [dataclasses.asdict(limit) for limit in drawn.limits],
        "losses": [dataclasses.asdict(loss) for loss in drawn.losses],
        "expected_checkpoints_at": list(drawn.expected),
    }


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class UserRecord:
    """What one user has, as far as the viewer may see it."""

    name: str
    runs: list[RatedRun]
    ended: list[EndedRun]
    flags: list[Flag]


def user(found: UserRecord, fleet: Fleet) -> dict[str, Any]:
    return {
        "user": found.name,
        "runs": [run_row(run, fleet.taken_at) for run in found.runs],
        "jobs": [job_row(job, fleet.taken_at) for run in found.runs for job in run.jobs],
        "ended_runs": [ended_row(run) for run in found.ended],
        "flags": [flag_row(flag) for flag in found.flags],
        "checkpoint_bytes": checkpoint_bytes(found.runs),
        "taken_at": fleet.taken_at,
        "is_stale": fleet.is_stale,
    }


def checkpoint_bytes(rows: Iterable[RatedRun]) -> int:
    """Return what runs hold."""
    return sum(run.first.checkpoint_bytes for run in rows)
