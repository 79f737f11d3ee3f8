"""The real daemon as a process of its own, on a queue that a test plays to it and directories that it writes."""

import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from demo import ports
from demo.patience import allow
from support import quick_retention
from support.forked_daemon import ForkedDaemon, run_ckptd
from support.queue_facts import CLUSTER

UID = 54_321 if os.geteuid() == 0 else os.geteuid()
HOUR = 3600
SETTINGS = """
[slurm]
source = "replay"
replay_path = "{root}/queue"
cluster = "{cluster}"
poll_interval = "1s"
[store]
url = "{database}"
[scan]
interval = "1s"
write_grace = "1s"
inotify = false
allowed_roots = ["{root}/home"]
[health]
min_job_duration = "1m"
[health.rules.restarted-without-checkpoint]
min_loss = "1s"
[metrics]
flagged_jobs = 5
[mail]
mode = "log"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
critical_window = "1s"
[web]
listen = "{address}"
[service]
state_directory = "{root}/state"
"""


class ReplayedDaemon:
    """One daemon and its cluster, of which a test decides everything."""

    def __init__(self, root, database):
        self.root = root
        self.address = f"127.0.0.1:{ports.find_free_ports(1)[0]}"
        self._played = 0
        self._saved = 0
        (root / "queue").mkdir()
        for folder in ("home", "home/ckpts", "home/broken", "home/empty"):
            (root / folder).mkdir()
            os.chown(root / folder, UID, -1)
        text = SETTINGS.format(root=root, cluster=CLUSTER, database=database, address=self.address)
        (root / "config.toml").write_text(text + quick_retention.format_settings(hold="2s"))

    def start(self):
        words = "--config", str(self.root / "config.toml"), "run"
        with (self.root / "log").open("w") as log:
            self._process = ForkedDaemon(run_ckptd, *words, log=log, folder=self.root)

    def check(self):
        """Make sure that it still runs."""
        assert self._process.poll() is None, self.read_log()[-3000:]

    def read_log(self):
        return (self.root / "log").read_text()

    def stop(self):
        self._process.terminate()
        assert self._process.wait(timeout=allow(30)) == 0, self.read_log()[-3000:]

    def play(self, *jobs):
        """Let the next poll, and those after it, see these jobs."""
        self._played += 1
        document = {"meta": {}, "errors": [], "jobs": jobs}
        path = self.root / f"queue/{self._played}.json"
        path.with_suffix(".new").write_text(json.dumps(document))
        path.with_suffix(".new").rename(path)

    def make_job(self, job_id, directory, **changes):
        """Describe a job of four GPUs that began three hours ago and may run for one more."""
        now = int(time.time())
        return {
            "job_id": job_id,
            "user_name": "alice",
            "user_id": UID,
            "account": "lab",
            "partition": "gpu",
            "name": "training",
            "job_state": "RUNNING",
            "restart_cnt": 0,
            "requeue": True,
            "time_limit": 4 * 60,
            "submit_time": now - 3 * HOUR,
            "start_time": now - 3 * HOUR,
            "end_time": now + HOUR,
            "current_working_directory": str(self.root / "home"),
            "comment": f"ckpt={directory}",
            "nodes": "n1",
            "node_count": 1,
            "cpus": 8,
            "tres_alloc_str": "cpu=8,node=1,billing=8,gres/gpu=4",
            "cluster": CLUSTER,
            **changes,
        }

    def save(self, directory="ckpts"):
        """Save one more epoch, as its owner."""
        self._saved += 1
        path = self.root / f"home/{directory}/epoch_{self._saved}.npz"
        with path.open("wb") as file:
            np.savez(file, **{"opt/mu": np.arange(10.0)}, weights=np.arange(1000.0), epoch=self._saved)
        os.chown(path, UID, -1)
        return path

    def break_off(self, directory):
        """Leave a save that nobody will ever finish."""
        os.truncate(self.save(directory), 300)


class SlowSave:
    """A save that is under way until `finish`."""

    def __init__(self, daemon):
        self._path = daemon.save()
        self._rest = self._path.read_bytes()[300:]
        os.truncate(self._path, 300)

    def go_on(self):
        """Write a little more."""
        with self._path.open("ab") as file:
            file.write(self._rest[:10])
        self._rest = self._rest[10:]

    def finish(self):
        with self._path.open("ab") as file:
            file.write(self._rest)


@contextmanager
def replayed_daemon(database):
    """Give a daemon that has not started, in a directory that its user can reach; all is gone in the end."""
    root = Path(tempfile.mkdtemp(prefix="ckptd-replayed-"))
    root.chmod(0o755)
    try:
        yield ReplayedDaemon(root, database)
    finally:
        shutil.rmtree(root)
