"""A job with two locations, from `ckptd once` on a replayed queue to what `jobs` and `show` print."""

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
[health.rules.copy-behind]
first_after = "30m"
[mail]
mode = "log"
sender = "ckptd@example.org"
recipient = "{{user}}@example.org"
"""


class Site:
    """A cluster of one job that saves in `home/ckpts` and copies to `home/archive`."""

    def __init__(self, root):
        self.root = root
        self.home, self.began = root / "home", time.time() - 7200
        self.primary, self.archive = self.home / "ckpts", self.home / "archive"
        for place in (self.home, self.primary, self.archive):
            place.mkdir()
            os.chown(place, UID, -1)
        (root / "queue").mkdir()
        (root / "config.toml").write_text(SETTINGS.format(root=root))
        job = {
            "job_id": 7,
            "user_name": "alice",
            "user_id": UID,
            "account": "lab",
            "partition": "gpu",
            "name": "training",
            "job_state": "RUNNING",
            "restart_cnt": 0,
            "requeue": True,
            "time_limit": 600,
            "submit_time": int(self.began),
            "start_time": int(self.began),
            "end_time": int(self.began + 36_000),
            "current_working_directory": str(self.home),
            "comment": "ckpt=ckpts:archive:/etc",
            "nodes": "n1",
            "node_count": 1,
            "cpus": 8,
            "cluster": "alpha",
        }
        (root / "queue/1.json").write_text(json.dumps({"meta": {}, "errors": [], "jobs": [job]}))

    def run(self, *words):
        argv = [sys.executable, "-m", "ckptd", "--config", self.root / "config.toml", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=allow(120))
        assert done.returncode in {0, 1}, done.stderr[-2000:]  # 1: there are flags
        return done.stdout

    def save(self, epoch):
        path = self.primary / f"epoch_{epoch}.npz"
        with path.open("wb") as file:
            np.savez(file, **{"opt/mu": np.arange(10.0)}, weights=np.arange(1000.0), epoch=epoch)
        os.chown(path, UID, -1)
        os.utime(path, (self.began + 600 * epoch,) * 2)
        return path

    def copy(self, path):
        made = self.archive / path.name
        shutil.copy2(path, made)
        os.chown(made, UID, -1)

    def show(self):
        [view] = json.loads(self.run("show", "7", "--json"))["runs"]
        return view


@pytest.fixture
def site():
    root = Path(tempfile.mkdtemp(prefix="ckptd-locations-"))
    root.chmod(0o755)
    yield Site(root)
    shutil.rmtree(root)


def test_once_scans_every_location_and_the_commands_say_where_the_newest_complete_checkpoint_is(site):
    for epoch in range(1, 4):
        site.copy(site.save(epoch))
    (site.primary / "epoch_3.npz").unlink()
    site.run("once")
    [job] = json.loads(site.run("jobs", "--json"))["jobs"]
    assert job["directory"] == str(site.primary)
    assert job["locations"] == [str(site.primary), str(site.archive), "/etc"]
    view = site.show()
    assert [(each["path"], each["checkpoints"]) for each in view["locations"]] == [
        (str(site.primary), 2),
        (str(site.archive), 3),
        ("/etc", 0),
    ]
    assert view["locations"][2]["trouble"] == "it is outside the site's allowed roots"
    assert view["newest_complete"]["path"] == f"{site.archive}/epoch_3.npz"
    assert view["newest_complete"]["certainty"] == "inferred"  # nobody knows what is in /etc
    text = site.run("show", "7")
    assert f"newest complete checkpoint: {site.archive}/epoch_3.npz, saved" in text


def test_once_flags_a_missing_copy(site):
    for epoch in range(1, 4):
        site.save(epoch)
    site.run("once")
    [flag] = [each for each in json.loads(site.run("flags", "--json"))["flags"] if each["rule"] == "copy-behind"]
    assert flag["evidence"]["directory"] == str(site.archive)
    assert flag["evidence"]["newest_copy"] is None
    for epoch in range(1, 4):
        site.copy(site.primary / f"epoch_{epoch}.npz")
    site.run("once")
    rules = [each["rule"] for each in json.loads(site.run("flags", "--json"))["flags"]]
    assert "copy-behind" not in rules
