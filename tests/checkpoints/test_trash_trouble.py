"""What the trash does where the system fails it, or where others are at work in the same moment."""

import ctypes
import errno
import os
from contextlib import suppress

import pytest

from checkpoints import trash_failures
from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import TrashResult
from ckptd.core.fleet.prune_totals import FailureCause
from support import small_process
from support.trash_facts import (
    NOW,
    SHAPES,
    as_user,
    beside,
    move,
    own,
    read_files,
    released,
    request,
    start_child,
    write,
)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "no space is left"),
        (errno.EDQUOT, "quota"),
        (errno.EXDEV, "another file system"),
        (errno.ESTALE, "no longer knows"),
        (errno.EACCES, "has no permission"),
        (errno.EIO, "failed to read or write"),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_system_call_that_fails_at_any_step_loses_nothing(directory, shape, number, words):
    assert small_process.call(trash_failures.fail_at_each_step, directory, shape, number, words) > 11


def test_a_read_only_mount_is_an_outcome_and_a_bind_mount_is_never_crossed(directory):
    victim = directory.parent.parent / "victim"
    victim.mkdir()
    (victim / "precious").write_bytes(b"precious")
    own(victim)
    write(directory, "directory", 1)
    asked = request(directory, "directory", 1)
    libc = ctypes.CDLL(None, use_errno=True)

    def mounted(source, target, flags):
        return libc.mount(os.fsencode(source), os.fsencode(target), b"none", flags, None) == 0

    def act():
        bind, private, remount, read_only = 4096, (1 << 18) | 16384, 32, 1
        if libc.unshare(0x00020000) or not mounted("none", "/", private):
            return None  # this system lets not even root mount: then nobody can do it to us
        assert mounted(victim, directory / "checkpoint-1" / "rank", bind)
        crossed = trash.move_aside(asked, now=NOW)
        assert libc.umount2(os.fsencode(directory / "checkpoint-1" / "rank"), 0) == 0
        assert mounted(directory.parent, directory.parent, bind)
        assert mounted("none", directory.parent, bind | remount | read_only)
        return crossed, trash.move_aside(asked, now=NOW)

    outcomes = as_user(act, uid=0)
    assert read_files(victim) == {"precious": b"precious"}
    if outcomes is not None:
        assert [one.result for one in outcomes] == [TrashResult.REFUSED, TrashResult.FAILED]
        assert "mounted" in outcomes[0].reason or "is gone" in outcomes[0].reason
        assert "read-only" in outcomes[1].reason


def test_a_mount_of_the_users_own_older_files_on_an_empty_subdirectory_is_not_crossed(directory):
    write(directory, "directory", 1)
    older = directory.parent / "older"
    older.mkdir()
    (older / "notes").write_bytes(b"precious")
    os.utime(older / "notes", (1, 1))
    empty = directory / "checkpoint-1" / "scratch"
    empty.mkdir()
    own(directory.parent)
    asked = request(directory, "directory", 1)
    libc = ctypes.CDLL(None, use_errno=True)

    def act():
        if libc.unshare(0x00020000) or libc.mount(b"none", b"/", b"none", (1 << 18) | 16384, None):
            return None  # this system lets not even root mount
        assert libc.mount(os.fsencode(older), os.fsencode(empty), b"none", 4096, None) == 0
        return as_user(lambda: trash.move_aside(asked, now=NOW))

    outcome = as_user(act, uid=0)
    if outcome is not None:
        assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.MOUNTED)
        assert (directory / "checkpoint-1" / "model.safetensors").exists()


def test_what_changes_in_the_moment_of_its_move_is_put_back(directory):
    write(directory, "file", 1)
    asked = request(directory, "file", 1)

    def change(name):
        if name == "rename step_1.pt 0":
            (directory / "step_1.pt").write_bytes(b"written at the last moment")

    outcome = move(asked, step=change)
    assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.CHANGED)
    assert "while it was moved" in outcome.reason
    assert read_files(directory) == {"step_1.pt": b"written at the last moment"}


@pytest.mark.parametrize("mode", [0o555, 0o300, 0o000])
def test_a_checkpoint_with_a_subdirectory_that_its_owner_may_not_change_is_deleted(directory, mode):
    write(directory, "directory", 1)
    assert move(request(directory, "directory", 1)).result is TrashResult.MOVED
    place = beside(directory)
    inside = directory.parent / trash.TRASH / "act-1" / "0" / "rank"
    for path in (inside / "0", inside, inside.parent):
        path.chmod(mode)
    (done,) = as_user(lambda: trash.empty(place, ["act-1"], released()))
    assert (done.result, done.reason) == (TrashResult.DELETED, None)
    assert list((directory.parent / trash.TRASH).iterdir()) == []


