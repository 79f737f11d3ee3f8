"""The whole daemon, enforcing a tight policy, is killed with -9 again and again: what must be true after each start.

It is the real daemon with its real agent, store and schedule; only the queue is made up.
"""

import random
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import numpy as np

from prune_facts import UID, own, workshop

ROUNDS = 8
KEPT = 2
SETTINGS = """
[slurm]
cluster = "c"
poll_interval = "1s"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
interval = "1s"
settle_time = "1s"
inotify = false
allowed_roots = ["{root}/home"]
[web]
listen = ""
[service]
state_directory = "{root}/state"
[retention]
min_age = "1s"
interval = "1s"
hold = "4s"
[retention.guards]
restart_grace = "1s"
save_grace = "1s"
[retention.caps]
filesystem_share = 1.0
[[retention.policy]]
name = "tight"
mode = "enforce"
last = 2
"""
DAEMON = """
import logging, os, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from ckptd.config import read_config
from ckptd.core.model import Job, JobState, QueueSnapshot
from ckptd.service import build
from ckptd.service.daemon import Daemon

class Queue:
    name = "made up"
    def read_queue(self, now):
        start = datetime.fromtimestamp(float(sys.argv[3]), UTC)
        day = timedelta(days=1)
        job = Job(cluster="c", job_id=1, user="alice", uid=int(sys.argv[2]), state=JobState.RUNNING, started_at=start,
            submitted_at=start, ends_at=start + day, time_limit=day, time_left=start + day - now,
            work_dir=PurePosixPath(sys.argv[4]), comment="ckpt=ckpts")
        return QueueSnapshot(cluster="c", polled_at=now, jobs=(job,))
    def read_ended(self, job_ids, since):
        return ()

logging.basicConfig(level="INFO")
build.build_source = lambda config, only_user: Queue()
path = Path(sys.argv[1])
sys.exit(Daemon(read_config(path, {}), path, os.environ).run())
"""


class Training(threading.Thread):
    """Saves an epoch every moment, whole by a rename, and knows what it wrote."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory
        self.written = {}
        self._is_over = threading.Event()

    def run(self):
        while not self._is_over.wait(0.25):
            epoch = len(self.written) + 1
            path = self.directory / f"epoch_{epoch}.npz"
            temporary = self.directory / f".{path.name}.tmp"
            with temporary.open("wb") as file:
                np.savez(file, weights=np.arange(50.0) + epoch, epoch=epoch)
            own(temporary)
            self.written[path.name] = temporary.read_bytes()
            temporary.rename(path)

    def stop(self):
        self._is_over.set()
        self.join()


def start(shop, log):
    config = shop.root / "config.toml"
    config.write_text(SETTINGS.format(root=shop.root))
    arguments = [str(config), str(UID), str(shop.now.timestamp()), str(shop.directory.parent)]
    return subprocess.Popen([sys.executable, "-c", DAEMON, *arguments], stdout=log, stderr=log, start_new_session=True)


def wait_for(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def check_needed(shop, training):
    """The newest ones are where they were written, byte for byte."""
    for name in list(training.written)[-KEPT - 1 : -1]:
        assert (shop.directory / name).read_bytes() == training.written[name], name


def check_all(shop, training):
    """What is gone is so by a move on record; what is on record as in the trash is there, or deleted on record."""
    acts = shop.audit()
    assert [entry for entry in acts if entry.finished_at is None] == []
    moved = {e.target.rpartition("/")[2]: str(e.details["act_id"]) for e in acts if is_ended(e, "prune", "moved")}
    deleted = {str(e.details["act_id"]) for e in acts if is_ended(e, "empty", "deleted")}
    there = set(shop.names())
    assert set(training.written) - there == set(moved)
    assert there & set(moved) == set()
    in_trash = set(shop.trashed())
    assert in_trash == set(moved.values()) - deleted
    for name, act_id in moved.items():
        if act_id in in_trash:
            assert (shop.trash() / act_id / "0").read_bytes() == training.written[name]
    for name, record in shop.record().items():
        assert (record.pruned_at is not None) == (name in moved), name
    return moved, deleted


def is_ended(entry, action, outcome):
    return entry.action == action and (entry.outcome or "").startswith(outcome)


def test_killed_at_random_moments_no_needed_checkpoint_is_lost_and_audit_and_disk_agree():
    chance = random.Random()
    with workshop() as shop, (shop.root / "log").open("w") as log:
        shop.now = datetime.now(UTC)
        training = Training(shop.directory)
        training.start()
        try:
            for _ in range(ROUNDS):
                before = len(shop.audit("prune"))
                daemon = start(shop, log)
                try:
                    wait_for("the daemon to prune", lambda before=before: len(shop.audit("prune")) > before)
                    time.sleep(chance.uniform(0, 1.5))  # the moment of the kill is the test's subject
                finally:
                    daemon.send_signal(signal.SIGKILL)
                    daemon.wait()
                check_needed(shop, training)
        finally:
            training.stop()
        daemon = start(shop, log)
        try:
            wait_for("every act to be settled", lambda: is_quiet(shop))
        finally:
            daemon.terminate()
            assert daemon.wait(timeout=20) == 0, (shop.root / "log").read_text()[-3000:]
        moved, deleted = check_all(shop, training)
        assert len(moved) >= ROUNDS
        assert deleted
        last = max(training.written, key=lambda name: int(name[6:-4]))
        assert last in shop.names()


def is_quiet(shop):
    """Nothing is open, and for a few seconds nothing new was begun."""
    acts = shop.audit()
    latest = max((entry.begun_at for entry in acts), default=shop.now)
    return all(entry.finished_at for entry in acts) and (datetime.now(UTC) - latest).total_seconds() > 8
