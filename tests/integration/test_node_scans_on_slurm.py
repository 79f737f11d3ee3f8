"""Scans of node-local disks on a real cluster: each slurmd has a file system of its own that this host does not see."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo.cluster import PrivateCluster
from support.node_python import install_node_python

DATA = Path(__file__).parents[1] / "data/formats/torch"
SETTINGS = """
[slurm]
poll_interval = "2s"
timeout = "20s"
[scan]
write_grace = "1s"
inotify = false
[health]
min_job_duration = "1s"
[web]
listen = ""
[service]
state_directory = "{state}"
[node_scans]
directories = ["{local}"]
{more}
"""
JOB = """#!/bin/sh
mkdir {where}
cp -p {home}/epoch_*.pt {where}/
exec srun --mem=0 --gres=gpu:2 sleep 1000
"""


@pytest.fixture(scope="module")
def slurm():
    prefix = f"ckn{os.getpid()}-"
    with PrivateCluster(
        name="local", nodes=2, cpus_per_node=2, gpus_per_node={"a100": 2}, user_prefix=prefix, has_local_disks=True
    ) as private:
        yield private


class Site:
    """The daemon beside the cluster, and users whose jobs save on the disks of their nodes."""

    def __init__(self, cluster, name, more=""):
        self.cluster = cluster
        self.state = cluster.directory / f"ckptd-{name}"
        self.state.mkdir()
        self.config = self.state / "config.toml"
        self.config.write_text(SETTINGS.format(local=cluster.local_disk, state=self.state, more=more))
        self.log = self.state / "log"
        self.environment = {**os.environ, **cluster.environment}

    def train(self, name):
        """Start a job that fills a whole node, and saves there."""
        user = self.cluster.create_user(name)
        for epoch in ("epoch_001.pt", "epoch_002.pt"):
            shutil.copy(DATA / "run_epochs/epoch_010.pt", user.home / epoch)
            os.chown(user.home / epoch, user.uid, user.gid)
            os.utime(user.home / epoch, (1_700_000_000, 1_700_000_000))
        where = self.cluster.local_disk / name
        script = JOB.format(where=where, home=user.home)
        whole = ("--exclusive", "--mem=0", "--gres=gpu:2", "--time=60")
        job = self.cluster.submit(user, script, f"--comment=ckpt={where}", *whole, work_dir=user.home)
        self.cluster.wait_for("the job to fill its node", lambda: f"{job}.0" in self.list_steps())
        return job, where

    def list_steps(self):
        return self.cluster.command("squeue", "--steps", "--noheader")

    def ckptd(self, *words):
        argv = [sys.executable, "-m", "ckptd", "--config", str(self.config), *words]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False).stdout

    def show(self, job):
        try:
            return json.loads(self.ckptd("show", str(job), "--json"))
        except ValueError:  # it is not on record yet
            return {}

    def wait_for_scan(self, job, holds):
        """Run the daemon until what it shows of a job's first run is as expected; return that."""
        argv = [sys.executable, "-m", "ckptd", "--config", str(self.config), "run"]
        with self.log.open("wb") as log:
            daemon = subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log)
        try:
            runs = []

            def has_scan():
                runs[:] = self.show(job).get("runs", [])
                return bool(runs) and holds(runs[0])

            self.cluster.wait_for("the scan", has_scan, seconds=90, pause_seconds=1)
        finally:
            daemon.terminate()
            daemon.wait()
        return runs[0]


def test_a_step_finds_checkpoints_that_only_the_node_of_a_full_job_sees(slurm):
    python = install_node_python()
    site = Site(slurm, "steps", f'partitions = ["*"]\npython = "{python}"')
    job, where = site.train("owner")
    assert not where.exists(), "this host must not see the disk of the node"
    run = site.wait_for_scan(job, lambda run: run["checkpoints"])
    assert run["run"] == str(where)
    assert sorted(Path(each["path"]).name for each in run["checkpoints"]) == ["epoch_001.pt", "epoch_002.pt"]
    assert {each["state"] for each in run["checkpoints"]} == {"complete"}
    assert run["newest_complete"]["epoch"] is not None
    [witness] = run["scan_witnesses"]
    assert f"a step in job {job} of its owner reported this" in witness
    assert run["scan_problems"] == []
    assert slurm.read_job(job, "%T") == "RUNNING"
    assert "ckptd-scan" not in site.list_steps()
    plan = site.ckptd("plan", str(where))
    assert "was not read completely" in plan or "no policy" in plan, plan


def test_without_permission_the_location_is_unknown_with_that_reason(slurm):
    site = Site(slurm, "none")
    job, where = site.train("other")
    run = site.wait_for_scan(job, lambda run: run["run"] == str(where) and run["scan_problems"])
    assert run["checkpoints"] == []
    # that one is about the name of the directory, which is below /tmp
    assert {each["rule"] for each in run["flags"]} <= {"volatile-path"}, run["flags"]
    [problem] = run["scan_problems"]
    assert "only the nodes of its jobs see this location, and the site's configuration allows no step" in problem
