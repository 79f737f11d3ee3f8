"""A run on a real disk, with a real store and a real agent, watched at moments that the test chooses."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import numpy as np

from ckptd.core import retention
from ckptd.core.model import Job, JobState, PastJobs, QueueSnapshot, RunKey
from ckptd.core.retention import KeepLast, Policy, PolicyMatch, PolicyMode
from ckptd.service.step_table import make_runner, run_once
from ckptd.steps import poll
from ckptd.steps.prune import SitePolicy, step
from ckptd.steps.state import begin
from support.migrated import open_record
from support.parts import make_parts
from support.shared_agent import get_agent

CLUSTER = "c"
UID = 54_321 if os.geteuid() == 0 else os.geteuid()
START = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]
MINUTE = timedelta(minutes=1)


class Queue:
    """A source of jobs that shows what the test says."""

    name = "fake"

    def __init__(self):
        self.jobs = ()

    def read_queue(self, now):
        return QueueSnapshot(cluster=CLUSTER, polled_at=now, jobs=self.jobs)

    def read_past(self, since, until):
        return PastJobs((), until)

    def read_ended(self, job_ids, since):
        return ()

    def read_batch_script(self, job, *, is_urgent=False):
        raise NotImplementedError

    def read_mail_user(self, job):
        return None

    def is_answering(self):
        return True


def make_policy(*rules, **changes):
    facts = {"rules": rules or (KeepLast(2),), "mode": PolicyMode.ENFORCE, "prune_files": ("*.npz",)}
    return Policy(name="tight", **{**facts, **changes})


def make_site(root, *policies, **changes):
    caps = retention.Caps(filesystem_share=1.0)
    return SitePolicy(
        **{
            "matches": tuple(PolicyMatch(policy=policy) for policy in policies or (make_policy(),)),
            "bounds": retention.Bounds(),
            "caps": caps,
            "guards": retention.Guards(),
            "interval": timedelta(minutes=5),
            "hold": timedelta(days=7),
            "no_room_hold": None,
            "deadline": timedelta(seconds=30),
            "look_deadline": timedelta(seconds=30),
            "verify_deadline": timedelta(seconds=30),
            "allowed_roots": (PurePosixPath(root),),
            **changes,
        }
    )


class Workshop:
    """One user's run and all that ckptd needs to prune it; `now` moves only when told."""

    def __init__(self, root, agent, url=None):
        self.root = root
        self.agent = agent
        self.directory = root / "home/ckpts"
        self.queue = Queue()
        self.store = open_record(url or f"sqlite:///{root}/ckptd.sqlite3")
        self.site = make_site(root)
        self.memory = step.PruneSlice()
        self.now = START
        self.arriving = []
        self.poll_count = 0
        self.parts = make_parts(
            CLUSTER,
            self.queue,
            self.store,
            agent,
            min_job_duration=MINUTE,
            runner=make_runner(poll=lambda _parts, _state: self.poll(), read_time=lambda: self.now),
        )
        self.state = begin(self.parts, self.now)

    @property
    def run(self):
        return RunKey(CLUSTER, UID, str(self.directory))

    def start_job(self, job_id=1, **changes):
        self.queue.jobs = (*self.queue.jobs, self.make_job(job_id, **changes))
        self.look()

    def make_job(self, job_id, **changes):
        job = Job(
            cluster=CLUSTER,
            job_id=job_id,
            user="alice",
            uid=UID,
            state=JobState.RUNNING,
            started_at=self.now,
            submitted_at=self.now,
            ends_at=self.now + timedelta(days=5),
            time_limit=timedelta(days=5),
            time_left=timedelta(days=5),
            work_dir=PurePosixPath(self.directory.parent),
            comment="ckpt=ckpts",
        )
        return replace(job, **changes)

    def end_jobs(self):
        """All jobs vanish; that is believed at the third look, and the run is looked at once more."""
        self.queue.jobs = ()
        for _ in range(4):
            self.wait(1)
            self.look()

    def look(self):
        left = timedelta(days=5) - (self.now - START)
        self.queue.jobs = tuple(replace(job, time_left=left) for job in self.queue.jobs)
        run_once(self.parts, self.state, self.now)

    def wait(self, minutes):
        self.now += minutes * MINUTE

    def save(self, name, **arrays):
        """Save a checkpoint now, as the owner, and let a look see it a minute later and again when it settled."""
        path = self.directory / name
        with path.open("wb") as file:
            np.savez(file, **{"opt/mu": np.arange(100.0)}, weights=np.arange(100.0), **arrays)
        own(path)
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))
        return path

    def train(self, epochs, every=30, saves_per_look=1):
        """Save after each so many minutes; each save is seen while the job runs."""
        for count, epoch in enumerate(epochs, 1):
            self.wait(every)
            self.save(f"epoch_{epoch}.npz", epoch=epoch)
            self.wait(1)
            if count % saves_per_look == 0:
                self.look()

    def act(self, elapsed=None):
        self.look()
        elapsed = self.now - START if elapsed is None else elapsed
        return step.act(self.parts, self.state, self.site, self.memory, self.now, elapsed)

    def poll(self):
        """Read the queue as a step does: at each of its looks the jobs that `arriving` has next are there, too."""
        self.poll_count += 1
        self.queue.jobs += tuple(self.arriving.pop(0) if self.arriving else ())
        poll.poll(self.parts, self.state, self.now)

    def names(self):
        return sorted(path.name for path in self.directory.iterdir() if path.is_file())

    def trash(self):
        return self.directory.parent / ".ckptd-trash"

    def trashed(self):
        return sorted(path.name for path in self.trash().iterdir()) if self.trash().exists() else []

    def audit(self, action=None):
        found = self.store.audit.list_newest(CLUSTER)
        return [entry for entry in reversed(found) if action in {None, entry.action}]

    def record(self):
        return {
            record.checkpoint.path.name: record
            for record in self.store.prune_records.read(CLUSTER, [self.run])[0].history.checkpoints
        }


def own(path):
    os.chown(path, UID, -1)


@contextmanager
def workshop(url=None, *, keeps_children=True):
    root = Path(tempfile.mkdtemp(prefix="ckptd-prune-"))
    shop = None
    try:
        root.chmod(0o755)
        (root / "home/ckpts").mkdir(parents=True)
        own(root / "home")
        own(root / "home/ckpts")
        shop = Workshop(root, get_agent(keeps_children=keeps_children, write_grace="60s"), url)
        yield shop
    finally:
        if shop:
            shop.store.close()
        shutil.rmtree(root)
