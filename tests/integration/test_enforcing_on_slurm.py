"""The daemon enforces a tight policy while sample jobs train through requeues on a real cluster.

Minutes stand for days: guards and ages are seconds here, so that several cycles of retention pass while jobs run.
"""

import os
import subprocess

import numpy as np
import pytest

from demo import ports
from demo.errors import DemoError
from demo.patience import allow
from demo.samples import Samples
from demo.watcher import CKPTD
from support import quick_retention
from support.quick_watcher import QuickWatcher

SETTINGS = """
[slurm]
poll_interval = "1s"
timeout = "4s"
[scan]
interval = "1s"
write_grace = "2s"
allowed_roots = ["{homes}"]
[web]
listen = "{listen}"
[service]
state_directory = "{state}"
"""
RETENTION = quick_retention.format_settings(
    hold="7d",
    grace="2s",
    guards='last_minutes = "1s"\n',
    policy='prune_files = ["epoch_*.npz"]\n',  # arrays prove no state by themselves: the site names them
)
EPOCH_SECONDS = 0.8  # on an idle host: the daemon must keep up with the jobs
TASKS = 4
EPOCHS = 6 * TASKS
UNSEEN = "no job of this run was seen writing it"


class Fleet:
    def __init__(self, cluster, watcher):
        self.cluster, self.watcher, self.samples = cluster, watcher, Samples(cluster)
        self.user = cluster.create_user("enforced")
        self.jobs = {}

    def submit(self, name, *options):
        pace = {"EPOCH_SECONDS": f"{allow(EPOCH_SECONDS):.1f}", "TASK_EPOCHS": "6"}
        self.jobs[name] = self.samples.submit(self.user, name, *options, environment=pace)

    def wait(self, what, holds, seconds=120):
        self.cluster.wait_for(what, holds, seconds=seconds, pause_seconds=0.5)

    def show(self, name):
        runs = self.watcher.read("show", str(self.jobs[name])).get("runs", [])
        return runs[0] if runs else {"attempts": [], "checkpoints": [], "actions": []}

    def files(self, name, pattern):
        return sorted(self.samples.work_dir(self.user, name).glob(pattern))

    def kept(self, name):
        """The names of the checkpoints that stay, with the reasons."""
        (run,) = self.watcher.read("plan", str(self.samples.work_dir(self.user, name) / "checkpoints"))["runs"]
        return {row["path"].rpartition("/")[2]: row["reasons"] for row in run["keep"]}

    def unseen(self, name):
        """The names of the checkpoints that no job was seen writing."""
        return {path for path, reasons in self.kept(name).items() if UNSEEN in reasons}

    def names(self, name):
        return {path.name for path in self.files(name, "checkpoints/epoch_*.npz")}

    def output(self, name):
        return "".join(path.read_text() for path in self.files(name, "slurm-*.out"))

    def command(self, *arguments):
        environment = {**os.environ, **self.cluster.environment}
        command = [CKPTD, "--config", self.watcher.config, *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=allow(60), check=True
        ).stdout


@pytest.fixture(scope="module")
def fleet(cluster):
    watcher = QuickWatcher(cluster, SETTINGS + RETENTION, port=ports.find_free_ports(1)[0])
    watcher.start()
    fleet = Fleet(cluster, watcher)
    fleet.submit("array", f"--array=1-{TASKS}%1")
    fleet.submit("requeue", "--time=30")
    fleet.submit("manager")
    yield fleet
    cluster.cancel_jobs(fleet.user)
    watcher.stop()


def test_every_task_of_an_array_finds_what_it_needs_and_the_disk_stays_bounded(fleet):
    saved = f"at epoch {EPOCHS},"
    most = 0

    def is_over():
        nonlocal most
        most = max(most, len(fleet.files("array", "checkpoints/epoch_*.npz")))
        return saved in fleet.output("array")

    fleet.wait("the last epoch of the last task", is_over)
    assert fleet.output("array").count("resumed from") == TASKS - 1
    for task in range(1, TASKS):
        assert f"resumed from checkpoints/epoch_{task * 6}.npz at epoch {task * 6}" in fleet.output("array")
    pruned = [row for row in fleet.show("array")["checkpoints"] if row["pruned_at"]]
    assert pruned
    assert most < EPOCHS
    kept = {f"epoch_{n}.npz" for n in (EPOCHS - 1, EPOCHS)}
    try:
        fleet.wait("the rest to go", lambda: fleet.names("array") == kept | fleet.unseen("array"))
    except DemoError as error:
        raise AssertionError(f"{sorted(fleet.names('array'))} are there, {fleet.kept('array')}") from error
    early = fleet.unseen("array")  # what was there before its directory was ever looked at
    assert early == {f"epoch_{n}.npz" for n in range(1, len(early) + 1)}
    assert len(early) < EPOCHS / TASKS, "a handover lost the proof of who wrote"


def test_what_is_brought_back_from_the_trash_loads_again(fleet):
    work_dir = fleet.samples.work_dir(fleet.user, "array")
    directory = work_dir / "checkpoints"
    fleet.wait("something in the trash", lambda: fleet.watcher.read("trash", "list", str(directory))["trash"])
    entry = fleet.watcher.read("trash", "list", str(directory))["trash"][0]
    fleet.command("trash", "restore", entry["id"], "--directory", str(directory))
    with np.load(entry["path"]) as found:
        assert entry["path"].endswith(f"/epoch_{int(found['epoch'])}.npz")
        assert np.isfinite(found["first"]).all()


def test_a_requeued_job_resumes_from_where_it_was(fleet):
    fleet.wait("some epochs", lambda: "at epoch 5," in fleet.output("requeue"))
    fleet.cluster.command("scontrol", "requeue", str(fleet.jobs["requeue"]))
    fleet.wait("the restart", lambda: "resumed from" in fleet.output("requeue"))
    assert "cannot read" not in fleet.output("requeue")
    assert {path.name for path in fleet.files("requeue", "checkpoints/*")} >= {"checkpoint", "best_model.pkl"}


def test_a_manager_that_rotates_itself_loses_nothing_that_it_wants(fleet):
    fleet.wait("many saves", lambda: fleet.output("manager").count("saved ") >= 15)
    fleet.cluster.command("scontrol", "requeue", str(fleet.jobs["manager"]))
    fleet.wait("the restart", lambda: "resumed from" in fleet.output("manager"))
    assert "Traceback" not in fleet.output("manager")
    assert "cannot read" not in fleet.output("manager")
    assert 1 <= len(fleet.files("manager", "output/model/checkpoint-*.safetensors")) <= 5
