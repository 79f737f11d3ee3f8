"""The program of a step: what it prints of a directory is what the main process accepts."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints.node_steps import scan_task
from ckptd.core.model import CheckpointState
from ckptd.core.node_scans import step_policy, step_result

DATA = Path(__file__).parents[1] / "data/formats"
LIMITS = {"max_depth": 6, "max_entries": 1000, "write_grace_seconds": 0, "seconds": 60}


def decode(output, directory):
    return step_result.decode_result(step_result.parse_document(output), PurePosixPath(directory), os.geteuid())


def own_copy(name, target):
    """Copy files, which in a checkout may belong to somebody else."""
    shutil.copytree(DATA / name, target)
    for path in (target, *target.rglob("*")):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return str(target)


@pytest.mark.parametrize("name", ["torch/run_epochs", "hdf5", "orbax", "torch_dcp", "lammps", "huggingface_shards"])
def test_what_it_prints_of_real_checkpoints_is_accepted_whole(tmp_path, name):
    directory = own_copy(name, tmp_path / "ck")
    output = scan_task.run({**LIMITS, "directory": directory})
    assert output.count(b"\n") == 1
    found = decode(output, directory)
    assert CheckpointState.COMPLETE in {each.state for each in found.checkpoints}
    assert found.free_bytes > 0


def test_as_a_program_it_does_the_same(tmp_path):
    directory = own_copy("torch/run_epochs", tmp_path / "ck")
    argv = [sys.executable, "-I", "-m", step_policy.TASK_MODULE, json.dumps({**LIMITS, "directory": directory})]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=120)
    assert done.stderr == b""
    here = decode(scan_task.run({**LIMITS, "directory": directory}), directory)
    assert decode(done.stdout, directory).checkpoints == here.checkpoints


def test_names_that_are_not_utf_8_are_names(tmp_path):
    directory = tmp_path / "ck"
    directory.mkdir()
    shutil.copy(DATA / "torch/run_epochs/epoch_010.pt", os.path.join(os.fsencode(directory), b"caf\xe9_3.pt"))
    [found] = decode(scan_task.run({**LIMITS, "directory": str(directory)}), directory).checkpoints
    assert found.path.name == "caf\udce9_3.pt"


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "No such file or directory"), ("file", "Not a directory"), ("link", "")]
)
def test_a_directory_that_cannot_be_opened_is_a_reason(tmp_path, name, reason):
    (tmp_path / "file").touch()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(step_result.StepResultError, match=f"the node could not read it: .*{reason}"):
        decode(scan_task.run({**LIMITS, "directory": str(tmp_path / name)}), tmp_path / name)


def test_a_scan_that_does_not_end_is_ended_at_its_time():
    request = json.dumps({**LIMITS, "seconds": 1, "directory": "/"})
    code = f"""
import sys, time
from ckptd.checkpoints.node_steps import scan_task
scan_task.run = lambda _request: time.sleep(60)  # as a file system that hangs
sys.argv[1:] = [{request!r}]
scan_task.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGALRM
