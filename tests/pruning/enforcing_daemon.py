"""The real daemon with its real agent, store and schedule over one user's training; only the queue is made up."""

import subprocess
import sys
import threading
import time

import numpy as np

from support.prune_facts import UID, own

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
listen = "{listen}"
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
mode = "{mode}"
last = 2
"""
DAEMON = """
import logging, os, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from ckptd.config import read_config
from ckptd.core.model import Job, JobState, Past, QueueSnapshot
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
    def read_past(self, since, until):
        return Past((), until)
    def read_ended(self, job_ids, since):
        return ()
    def read_clock(self):
        return None
    def read_maintenance(self):
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


def configure(shop, *, mode="enforce", listen=""):
    path = shop.root / "config.toml"
    path.write_text(SETTINGS.format(root=shop.root, mode=mode, listen=listen))
    return path


def start(shop, log, **settings):
    arguments = [str(configure(shop, **settings)), str(UID), str(shop.now.timestamp()), str(shop.directory.parent)]
    return subprocess.Popen([sys.executable, "-c", DAEMON, *arguments], stdout=log, stderr=log, start_new_session=True)


def wait_for(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
