"""Working directories for which a scan forks no child, and those that it still reads in one."""

import os
import time

import numpy as np
import pytest

from ckptd.checkpoints.scanning import declarations, pointers, resumed_file, scan_operation, silent_work_dirs
from ckptd.core.model import DeclaredResume


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / "work/run"
    directory.mkdir(parents=True)
    np.savez(directory / "epoch_1.npz", weights=np.arange(10.0), epoch=1)
    return directory


def scan(run, *work_dirs):
    return scan_operation.scan(
        {
            "directory": str(run),
            "now": time.time(),
            "known": [],
            "fingerprint": None,
            "max_depth": 12,
            "max_entries": 1000,
            "write_grace_seconds": 60.0,
            "seconds": 60.0,
            "work_dirs": list(map(str, work_dirs)),
            "allowed_roots": ["/"],
            "resuming_jobs": [7],
            "candidates": [],
            "read_since": None,
            "results": None,
            "quota_command": None,
        }
    )


def test_no_child_is_forked_for_directories_above_the_scanned_one_that_name_nothing(run, monkeypatch):
    forked = []
    monkeypatch.setattr(pointers, "run_steps", lambda steps: forked.extend(steps) or [])
    monkeypatch.setattr(declarations.abandonable_child, "run", lambda *_: forked.append("resumed"))
    scan(run, run, run.parent, run.parent.parent)
    assert forked == []


def test_what_names_a_checkpoint_above_the_scanned_directory_is_read(run):
    (run.parent / ".ckptd.toml").write_text('resume_from = "run/epoch_1.npz"\n')
    (run.parent.parent / "best.npz").symlink_to(run / "epoch_1.npz")
    said = DeclaredResume(path=str(run / "epoch_1.npz"), job_id=7, restart_count=1)
    resumed_file.append(str(run.parent), said)
    found = scan(run, run.parent, run.parent.parent)
    assert [os.path.basename(link[0]) for link in found["links"]] == [".ckptd.toml", "best.npz"]
    assert [each["path"] for each in found["declared"]] == [said.path]


def test_what_names_a_checkpoint_in_the_scanned_directory_is_read(run):
    (run / ".ckptd.toml").write_text('resume_from = "epoch_1.npz"\n')
    resumed_file.append(str(run), DeclaredResume(path=str(run / "epoch_1.npz"), job_id=7, restart_count=1))
    found = scan(run, run)
    assert len(found["links"]) == len(found["declared"]) == 1


def test_other_directories_and_those_that_cannot_be_listed_are_left_to_a_child(run, monkeypatch):
    beside = run.parent / "run-2"
    assert silent_work_dirs.list_naming([str(beside)], str(run)) == [str(beside)]
    assert silent_work_dirs.list_declaring([str(beside)], str(run)) == [str(beside)]

    def refuse(path, *_, **__):
        raise PermissionError(path)

    monkeypatch.setattr(os, "lstat", refuse)
    assert silent_work_dirs.list_naming([str(run)], str(run)) == [str(run)]
    assert silent_work_dirs.list_declaring([str(run)], str(run)) == [str(run)]
