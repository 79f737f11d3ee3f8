"""The status that the kernel writes into an array is the one that `os.stat` returns."""

import os
import socket
import stat

import pytest

from ckptd.checkpoints.scanning import status_columns
from ckptd.checkpoints.scanning.status_columns import make_fields, read_columns
from ckptd.checkpoints.scanning.tree import list_tree
from ckptd.checkpoints.scanning.tree_fingerprint import make_fingerprint, read_fingerprint
from core.histories import START
from support.sized_world import make_checkpoint

BOUNDS = {"max_depth": 3, "max_entries": 1000, "write_grace": START - START}


@pytest.fixture
def directory(tmp_path):
    place = tmp_path / "kinds"
    place.mkdir()
    for number in range(300):  # more than are asked for at once
        (place / f"step_{number}").write_bytes(make_checkpoint(number))
    with (place / "large").open("wb") as file:
        file.truncate(5 << 32)
    for name, seconds in (("old", -1.5), ("late", 2.0**33 + 0.25)):
        (place / name).touch()
        os.utime(place / name, (seconds, seconds))
    (place / os.fsdecode(b"not utf-8 \xff")).touch()
    if os.geteuid() == 0:
        os.chown(place / "old", 2**32 - 2, -1)
    (place / "below" / "deeper").mkdir(parents=True)
    (place / "below" / "file").touch()
    for name, seconds in (("below/deeper", -(2**34)), ("below", 2**34)):  # more nanoseconds than 63 bits hold
        os.utime(place / name, (seconds, seconds))
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "socket"))
    return place


def list_rows(directory, names):
    found = [os.lstat(directory / name) for name in names]
    rows = [(e.st_size, e.st_mtime_ns, e.st_dev, e.st_ino, e.st_uid, e.st_ctime_ns) for e in found]
    return [each.st_mode for each in found], make_fields(rows)


@pytest.mark.parametrize("has_statx", [True, False])
def test_each_entry_has_the_status_that_stat_returns(directory, monkeypatch, has_statx):
    assert status_columns._has_statx, "the kernels of this project have statx"
    monkeypatch.setattr(status_columns, "_has_statx", has_statx)
    (directory / "link").symlink_to("nowhere")
    names = sorted(os.listdir(directory))
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        modes, fields = read_columns(descriptor, names)
        assert ([*modes], fields) == list_rows(directory, names)
        assert stat.S_ISLNK(modes[names.index("link")])
        assert read_columns(descriptor, [])[1] == make_fields([])
        with pytest.raises(OSError):  # noqa: PT011 - an error of the system, or that there is one
            read_columns(descriptor, [*names, "removed"])
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("has_statx", [True, False])
def test_a_listing_and_a_comparison_have_the_same_fingerprint(directory, monkeypatch, has_statx):
    monkeypatch.setattr(status_columns, "_has_statx", has_statx)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        before = read_fingerprint(descriptor, **BOUNDS)
        tree = list_tree(descriptor, max_depth=3, max_entries=1000)
        assert before.fingerprint == make_fingerprint(tree, BOUNDS.values())
        assert before.entry_count == tree.count_entries()
        (directory / "below" / "deeper" / "file").touch()
        changed = read_fingerprint(descriptor, **BOUNDS)
        assert changed.fingerprint not in {None, before.fingerprint}
        (directory / "below" / "link").symlink_to("nowhere")
        assert read_fingerprint(descriptor, **BOUNDS).fingerprint is None
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("most", "has_fingerprint"), [(3, True), (2, False), (1, False)])
def test_a_directory_with_more_entries_than_a_scan_may_read_has_no_fingerprint(tmp_path, most, has_fingerprint):
    for name in ("one", "two"):
        (tmp_path / name).touch()
    (tmp_path / "below").mkdir()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        found = read_fingerprint(descriptor, **{**BOUNDS, "max_entries": most})
        assert (found.fingerprint is not None) is has_fingerprint
    finally:
        os.close(descriptor)
