"""What scans and jobs of the owner find together in a large directory, from the first scan to the record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import pytest

from checkpoints.verify_jobs_site import USER, open_site
from ckptd.core.model import CheckpointState, Job, JobState, Level
from ckptd.core.model.checkpoints import UNREAD
from ckptd.service.step_table import run_once
from ckptd.steps import first_scan_jobs, follow_verifications, scan
from ckptd.steps.state import begin
from support import starved_agent
from support.migrated import open_record
from support.parts import make_parts
from support.prune_facts import Queue

NAMES = [f"epoch_{number}.npz" for number in range(1, 7)]


class Watched:
    """The steps of a daemon whose scans have time for one file, and the run of one job."""

    def __init__(self, site):
        self.site = site
        self.now = datetime.now(UTC)
        self.store = open_record(f"sqlite:///{site.root}/ckptd.sqlite3")
        queue = Queue()
        queue.jobs = (self._make_job(),)
        self.parts = make_parts("c", queue, self.store, site.agent)
        executor = site.make_jobs(self.store.verification_tickets, scan_entries=2)
        self.parts = replace(self.parts, job_executor=executor)
        self.state = begin(self.parts, self.now)

    def _make_job(self):
        return Job(
            cluster="c",
            job_id=1,
            user=USER.pw_name,
            uid=USER.pw_uid,
            state=JobState.RUNNING,
            started_at=self.now,
            submitted_at=self.now,
            ends_at=self.now + timedelta(days=5),
            time_limit=timedelta(days=5),
            time_left=timedelta(days=5),
            work_dir=PurePosixPath(self.site.directory),
            comment=f"ckpt={self.site.directory}",
        )

    def begin(self):
        run_once(self.parts, self.state, self.now)

    def scan(self):
        self.now += timedelta(seconds=2)
        scan.run(self.parts, self.state, self.now)

    def follow(self):
        return [line.text for line in follow_verifications.run(self.parts, self.state, self.now).lines]

    def read_record(self):
        return {each.checkpoint.path.name: each.checkpoint for each in self.store.checkpoints.read(self.site.run)}

    def list_unread(self):
        return sorted(name for name, each in self.read_record().items() if each.reason == UNREAD)


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(first_scan_jobs, "UNREAD_FOR", timedelta(0))
    with open_site(monkeypatch, "scan_beyond = 2\n", starved_agent.start_agent) as site:
        site.save(*NAMES)
        watched = Watched(site)
        yield watched
        watched.store.close()


def test_what_jobs_read_is_on_record_after_the_next_scan_as_if_this_node_had_read_it(watched):
    watched.begin()
    assert len(watched.list_unread()) == len(NAMES) - 1
    (line,) = watched.follow()
    assert line.startswith("a job of the owner was submitted to read 5 checkpoints")
    watched.scan()
    assert len(watched.list_unread()) == len(NAMES) - 2, "scans go on while the job waits"
    watched.site.slurm.run_tasks(1)
    watched.follow()
    watched.scan()
    assert watched.list_unread() == []
    found = watched.read_record()
    assert found == watched.site.scan()
    assert {(each.state, each.level) for each in found.values()} == {(CheckpointState.COMPLETE, Level.STRUCTURE)}
    (line,) = watched.follow()
    assert "no longer needed" in line
    assert watched.store.verification_tickets.list_unwatched("c", watched.now) == ()
    assert list((watched.site.root / "tickets" / str(USER.pw_uid)).iterdir()) == []


def test_scans_that_are_faster_than_the_queue_cancel_the_job(watched):
    watched.begin()
    watched.follow()
    while watched.list_unread():
        watched.scan()
    watched.follow()
    assert set(watched.site.slurm.list_jobs()[1]["tasks"].values()) == {"CANCELLED"}
    assert watched.read_record() == watched.site.scan()
