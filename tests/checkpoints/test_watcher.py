import errno
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints.agent import watcher as watcher_process
from ckptd.checkpoints.agent import watcher_client
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.errors import CkptdError
from ckptd.service.agent_options import DEFAULTS
from ckptd.service.watcher_start import start_watcher
from demo.patience import Deadline, allow
from support.unit_capabilities import limit_to_unit


@pytest.fixture
def watcher(tmp_path_factory, monkeypatch):
    """A watcher with the shipped unit's capabilities, where the tests run as root."""
    if os.geteuid() == 0:
        program = tmp_path_factory.mktemp("bin") / "python"
        program.write_text(f'#!/bin/sh\nexec {shlex.join([*limit_to_unit(), sys.executable])} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(watcher_client, "PAUSE_PER_DIRECTORY", 0)
    client = start_watcher(None, is_configured=False)
    yield client
    client.close()


OWNER = 54_321 if os.geteuid() == 0 else os.geteuid()  # a uid that no user has


def watch(watcher, *directories, uid=OWNER):
    watcher.watch((str(directory), uid) for directory in directories)


@pytest.fixture
def tmp_path():
    """A directory that OWNER alone may enter, below one that all may."""
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        directory = Path(parent) / "owned"
        directory.mkdir(mode=0o700)
        os.chown(directory, OWNER, -1)
        yield directory


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
        return changed if str(directory) in changed else None

    return wait_for(told)


def test_a_new_file_is_told(watcher, tmp_path):
    watch(watcher, tmp_path)
    assert changes_after(watcher, tmp_path, lambda path: path.write_bytes(b"x")) == {str(tmp_path)}


def test_a_directory_that_is_not_there_is_left_to_the_scans_and_others_are_watched(watcher, tmp_path):
    missing = str(tmp_path / "missing")
    watch(watcher, missing, tmp_path)
    assert wait_for(lambda: watcher.unwatched)[missing] == "No such file or directory"
    assert changes_after(watcher, tmp_path, lambda path: path.mkdir())


def test_a_change_soon_after_another_waits_the_longer_the_more_directories_there_are(monkeypatch):
    now = [0.0]
    client = watcher_client.WatcherClient("ckptd.service.watcher_process", [DEFAULTS], clock=lambda: now[0])
    sent = []
    monkeypatch.setattr(watcher_client, "encode_wanted", lambda wanted: sent.append(len(wanted)) or b"")
    try:
        for now[0], count in ((0, 2000), (19, 2001), (21, 2002), (40, 2003), (42, 2003), (43, 2003)):
            client.watch((f"/{number}", OWNER) for number in range(count))
    finally:
        client.close()
    assert sent == [2000, 2002, 2003]


def test_what_is_no_longer_wanted_is_no_longer_told(watcher, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    watch(watcher, first)
    changes_after(watcher, first, lambda path: path.write_bytes(b"x"))
    watch(watcher, second)
    changes_after(watcher, second, lambda path: path.write_bytes(b"x"))
    (first / "late").write_bytes(b"x")
    assert changes_after(watcher, second, lambda path: path.write_bytes(b"x")) == {str(second)}


@pytest.mark.parametrize("name", ["link", "link/below", "{root}/../{name}/real", "relative"])
def test_no_link_leads_the_watcher_elsewhere(watcher, tmp_path, name):
    (tmp_path / "real/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    named = name.format(root=tmp_path, name=tmp_path.name)
    followed = named if named == "relative" else str(PurePosixPath(tmp_path / named))
    watch(watcher, followed, tmp_path)
    wait_for(lambda: watcher.unwatched)
    assert set(watcher.unwatched) == {followed}
    assert changes_after(watcher, tmp_path, lambda path: path.write_bytes(b"x")) == {str(tmp_path)}


def test_a_watcher_that_ends_is_in_the_log_and_one_that_is_closed_is_not(watcher, caplog):
    watcher._process.kill()
    wait_for(lambda: caplog.messages)
    assert caplog.messages == ["watcher exited; until a restart, only the scans of scan.interval find changes"]
    other = start_watcher(None, is_configured=False)
    other.close()
    other._receiver.join(timeout=10)
    assert len(caplog.messages) == 1


def test_nobody_waits_for_a_watcher_that_waits_for_a_file_system(watcher, tmp_path):
    places = [f"{tmp_path}/{'x' * 200}/{number}" for number in range(3000)]  # more than the buffers of sockets take
    os.kill(watcher._process.pid, signal.SIGSTOP)
    try:
        for count in (2999, 3000):
            asking = threading.Thread(target=watch, args=(watcher, *places[:count]), daemon=True)
            asking.start()
            asking.join(allow(5))
            assert not asking.is_alive()
        watcher.reload()
        watch(watcher, tmp_path)
    finally:
        os.kill(watcher._process.pid, signal.SIGCONT)
    assert changes_after(watcher, tmp_path, lambda path: path.write_bytes(b"x")) == {str(tmp_path)}


def test_many_directories_are_told_apart(watcher, tmp_path):
    directories = [tmp_path / str(number) for number in range(20)]
    for directory in directories:
        directory.mkdir()
    watch(watcher, *directories)
    written = set()
    for directory in (directories[0], directories[7], directories[-1]):
        written.add(str(directory))
        told = changes_after(watcher, directory, lambda path: path.write_bytes(b"x"))
        assert str(directory) in told
        assert told <= written
    watch(watcher, directories[3])
    assert changes_after(watcher, directories[3], lambda path: path.write_bytes(b"x"))
    assert watcher.unwatched == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have another user's rights")
def test_a_directory_is_watched_with_the_rights_of_its_runs_user_only(watcher, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)  # root's
    watch(watcher, closed, tmp_path)
    assert wait_for(lambda: watcher.unwatched) == {str(closed): "Permission denied"}
    assert changes_after(watcher, tmp_path, lambda path: path.write_bytes(b"x")) == {str(tmp_path)}
    (tmp_path / "other").mkdir()
    other = str(tmp_path / "other")
    watch(watcher, other, uid=OWNER + 1)
    assert wait_for(lambda: watcher.unwatched) == {other: "Permission denied"}
    watch(watcher, other, uid=0)
    assert wait_for(lambda: watcher.unwatched == {other: "nothing is done as root on behalf of a job"})


def test_that_there_is_no_room_is_told_once_for_each_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(watcher_process, "MAX_WATCHED", 2)
    watching, told = watcher_process.Watcher(None, RequestPolicy), []
    monkeypatch.setattr(watching, "send", told.append)
    places = [(str(tmp_path / name), OWNER) for name in "abcd"]
    for place, _ in places:
        Path(place).mkdir()
        os.chown(place, OWNER, OWNER)
    switches = []
    switch = watcher_process.effective_owner
    monkeypatch.setattr(watcher_process, "effective_owner", lambda user: switches.append(user.uid) or switch(user))
    watching._inotify.start()
    try:
        for _ in range(3):
            watching._watch(places)
        assert [each["unwatched"][-1] for each in told] == ["c", "d"]
        watching._watch([*places, (f"{tmp_path}/more", OWNER)])
        assert told.pop()["unwatched"] == f"{tmp_path}/more"
        assert switches == [OWNER]
        watching._watch(places[1:])  # a place became free
        assert [each["unwatched"][-1] for each in told] == ["c", "d"]
        assert sorted(watching._watched) == [places[1][0], places[2][0]]
        watching._watch(places)
        assert [each["unwatched"][-1] for each in told] == ["c", "d", "a"]
    finally:
        watching._inotify.stop()
        watching._inotify.join()


def test_more_directories_need_no_more_threads(tmp_path, monkeypatch):
    """A change of user interrupts every thread, so one for each directory cost owners times directories."""
    watching, told, before = watcher_process.Watcher(None, RequestPolicy), [], threading.active_count()
    monkeypatch.setattr(watching, "send", told.append)
    places = [(str(tmp_path / str(number)), OWNER) for number in range(50)]
    for place, _ in places:
        Path(place).mkdir()
        os.chown(place, OWNER, OWNER)
    watching._inotify.start()
    try:
        watching._watch(places)
        assert threading.active_count() == before + 1
        (tmp_path / "49/file").touch()
        wait_for(lambda: told)
        assert {each["changed"] for each in told} == {places[49][0]}
        watching._watch(places[:1])
        assert list(watching._watched) == [places[0][0]]
    finally:
        watching._inotify.stop()
        watching._inotify.join()


def test_a_directory_that_is_deleted_is_told_and_watched_again_once_it_is_back(watcher, tmp_path):
    directory = tmp_path / "again"
    directory.mkdir()
    watch(watcher, directory)
    changes_after(watcher, directory, lambda path: path.mkdir())
    for name in os.listdir(directory):
        (directory / name).rmdir()
    directory.rmdir()
    assert wait_for(lambda: watcher.unwatched) == {str(directory): "deleted or unmounted"}
    watcher.take_changed()
    directory.mkdir()
    watch(watcher, directory, tmp_path)
    changes_after(watcher, directory, lambda path: path.mkdir())
    assert watcher.unwatched == {}


def test_a_thread_that_fails_ends_the_watcher(monkeypatch, capsys):
    """Else the process would live on, and nobody would know that it reports nothing any more."""
    watching, ends = watcher_process.Watcher(None, RequestPolicy), []
    monkeypatch.setattr(watcher_process.os, "_exit", ends.append)
    monkeypatch.setattr(watching._inotify, "read_events", lambda: 1 / 0)
    watching._inotify.start()
    watching._inotify.join()
    assert ends == [1]
    assert "ZeroDivisionError" in capsys.readouterr().err
    watching._inotify.stop()


def test_a_user_who_floods_the_queue_of_the_kernel_is_left_to_the_scans(tmp_path, monkeypatch, capsys):
    """Each lost the changes of all others, and cost the main process and the log a line for many of them."""
    watching, told = watcher_process.Watcher(None, RequestPolicy), []
    monkeypatch.setattr(watching, "send", told.append)
    flooded, other = tmp_path / "flooded", tmp_path / "other"
    for directory in (flooded, other):
        directory.mkdir()
        os.chown(directory, OWNER, OWNER)
    watching._watch([(str(flooded), OWNER), (str(other), OWNER)])
    (other / "before").touch()
    for _ in range(int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())):
        (flooded / "file").mkdir()
        (flooded / "file").rmdir()
    watching._inotify.start()
    try:
        wait_for(lambda: any("unwatched" in each for each in told))
        assert told[-1] == {"unwatched": str(flooded), "reason": "too many changes"}
        assert told.count({"changed": str(other)}) == 1
        assert len(told) < 20
        (flooded / "more").mkdir()
        (other / "after").touch()
        wait_for(lambda: told[-1] == {"changed": str(other)})
        assert capsys.readouterr().err == ""
    finally:
        watching._inotify.stop()
        watching._inotify.join()


def test_why_there_is_no_inotify_is_told(monkeypatch):
    def refuse(_kind):
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr(watcher_process.InotifyFD, "_create_inotify_fd", classmethod(refuse))
    with pytest.raises(CkptdError, match=r"instance limit reached; see fs\.inotify\.max_user_instances"):
        watcher_process.Watcher(None, RequestPolicy)
