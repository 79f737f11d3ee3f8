"""The patterns of docs/job-scripts.md, in real shells."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ckptd
from ckptd.checkpoints.scanning import resumed_file
from demo.patience import allow
from support import hanging_file_system
from support.checkpoint_bytes import torch_state

PAGE = (Path(__file__).parents[2] / "docs/job-scripts.md").read_text()
PATTERN = 'CKPT=$(ckptd newest "$DIR") && ckptd resumed "$CKPT" || [ $? -eq 1 ] || exit 3'
SCRIPTS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working directory with `epoch_3.pt` in `saves`, and nothing in `empty`."""
    command = tmp_path / "bin/ckptd"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ckptd "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(ckptd.__file__).parents[1]))
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.delenv("SLURM_SUBMIT_DIR", raising=False)
    (tmp_path / "work/saves").mkdir(parents=True)
    (tmp_path / "work/empty").mkdir()
    (tmp_path / "work/saves/epoch_3.pt").write_bytes(torch_state(3, 300))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def run(shell, options, directory):
    script = f'{options}\nDIR=$1\n{PATTERN}\necho "resume from: ${{CKPT:-nothing}}"\n'
    words = [shell, "-c", script, "job", str(directory)]
    return subprocess.run(words, capture_output=True, text=True, timeout=allow(120), check=False)


@pytest.mark.parametrize(("shell", "options"), [("bash", "set -euo pipefail"), ("bash", ""), ("sh", "set -eu")])
def test_the_pattern_resumes_starts_or_stops(shell, options, work):
    found = run(shell, options, work / "saves")
    assert (found.returncode, found.stdout) == (0, f"resume from: {work}/saves/epoch_3.pt\n")
    (said,) = resumed_file.read(str(work))
    assert (said.path, said.job_id) == (f"{work}/saves/epoch_3.pt", 4711)
    first = run(shell, options, work / "empty")
    assert (first.returncode, first.stdout) == (0, "resume from: nothing\n")
    unknown = run(shell, options, work / "unmounted/saves")
    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert len(resumed_file.read(str(work))) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_dead_file_system_stops_the_script(work):
    with hanging_file_system.mounted(work / "dead") as is_mounted:
        if not is_mounted:
            pytest.skip("this system lets not even root mount FUSE")
        done = run("bash", 'set -euo pipefail; ckptd() { command ckptd "$1" --timeout 1 "${@:2}"; }', work / "dead")
        assert (done.returncode, done.stdout) == (3, "")


def test_a_note_that_cannot_be_taken_stops_no_script(work):
    (work / ".ckptd").write_text("in the way")
    done = run("bash", "set -euo pipefail", work / "saves")
    assert (done.returncode, done.stdout) == (0, f"resume from: {work}/saves/epoch_3.pt\n")
    assert "not recorded" in done.stderr


def test_the_page_has_the_pattern_in_each_script_and_each_is_valid_shell():
    assert len(SCRIPTS) >= 8
    for script in SCRIPTS:
        assert "ckptd newest" in script
        assert PATTERN in script or "[ $? -eq 1 ] || exit 3" in script or "exit 3 ;;" in script
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
