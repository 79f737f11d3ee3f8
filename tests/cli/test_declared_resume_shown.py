"""What a job says that it loaded, from its file through a real scan to what `ckptd show` prints."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from demo.patience import allow

UID = 54_321 if os.geteuid() == 0 else os.geteuid()
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
[mail]
mode = "log"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
"""


class Site:
    """A cluster of one job, which saves in `home/ckpts`, and the commands of its administrator."""

    def __init__(self, root):
        self.root = root
        self.home = root / "home"
        self.checkpoints = self.home / "ckpts"
        self.checkpoints.mkdir(parents=True)
        (root / "queue").mkdir()
        (root / "config.toml").write_text(SETTINGS.format(root=root))
        self.began = time.time() - 7200
        for place in (self.home, self.checkpoints):
            os.chown(place, UID, -1)

    def run(self, *words):
        argv = [sys.executable, "-m", "ckptd", "--config", self.root / "config.toml", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=allow(120))
        assert done.returncode in {0, 1}, done.stderr[-2000:]  # 1: there are flags
        return done.stdout

    def once(self, restart_count, started_after):
        job = {
            "job_id": 7,
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
            "start_time": int(self.began + started_after),
            "end_time": int(self.began + started_after + 36_000),
            "current_working_directory": str(self.home),
            "comment": f"ckpt={self.checkpoints}",
            "nodes": "n1",
            "node_count": 1,
            "cpus": 8,
            "cluster": "alpha",
        }
        (self.root / "queue/1.json").write_text(json.dumps({"meta": {}, "errors": [], "jobs": [job]}))
        self.run("once")

    def save(self, epoch, saved_after):
        path = self.checkpoints / f"epoch_{epoch}.npz"
        with path.open("wb") as file:
            np.savez(file, **{"opt/mu": np.arange(10.0)}, weights=np.arange(1000.0), epoch=epoch)
        os.chown(path, UID, -1)
        os.utime(path, (self.began + saved_after,) * 2)

    def say(self, line, said_after):
        folder = self.home / ".ckptd"
        folder.mkdir()
        (folder / "resumed").write_text(line)
        for place in (folder, folder / "resumed"):
            os.chown(place, UID, -1)
        os.utime(folder / "resumed", (self.began + said_after,) * 2)

    def show(self):
        (view,) = json.loads(self.run("show", "7", "--json"))["runs"]
        return view["attempts"][-1]["resumed_from"]


@pytest.fixture
def site():
    root = Path(tempfile.mkdtemp(prefix="ckptd-declared-"))
    root.chmod(0o755)
    made = Site(root)
    for epoch in range(1, 6):
        made.save(epoch, 600 * epoch)
    made.once(0, 0)
    yield made
    shutil.rmtree(root)


def line(site, epoch, **changes):
    said = {"path": f"{site.checkpoints}/epoch_{epoch}.npz", "cluster": "alpha", "job": 7, "restart": 1}
    return json.dumps(said | changes) + "\n"


def test_what_a_job_declares_is_read_and_shown_as_declared(site):
    site.say(line(site, 2), 3700)
    site.once(1, 3600)
    found = site.show()
    assert (found["certainty"], found["path"]) == ("declared", f"{site.checkpoints}/epoch_2.npz")
    assert "resumed from epoch_2.npz, as the job says" in site.run("show", "7")


def test_the_command_in_the_job_declares_it(site):
    site.once(1, 7100)
    variables = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1", "SLURM_CLUSTER_NAME": "alpha"}
    argv = [sys.executable, "-m", "ckptd", "resumed", "ckpts/epoch_4.npz"]
    subprocess.run(argv, cwd=site.home, env={**os.environ, **variables}, check=True, timeout=allow(60))
    for place in (".ckptd", ".ckptd/resumed"):
        os.chown(site.home / place, UID, -1)
    site.once(1, 7100)
    found = site.show()
    assert (found["certainty"], found["path"]) == ("declared", f"{site.checkpoints}/epoch_4.npz")
