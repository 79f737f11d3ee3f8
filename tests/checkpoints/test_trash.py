"""What the trash moves, brings back and lets go."""

import errno
import fcntl
import json
import os
import time
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints import trash
from ckptd.checkpoints.scanning import tree
from ckptd.checkpoints.trash import TrashResult, entries, entry_limit
from support.trash_facts import (
    NOW,
    PATHS,
    SHAPES,
    as_user,
    beside,
    identity,
    move,
    own,
    read_files,
    released,
    request,
    write,
)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_moved_aside_comes_back_byte_for_byte(directory, shape):
    write(directory, shape, 1)
    write(directory, shape, 2)
    before = read_files(directory)
    kept = {name: data for name, data in before.items() if "2" in name.partition(".data")[0]}
    outcome = move(request(directory, shape, 1))
    assert (outcome.result, outcome.reason, outcome.act_id) == (TrashResult.MOVED, None, "act-1")
    assert outcome.size_bytes == sum(len(data) for name, data in before.items() if name not in kept)
    assert read_files(directory) == kept
    (entry,) = as_user(lambda: trash.list_trash(beside(directory)))
    assert (entry.act_id, entry.state, entry.moved_at) == ("act-1", trash.EntryState.HELD, NOW)
    assert (entry.path, entry.size_bytes) == (str(directory / PATHS[shape].format(n=1)), outcome.size_bytes)
    restored = as_user(lambda: trash.restore(beside(directory), "act-1"))
    assert (restored.result, restored.reason) == (TrashResult.RESTORED, None)
    assert read_files(directory) == before
    assert as_user(lambda: trash.list_trash(beside(directory))) == ()


def test_an_entry_can_be_read_with_nothing_but_its_manifest(directory):
    write(directory, "set", 1)
    move(request(directory, "set", 1))
    manifest = json.loads((directory.parent / trash.TRASH / "act-1" / "manifest.json").read_text())
    assert manifest["path"] == str(directory / "ckpt-1")
    names = [item["name"] for item in manifest["items"]]
    assert names == ["ckpt-1.data-00000-of-00002", "ckpt-1.data-00001-of-00002", "ckpt-1.index"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_trash_is_emptied_only_after_its_hold_and_only_of_what_is_named(directory, shape):
    write(directory, shape, 1)
    write(directory, shape, 2)
    for n in (1, 2):
        assert move(request(directory, shape, n)).result is TrashResult.MOVED
    early = as_user(lambda: trash.empty(beside(directory), ["act-1"], released(NOW - timedelta(days=7))))
    assert [(one.result, one.reason) for one in early] == [(TrashResult.REFUSED, "it is still held")]
    (done,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], released()))
    assert (done.result, done.reason) == (TrashResult.DELETED, None)
    assert [entry.act_id for entry in as_user(lambda: trash.list_trash(beside(directory)))] == ["act-2"]
    assert as_user(lambda: trash.look_up(beside(directory), "act-1")) is None
    assert as_user(lambda: trash.restore(beside(directory), "act-2")).result is TrashResult.RESTORED


@pytest.mark.parametrize("hours", [-24, 24])
def test_nothing_is_deleted_by_hold_while_the_file_systems_clock_is_another(directory, monkeypatch, hours):
    write(directory, "file", 1)
    move(request(directory, "file", 1))
    ours = time.time
    monkeypatch.setattr("ckptd.checkpoints.trash.deletion.time.time", lambda: ours() + hours * 3600)

    def empty(tolerance):
        (outcome,) = trash.empty(beside(directory), ["act-1"], released(clock_tolerance=tolerance))
        return outcome

    refused = as_user(lambda: empty(timedelta(minutes=5)))
    assert refused.result is TrashResult.REFUSED
    assert refused.reason.startswith("the clocks of its file system and of this host differ by 86")
    assert as_user(lambda: trash.look_up(beside(directory), "act-1")) is trash.EntryState.HELD
    monkeypatch.undo()
    assert as_user(lambda: empty(timedelta(minutes=5))).result is TrashResult.DELETED


