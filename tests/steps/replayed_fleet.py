"""A told cluster whose jobs save real files, under the real cycle with a real store and the real agent."""

import os
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from ckptd.core import health
from ckptd.core.model import EndedAttempt, Job, JobState, PastJobs, QueueSnapshot, Unknown
from ckptd.service.step_table import run_once
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts

UID = 54322 if os.geteuid() == 0 else os.geteuid()
# files are written while the test runs, so the cluster's time begins before it
BEGAN = datetime.now(UTC) - timedelta(hours=3)


def minute(minutes):
    return BEGAN + timedelta(minutes=minutes)


@contextmanager
def made_work_dir():
    """Make a directory of the user for as long as it is needed; nobody watches the one above it."""
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        directory = Path(parent, "run")
        directory.mkdir()
        os.chown(directory, UID, UID)
        yield directory


class ToldSource:
    """A cluster that answers what the test tells it."""

    name = "told"

    def __init__(self):
        self.jobs: tuple[Job, ...] | Unknown = ()
        self.ended: tuple[EndedAttempt, ...] | Unknown = Unknown(what="accounting", reason="there is none")

    def read_queue(self, now):
        if isinstance(self.jobs, Unknown):
            return self.jobs
        return QueueSnapshot(cluster="c1", polled_at=now, jobs=self.jobs)

    def read_past(self, since, until):
        return PastJobs((), until)

    def read_ended(self, job_ids, since):
        return self.ended

    def read_batch_script(self, job, *, is_urgent=False):
        return "#!/bin/bash\npython train.py --checkpoint-dir out\n"


class Fleet:
    """A daemon's parts and state, driven by minutes."""

    def __init__(self, agent, url, work_dir):
        self.source = ToldSource()
        self.work_dir = work_dir
        self.parts = make_parts(
            "c1",
            self.source,
            open_record(url),
            agent,
            # a test's directories are temporary ones, which a rule of its own would say of each
            rules=tuple(rule() for name, rule in health.RULES.items() if name != "volatile-path"),
            scan_interval=timedelta(minutes=1),
            max_poll_age=timedelta(minutes=10),
            min_job_duration=timedelta(minutes=10),
        )
        self.state = begin(self.parts, minute(0))

    def run(self, minutes, *jobs):
        if jobs:
            self.source.jobs = jobs if not isinstance(jobs[0], Unknown) else jobs[0]
        run_once(self.parts, self.state, minute(minutes))
        return self.flags()

    def job(self, job_id=1, *, start=0.0, name="train", **changes):
        values = {
            "cluster": "c1",
            "job_id": job_id,
            "user": "alice",
            "uid": UID,
            "name": name,
            "state": JobState.RUNNING,
            "time_limit": timedelta(hours=24),
            "submitted_at": minute(start - 1),
            "started_at": minute(start),
            "ends_at": minute(start) + timedelta(hours=24),
            "work_dir": PurePosixPath(self.work_dir),
            "node_list": "n1",
        }
        return Job(**{**values, **changes})

    def flags(self):
        flags = self.parts.store.flags.list_open("c1")
        return sorted((flag.finding.rule, flag.finding.job_id) for flag in flags)

    def running(self):
        return sorted(row.key.job_id for row in self.parts.store.jobs.list_open(minute(0)))

    def save(self, name, minutes, content=b"\x08\0\0\0\0\0\0\0{}      "):
        path = self.work_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        for each in (path.parent, path):
            os.chown(each, UID, UID)
        os.utime(path, (minute(minutes).timestamp(),) * 2)
