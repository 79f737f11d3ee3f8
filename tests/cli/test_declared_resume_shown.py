"""What a job says that it loaded, from its file through a real scan to what `ckptd show` prints."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cli.one_job_site import JOB_ID, UID, OneJobSite
from demo.patience import allow


@pytest.fixture
def site():
    root = Path(tempfile.mkdtemp(prefix="ckptd-declared-"))
    root.chmod(0o755)
    made = OneJobSite(root)
    for epoch in range(1, 6):
        made.save(epoch)
    scan(made, 0, 0)
    yield made
    shutil.rmtree(root)


def scan(site, restart_count, started_after):
    site.queue(f"ckpt={site.checkpoints}", restart_count, started_after)
    site.run("once")


def own_all(directory):
    for place in (directory, *directory.iterdir()):
        os.chown(place, UID, -1)


def read_resume(site):
    (view,) = site.read("show", str(JOB_ID))["runs"]
    return view["attempts"][-1]["resumed_from"]


def test_what_a_job_declares_is_read_and_shown_as_declared(site):
    folder = site.home / ".ckptd"
    folder.mkdir()
    said = {"path": f"{site.checkpoints}/epoch_2.npz", "cluster": "alpha", "job": JOB_ID, "restart": 1}
    (folder / "resumed").write_text(json.dumps(said) + "\n")
    own_all(folder)
    os.utime(folder / "resumed", (site.began + 3700,) * 2)
    scan(site, 1, 3600)
    found = read_resume(site)
    assert (found["certainty"], found["path"]) == ("declared", f"{site.checkpoints}/epoch_2.npz")
    assert "resumed from epoch_2.npz, as the job says" in site.run("show", str(JOB_ID))


def test_the_command_in_the_job_declares_it(site):
    scan(site, 1, 7100)
    variables = {"SLURM_JOB_ID": str(JOB_ID), "SLURM_RESTART_COUNT": "1", "SLURM_CLUSTER_NAME": "alpha"}
    argv = [sys.executable, "-m", "ckptd", "resumed", "ckpts/epoch_4.npz"]
    subprocess.run(argv, cwd=site.home, env={**os.environ, **variables}, check=True, timeout=allow(60))
    own_all(site.home / ".ckptd")
    scan(site, 1, 7100)
    found = read_resume(site)
    assert (found["certainty"], found["path"]) == ("declared", f"{site.checkpoints}/epoch_4.npz")
