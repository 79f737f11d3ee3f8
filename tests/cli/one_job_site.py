"""A site with one job on a replayed queue, and the commands of its administrator."""

import json
import os
import time

import numpy as np

from demo.patience import allow
from support.forked_daemon import complete_ckptd

UID = 54_321 if os.geteuid() == 0 else os.geteuid()
JOB_ID = 7
SETTINGS = """
[slurm]
source = "replay"
replay_path = "{root}/queue"
cluster = "alpha"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
interval = "1s"
write_grace = "1s"
inotify = false
allowed_roots = ["{root}/home"]
[health.rules.copy-behind]
first_after = "30m"
[mail]
mode = "log"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
"""


class OneJobSite:
    """The job began two hours ago, works in `home`, and saves an epoch every ten minutes in `home/ckpts`."""

    def __init__(self, root):
        self.root = root
        self.home = root / "home"
        self.checkpoints = self.make_directory("home/ckpts")
        self.began = time.time() - 7200
        (root / "queue").mkdir()
        (root / "config.toml").write_text(SETTINGS.format(root=root))

    def make_directory(self, name):
        """Make a directory of the job's user."""
        path = self.root / name
        path.mkdir(parents=True)
        for place in (self.home, path):
            os.chown(place, UID, -1)
        return path

    def queue(self, comment, restart_count=0, started_after=0):
        """Let the next poll find the job, started so many seconds after it was submitted."""
        started_at = int(self.began + started_after)
        job = {
            "job_id": JOB_ID,
            "user_name": "alice",
            "user_id": UID,
            "account": "lab",
            "partition": "gpu",
            "name": "training",
            "job_state": "RUNNING",
            "restart_cnt": restart_count,
            "requeue": True,
            "time_limit": 600,
            "submit_time": int(self.began),
            "start_time": started_at,
            "end_time": started_at + 36_000,
            "current_working_directory": str(self.home),
            "comment": comment,
            "nodes": "n1",
            "node_count": 1,
            "cpus": 8,
            "cluster": "alpha",
        }
        (self.root / "queue/1.json").write_text(json.dumps({"meta": {}, "errors": [], "jobs": [job]}))

    def run(self, *words):
        """Return what a command prints."""
        config = str(self.root / "config.toml")
        done = complete_ckptd("--config", config, *words, folder=self.root, timeout=allow(120))
        assert done.returncode in {0, 1}, done.stderr[-2000:]  # 1: there are flags
        return done.stdout

    def read(self, *words):
        """Return what a command prints as JSON."""
        return json.loads(self.run(*words, "--json"))

    def save(self, epoch):
        """Save an epoch as the job did, at its time."""
        path = self.checkpoints / f"epoch_{epoch}.npz"
        with path.open("wb") as file:
            np.savez(file, **{"opt/mu": np.arange(10.0)}, weights=np.arange(1000.0), epoch=epoch)
        os.chown(path, UID, -1)
        os.utime(path, (self.began + 600 * epoch,) * 2)
        return path