def test_the_scan_of_a_directory_does_not_see_its_trash(directory):
    os.chown(directory.parent, 0, 0)
    write(directory, "file", 1)
    write(directory, "file", 2)
    assert move(request(directory, "file", 1)).result is TrashResult.MOVED
    assert (directory / trash.TRASH).is_dir()
    assert [file.path for file in tree.list_tree(directory).walk_files()] == ["step_2.pt"]


def test_nothing_is_restored_over_something_that_is_there_now(directory):
    write(directory, "set", 1)
    move(request(directory, "set", 1))
    (directory / "ckpt-1.index").write_bytes(b"newer")
    outcome = as_user(lambda: trash.restore(beside(directory), "act-1"))
    assert (outcome.result, outcome.reason) == (
        TrashResult.REFUSED,
        "'ckpt-1.index' is there again; move it away first",
    )
    assert read_files(directory) == {"ckpt-1.index": b"newer"}
    assert as_user(lambda: trash.look_up(beside(directory), "act-1")) is trash.EntryState.HELD


@pytest.mark.parametrize("code", [None, errno.ENOSYS, errno.ENOLCK])
def test_a_move_that_may_go_on_is_not_undone_where_the_file_system_has_no_locks(directory, monkeypatch, code):
    write(directory, "set", 1)
    move(request(directory, "set", 1))
    Path(beside(directory), "act-1/moved").unlink()

    def refuse(_descriptor, _operation):
        raise OSError(code, os.strerror(code))

    if code is not None:
        monkeypatch.setattr(fcntl, "flock", refuse)
    outcome = as_user(lambda: trash.restore(beside(directory), "act-1"))
    if code is None:
        assert outcome.result is TrashResult.RESTORED
    else:
        assert (outcome.result, outcome.reason) == (TrashResult.REFUSED, "its move is not finished")
        assert not read_files(directory)


def test_what_changed_in_the_trash_is_not_deleted(directory):
    write(directory, "directory", 1)
    move(request(directory, "directory", 1))
    added = directory.parent / trash.TRASH / "act-1" / "0" / "mine.txt"
    added.write_bytes(b"written by a process that had the directory open")
    own(added)
    (outcome,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], released()))
    assert (outcome.result, outcome.reason) == (TrashResult.REFUSED, "'checkpoint-1' has changed in the trash")
    assert added.exists()


def test_where_the_parent_is_not_the_users_the_trash_is_inside_the_directory(directory):
    os.chown(directory.parent, 0, 0)
    write(directory, "file", 1)
    assert move(request(directory, "file", 1)).result is TrashResult.MOVED
    inside = trash.list_places(PurePosixPath(directory))[1]
    assert as_user(lambda: trash.look_up(inside, "act-1")) is trash.EntryState.HELD
    assert as_user(lambda: trash.restore(inside, "act-1")).result is TrashResult.RESTORED
    assert read_files(directory) == {"step_1.pt": b"weights 1"}


def test_names_that_are_no_text_go_and_come_back(directory):
    name = os.fsdecode(b"step_\xff\n1.pt")
    (directory / name).write_bytes(b"odd")
    own(directory)
    asked = request(
        directory,
        "file",
        1,
        path=PurePosixPath(directory, name),
        files=(name,),
        identities=(identity(directory / name),),
    )
    assert move(asked).result is TrashResult.MOVED
    assert as_user(lambda: trash.restore(beside(directory), "act-1")).result is TrashResult.RESTORED
    assert read_files(directory) == {name: b"odd"}


def test_known_entries_of_a_full_trash_do_not_hide_others(directory, monkeypatch):
    monkeypatch.setattr(entry_limit, "MAX_ENTRIES", 2)
    for n in (1, 2, 3):
        write(directory, "file", n)
        move(request(directory, "file", n))
    names = os.listdir(beside(directory))
    assert len(names) == 3
    listed = as_user(lambda: entries.list_others(beside(directory), names[:2], entry_limit.WHOLE))
    assert [each.act_id for each in listed.found] == names[2:]
