"""What ckptd reads keeps its access times: they tell whether a program has loaded a checkpoint since it was written."""

import errno
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.scanning import pointers, resumed_file
from ckptd.checkpoints.scanning.access_times import open_keeping_atime
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.core.model import Level

DATA = Path(__file__).parents[1] / "data" / "formats"
LIMITS = ChildLimits(memory_bytes=512 << 20, seconds=30)
DAY_NS = 86400 * 10**9


def age(root):
    """Give everything below an access time from before its last change: the next plain read would move it."""
    now = time.time_ns()
    for path in (*sorted(root.rglob("*"), reverse=True), root):
        os.utime(path, ns=(now - 3 * DAY_NS, now - 2 * DAY_NS), follow_symlinks=False)


def access_times(root):
    return {str(path): path.lstat().st_atime_ns for path in (root, *root.rglob("*")) if not path.is_symlink()}


@pytest.fixture
def directory(tmp_path):
    """A directory on a file system that keeps access times; a plain read shows that it does."""
    control = tmp_path / "control"
    control.write_bytes(b"x")
    age(control)
    before = control.stat().st_atime_ns
    control.read_bytes()
    assert control.stat().st_atime_ns > before, "this file system keeps no access times, so that nothing is tested here"
    found = tmp_path / "run"
    found.mkdir()
    return found


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir() if path.is_dir()))
def test_reading_checkpoints_in_full_leaves_no_access_time(directory, name):
    shutil.copytree(DATA / name, directory / name, symlinks=True)
    age(directory)
    before = access_times(directory)
    assert inspect_tree(directory, now=datetime.now(UTC), level=Level.FULL, limits=LIMITS).checkpoints
    assert access_times(directory) == before


def test_reading_links_settings_and_declared_resumes_leaves_no_access_time(directory):
    (directory / "epoch_1.pt").write_bytes(b"x")
    (directory / "last").symlink_to("epoch_1.pt")
    (directory / "inside").mkdir()
    (directory / ".ckptd.toml").write_text('resume_from = "inside"\n')
    (directory / ".ckptd").mkdir()
    (directory / ".ckptd/resumed").write_text("1 0 epoch_1.pt\n")
    age(directory)
    before = access_times(directory)
    assert pointers.gather([], [str(directory)], [str(directory)], str(directory / "inside"))
    assert resumed_file.read(str(directory)) is not None
    assert access_times(directory) == before


def test_a_file_that_may_only_be_read_plainly_is_read_plainly(directory, monkeypatch):
    path = directory / "other"
    path.write_bytes(b"x")
    plain, asked = os.open, []

    def refuse(name, flags, *rest, **more):
        asked.append(flags)
        if flags & os.O_NOATIME:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return plain(name, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    descriptor = open_keeping_atime(path, os.O_RDONLY)
    assert os.read(descriptor, 1) == b"x"
    os.close(descriptor)
    assert asked == [os.O_RDONLY | os.O_NOATIME, os.O_RDONLY]


def test_a_file_that_may_not_be_read_is_refused_at_once(directory, monkeypatch):
    asked = []

    def refuse(name, flags, *rest, **more):
        asked.append(flags)
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError):
        open_keeping_atime(directory / "other", os.O_RDONLY)
    assert len(asked) == 1
