"""Two clusters on one database: jobs with the same ids, users and directories on both."""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

from ckptd.core import queue
from ckptd.core.health import Evaluation, flag_changes
from ckptd.core.model import Finding, Job, JobState, QueueSnapshot, RunKey, Severity
from ckptd.core.model.records import DaemonIdentity
from support.recorded import note_run

DIRECTORY = "/data/alice/run"
ALPHA = RunKey("alpha", 1000, DIRECTORY)
BETA = RunKey("beta", 1000, DIRECTORY)


def make_job(cluster, job_id, now, **changes):
    """Return a job that has run for ten minutes of its hour."""
    values = {
        "cluster": cluster,
        "job_id": job_id,
        "user": "alice",
        "uid": 1000,
        "name": f"train-{cluster}",
        "partition": "long",
        "state": JobState.RUNNING,
        "restart_count": 0,
        "submitted_at": now - timedelta(minutes=11),
        "started_at": now - timedelta(minutes=10),
        "ends_at": now + timedelta(minutes=50),
        "time_limit": timedelta(hours=1),
        "time_left": timedelta(minutes=50),
        "node_list": "n1",
        "node_count": 1,
        "work_dir": PurePosixPath("/home/alice"),
    }
    return Job(**(values | changes))


def poll(store, cluster, now, *jobs):
    """Record a poll of one cluster; return the changes."""
    snapshot = QueueSnapshot(cluster=cluster, polled_at=now, jobs=jobs)
    changes = queue.compare(store.jobs.read_tracked(cluster), snapshot)
    store.jobs.record(changes)
    store.clusters.record_poll(cluster, now)
    return changes


def fill(store, now=None):
    """Record job 7 of alice in one directory on each cluster, with a flag on beta; no files are shared."""
    now = now or datetime.now(UTC)
    for run in (ALPHA, BETA):
        changes = poll(store, run.cluster, now, make_job(run.cluster, 7, now))
        note_run(store, run, now, jobs=[changes.new[0].key])
        daemon = DaemonIdentity(host=f"admin-{run.cluster}", pid=1, version="0", started_at=now)
        store.clusters.record_heartbeat(run.cluster, daemon, now)
    finding = Finding(
        rule="at-risk", severity=Severity.WARNING, run=BETA, job_id=7, user="alice", evidence={"time_left_seconds": 60}
    )
    store.flags.record(flag_changes.compare((), [Evaluation(run=BETA, findings=(finding,))], now), now)
