"""Which candidates for a resume were read, by the access times of real files on real mounts."""

import os
import shutil
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from ckptd.checkpoints.agent import batches, scan_json
from ckptd.checkpoints.scanning import reads_since_start
from ckptd.checkpoints.scanning.mounts import Mount, find_mount, read_mounts
from ckptd.core.model import CheckpointRead, Scan, Unknown
from demo.patience import allow

HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS


@pytest.fixture(params=["relatime", "strictatime"])
def directory(request):
    with mounted(request.param) as folder:
        yield folder


class mounted:  # noqa: N801 - a context
    """A file system of its own with these options."""

    def __init__(self, option):
        self.option = option

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ckptd-atime-"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.option, "tmpfs", self.folder], check=True, timeout=allow(30))
        return self.folder

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.folder], check=True, timeout=allow(30))
        shutil.rmtree(self.folder, ignore_errors=True)


def put(path, size=100):
    """Write a file an hour ago, as far as its times tell: the next read shows on any mount that keeps them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    then = time.time_ns() - HOUR_NS
    os.utime(path, ns=(then, then))
    return path


def tick(directory):
    """Wait until the clock of the file system has advanced, as it does with each tick of the kernel."""
    clock = directory / ".clock"
    clock.touch()
    before = now = clock.stat().st_mtime_ns
    while now <= before:
        clock.touch()
        now = clock.stat().st_mtime_ns
    return now


def wait_for_start(directory):
    """Return an instant after the last change of every file and before every later read, as the start of an attempt."""
    since = tick(directory)
    tick(directory)
    return since


def look(directory, since, *names, mount=None):
    """Return the names of candidates that were read, and of those that were not."""
    where = mount or find_mount(read_mounts(), PurePosixPath(directory))
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        candidates = [f"{directory}/{name}" for name in names]
        found = reads_since_start.list_reads(
            descriptor, PurePosixPath(directory), candidates, since, time.time_ns() + 10**9, where
        )
    finally:
        os.close(descriptor)
    sides = [
        {each.path.removeprefix(f"{directory}/") for each in found if (each.read_at is not None) is side}
        for side in (True, False)
    ]
    return tuple(sides)


def test_a_file_that_a_program_reads_after_the_start_is_told_from_the_others(directory):
    for name in "abc":
        put(directory / name)
    since = wait_for_start(directory)
    (directory / "b").read_bytes()
    assert look(directory, since, *"abc") == ({"b"}, {"a", "c"})


def test_a_mount_that_keeps_no_access_times_tells_nothing():
    with mounted("noatime") as directory:
        put(directory / "a")
        since = wait_for_start(directory)
        (directory / "a").read_bytes()
        assert look(directory, since, "a") == (set(), set())


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "overlay"])
def test_a_file_system_whose_reads_may_not_show_tells_nothing(kind, directory):
    put(directory / "a")
    since = wait_for_start(directory)
    assert look(directory, since, "a") == (set(), {"a"})
    assert look(directory, since, "a", mount=Mount(PurePosixPath("/"), kind, frozenset())) == (set(), set())


def test_with_relatime_a_file_that_was_read_since_its_last_change_tells_nothing_for_a_day():
    with mounted("relatime") as directory:
        read = put(directory / "a")
        tick(directory)
        read.read_bytes()
        since = wait_for_start(directory)
        read.read_bytes()
        assert look(directory, since, "a") == (set(), set())


@pytest.mark.parametrize(("age_ns", "is_unread"), [(HOUR_NS, False), (25 * HOUR_NS, True)])
def test_with_relatime_a_read_shows_again_a_day_after_the_last_one_that_did(age_ns, is_unread):
    since = time.time_ns()
    status = SimpleNamespace(st_atime_ns=since - age_ns, st_mtime_ns=since - 9 * DAY_NS, st_ctime_ns=since - 9 * DAY_NS)
    assert reads_since_start.is_unread(status, since, is_relative=True) is is_unread
    assert reads_since_start.is_unread(status, since, is_relative=False)


def test_with_strictatime_every_read_shows():
    with mounted("strictatime") as directory:
        read = put(directory / "a")
        tick(directory)
        read.read_bytes()
        since = wait_for_start(directory)
        assert look(directory, since, "a") == (set(), {"a"})
        read.read_bytes()
        assert look(directory, since, "a") == ({"a"}, set())


def test_what_was_written_copied_or_renamed_since_the_start_tells_nothing(directory):
    old = put(directory / "old")
    put(directory / "renamed")
    since = wait_for_start(directory)
    (directory / "renamed").rename(directory / "new name")
    shutil.copy2(old, directory / "copy")
    put(directory / "written")
    assert look(directory, since, "new name", "copy", "written") == (set(), set())


def test_a_directory_was_read_if_its_largest_file_was(directory):
    for name in ("a", "b", "c"):
        put(directory / name / "model.safetensors", 5000)
        put(directory / name / "deep/trainer_state.json", 10)
    since = wait_for_start(directory)
    (directory / "a/deep/trainer_state.json").read_bytes()
    (directory / "b/model.safetensors").read_bytes()
    assert look(directory, since, "a", "b", "c") == ({"b"}, {"c"})


def test_a_prefix_and_a_name_with_ranks_stand_for_their_files(directory):
    for name in ("ckpt-1.index", "ckpt-1.data-00000-of-00001", "ckpt-10.index", "step_1_rank_0.pt", "step_1_rank_1.pt"):
        put(directory / name)
    since = wait_for_start(directory)
    for name in ("ckpt-10.index", "step_1_rank_1.pt"):
        (directory / name).read_bytes()
    assert look(directory, since, "ckpt-1", "step_1_rank_*.pt", "nowhere") == ({"step_1_rank_*.pt"}, {"ckpt-1"})


def test_no_link_is_followed_and_nothing_outside_is_looked_at(directory):
    put(directory / "run/a")
    put(directory / "elsewhere/a")
    (directory / "run/link").symlink_to(directory / "elsewhere")
    (directory / "run/file").symlink_to(directory / "elsewhere/a")
    since = wait_for_start(directory)
    assert look(directory / "run", since, "a", "link/a", "file", "../elsewhere/a") == (set(), {"a"})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_anothers_file_tells_nothing_because_ckptd_s_own_reads_show_there(directory, monkeypatch):
    put(directory / "a")
    since = wait_for_start(directory)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert look(directory, since, "a") == (set(), set())


def test_looking_changes_no_access_time(directory):
    put(directory / "a/b/model.pt")
    since = wait_for_start(directory)
    before = {path: path.stat().st_atime_ns for path in (directory, directory / "a", directory / "a/b")}
    look(directory, since, "a", "a/b/model", "a/b")
    assert {path: path.stat().st_atime_ns for path in before} == before


NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SCAN = Scan(
    directory=PurePosixPath("/run"),
    scanned_at=NOW,
    checkpoints=(),
    reads=(CheckpointRead("/run/a", NOW), CheckpointRead("/run/b", NOW, NOW)),
)


def test_what_was_read_crosses_to_the_main_process():
    assert scan_json.decode_scan(scan_json.encode_scan(SCAN)) == SCAN


@pytest.mark.parametrize(
    "answer",
    [
        {"reads": [["/elsewhere/a", 1.0, None]]},
        {"reads": [["/run/a", "soon", None]]},
        {"reads": [["/run/a", float("nan"), None]]},
        {"reads": [["/run/a", 1e18, None]]},
        {"reads": [["/run/a", 1.0]]},
        {"reads": [["/run/a", 1.0, None]] * 1000},
        {"reads": 7},
        {"scanned_at": 1e18},
        {"finished_at": 1e300},
    ],
)
def test_an_answer_of_a_child_that_a_hostile_file_controls_is_unknown(answer):
    found = batches.decode_answer(scan_json.encode_scan(SCAN) | answer, scan_json.decode_scan)
    assert isinstance(found, Unknown)
    assert found.reason.startswith("the child's answer is malformed")
