"""The JSON documents under /api/v1, made of the same rows as the commands'."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from ckptd.core import timeline, views
from ckptd.core.model import Flag
from ckptd.core.record import ClusterStatus
from ckptd.web.listing import Page
from ckptd.web.record import Fleet, RatedJob, RunRecord
from ckptd.web.viewer import Viewer

SECONDS_TO_DEATH = timedelta(seconds=90)  # three heartbeats missed


def encode(document: Any) -> bytes:
    """Write a document; text that is not UTF-8 appears as escapes of JSON's own."""
    try:
        return json.dumps(document, default=_plain, allow_nan=False).encode("ascii")
    except ValueError:  # files claim what they like, an epoch of infinity, too
        return json.dumps(_finite(document), default=_plain, allow_nan=False).encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        **views.job_row(row, now),
        "cluster": row.run.cluster,
        "uid": row.run.uid,
        "run": row.run.directory,
        "severity": job.severity.value if job.severity else None,
    }


def flags(page: Page[Flag], fleet: Fleet) -> dict[str, Any]:
    rows = [flag_row(flag) for flag in page.items]
    return {"flags": rows, "total": page.total, "taken_at": fleet.taken_at, "is_stale": fleet.is_stale}


def flag_row(flag: Flag) -> dict[str, Any]:
    return {**views.flag_row(flag), "uid": flag.finding.run.uid}


def run(found: RunRecord, now: datetime) -> dict[str, Any]:
    drawn = timeline.draw(found.history, now)
    return {
        **views.run_view(found.history, (), now, found.losses),
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


def user(name: str, rows: list[RatedJob], found: list[Flag], fleet: Fleet) -> dict[str, Any]:
    return {
        "user": name,
        "jobs": [job_row(job, fleet.taken_at) for job in rows],
        "flags": [flag_row(flag) for flag in found],
        "checkpoint_bytes": checkpoint_bytes(rows),
        "taken_at": fleet.taken_at,
        "is_stale": fleet.is_stale,
    }


def checkpoint_bytes(rows: Iterable[RatedJob]) -> int:
    """Return what the runs of jobs hold; jobs of one run count once."""
    return sum({job.row.run: job.row.checkpoint_bytes for job in rows}.values())
