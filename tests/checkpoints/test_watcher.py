import time
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent.watcher_client import WatcherClient
from demo.patience import Deadline


@pytest.fixture
def watcher():
    client = WatcherClient()
    yield client
    client.close()


def wait_for(condition, deadline_seconds=10.0):
    until = Deadline(deadline_seconds)
    while not (found := condition()):
        assert not until.has_passed(), "it did not happen in time"
        time.sleep(0.02)
    return found


def changes_after(watcher, directory, act):
    """Act again and again until it is told: the watch begins some time after it is asked for."""
    count = 0

    def told():
        nonlocal count
        count += 1
        act(directory / f"file-{count}")
        changed = watcher.take_changed()
        return changed if PurePosixPath(directory) in changed else None

    return wait_for(told)


def test_a_new_file_is_told(watcher, tmp_path):
    watcher.watch([PurePosixPath(tmp_path)])
    assert changes_after(watcher, tmp_path, lambda path: path.write_bytes(b"x")) == {PurePosixPath(tmp_path)}


def test_a_directory_that_is_not_there_is_left_to_the_scans_and_others_are_watched(watcher, tmp_path):
    missing = PurePosixPath(tmp_path / "missing")
    watcher.watch([missing, PurePosixPath(tmp_path)])
    assert wait_for(lambda: watcher.unwatched)[missing] == "No such file or directory"
    assert changes_after(watcher, tmp_path, lambda path: path.mkdir())


def test_what_is_no_longer_wanted_is_no_longer_told(watcher, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    watcher.watch([PurePosixPath(first)])
    changes_after(watcher, first, lambda path: path.write_bytes(b"x"))
    watcher.watch([PurePosixPath(second)])
    changes_after(watcher, second, lambda path: path.write_bytes(b"x"))
    (first / "late").write_bytes(b"x")
    assert changes_after(watcher, second, lambda path: path.write_bytes(b"x")) == {PurePosixPath(second)}