def test_a_link_in_the_place_of_a_directory_opens_nothing(directory):
    outside = directory.parent / "outside"
    outside.mkdir(mode=0o555)
    write(directory, "directory", 1)
    move(request(directory, "directory", 1))
    inside = directory.parent / trash.TRASH / "act-1" / "0" / "rank"
    inside.rename(directory.parent / "rank")
    inside.symlink_to(outside)
    own(directory.parent)
    outside.chmod(0o555)
    (done,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], released()))
    assert done.result is TrashResult.REFUSED
    assert outside.stat().st_mode & 0o777 == 0o555


def fail_to_delete(directory, failing):
    """Let the deletion fail at one unlink."""
    names = []

    def step(name):
        names.append(name)
        if sum(each.startswith("unlink") for each in names) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return as_user(lambda: trash.empty(beside(directory), ["act-1"], released(), step=step))


def test_what_failed_to_be_deleted_before_anything_was_comes_back(directory):
    write(directory, "directory", 1)
    before = read_files(directory)
    move(request(directory, "directory", 1))
    (done,) = fail_to_delete(directory, 1)
    assert done.result is TrashResult.FAILED
    (entry,) = as_user(lambda: trash.list_trash(beside(directory)))
    assert entry.state is trash.EntryState.DELETING
    restored = as_user(lambda: trash.restore(beside(directory), "act-1"))
    assert (restored.result, restored.reason) == (TrashResult.RESTORED, None)
    assert read_files(directory) == before


def test_what_was_deleted_in_part_does_not_come_back_and_says_what_is_missing(directory):
    write(directory, "directory", 1)
    move(request(directory, "directory", 1))
    fail_to_delete(directory, 2)
    restored = as_user(lambda: trash.restore(beside(directory), "act-1"))
    assert restored.result is TrashResult.REFUSED
    assert "1 of its 6 files and directories are deleted, such as 'checkpoint-1/trainer_state.json'" in restored.reason
    assert read_files(directory) == {}
    (done,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], released()))
    assert done.result is TrashResult.DELETED
    assert as_user(lambda: trash.list_trash(beside(directory))) == ()


def test_what_is_exchanged_in_the_moment_of_its_deletion_is_not_deleted(directory):
    write(directory, "file", 1)
    move(request(directory, "file", 1))
    entry = directory.parent / trash.TRASH / "act-1"

    def exchange(name):
        if name == "rename act-1 act-1.deleting":
            (entry / "0").rename(directory / "old")
            (entry / "0").write_bytes(b"another's")

    (outcome,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], released(), step=exchange))
    assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.CHANGED)
    assert (entry.parent / "act-1.deleting" / "0").read_bytes() == b"another's"


def test_a_frameworks_own_rotation_at_the_same_time_makes_neither_lose_a_file_it_wanted(directory):
    last = 150

    def train():
        for n in range(last + 1):
            fresh = directory / f".step_{n}.tmp"
            fresh.write_bytes(b"weights %d" % n)
            fresh.rename(directory / f"step_{n}.pt")
            (directory / f"step_{n - 3}.pt").unlink(missing_ok=True)  # it keeps three

    def prune():
        outcomes = []
        newest = -1
        while newest < last:
            found = sorted(int(path.stem[5:]) for path in directory.glob("step_*.pt"))
            newest = max([newest, *found])
            for n in found[:-1]:
                with suppress(FileNotFoundError):
                    outcomes.append(trash.move_aside(request(directory, "file", n), now=NOW))
        return outcomes

    trainer, pipe = start_child(train)
    outcomes = as_user(prune)
    os.close(pipe)
    assert os.waitpid(trainer, 0)[1] == 0
    moved = {outcome.act_id for outcome in outcomes if outcome.result is TrashResult.MOVED}
    entries = as_user(lambda: trash.list_trash(beside(directory)))
    assert moved
    assert {outcome.reason for outcome in outcomes if outcome.result is TrashResult.FAILED} <= {
        "it, or a directory of its path, no longer exists (No such file or directory)"
    }
    assert {entry.act_id for entry in entries} == moved
    assert all(entry.state is trash.EntryState.HELD for entry in entries)
    assert all(
        (directory.parent / trash.TRASH / act_id / "0").read_bytes() == f"weights {act_id[4:]}".encode()
        for act_id in moved
    )
    assert (directory / f"step_{last}.pt").read_bytes() == b"weights %d" % last
