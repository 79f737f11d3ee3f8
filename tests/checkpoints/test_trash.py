"""What the trash moves, refuses, brings back and lets go."""

import ctypes
import errno
import json
import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints import trash, tree
from ckptd.checkpoints.trash import Result
from ckptd.core.model import FileIdentity, Unknown
from ckptd.core.pruned import Cause
from support.trash_facts import (
    LATER,
    NOW,
    OTHER_UID,
    PATHS,
    SHAPES,
    as_user,
    identity,
    own,
    read_files,
    request,
    scratch,
    start_child,
    write,
)


@pytest.fixture
def directory():
    with scratch() as made:
        yield made


def move(asked, **options):
    return as_user(lambda: trash.move_aside(asked, now=NOW, **options))


def beside(directory):
    return PurePosixPath(directory.parent / trash.TRASH)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_moved_aside_comes_back_byte_for_byte(directory, shape):
    write(directory, shape, 1)
    write(directory, shape, 2)
    before = read_files(directory)
    kept = {name: data for name, data in before.items() if "2" in name.partition(".data")[0]}
    outcome = move(request(directory, shape, 1))
    assert (outcome.result, outcome.reason, outcome.act_id) == (Result.MOVED, None, "act-1")
    assert outcome.size_bytes == sum(len(data) for name, data in before.items() if name not in kept)
    assert read_files(directory) == kept
    (entry,) = as_user(lambda: trash.list_trash(beside(directory)))
    assert (entry.act_id, entry.state, entry.moved_at) == ("act-1", trash.EntryState.HELD, NOW)
    assert (entry.path, entry.size_bytes) == (str(directory / PATHS[shape].format(n=1)), outcome.size_bytes)
    restored = as_user(lambda: trash.restore(beside(directory), "act-1"))
    assert (restored.result, restored.reason) == (Result.RESTORED, None)
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
        assert move(request(directory, shape, n)).result is Result.MOVED
    early = as_user(lambda: trash.empty(beside(directory), ["act-1"], held_before=NOW - timedelta(days=7)))
    assert [(one.result, one.reason) for one in early] == [(Result.REFUSED, "it is still held")]
    (done,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], held_before=LATER))
    assert (done.result, done.reason) == (Result.DELETED, None)
    assert [entry.act_id for entry in as_user(lambda: trash.list_trash(beside(directory)))] == ["act-2"]
    assert as_user(lambda: trash.look_up(beside(directory), "act-1")) is None
    assert as_user(lambda: trash.restore(beside(directory), "act-2")).result is Result.RESTORED


def test_the_scan_of_a_directory_does_not_see_its_trash(directory):
    os.chown(directory.parent, 0, 0)
    write(directory, "file", 1)
    write(directory, "file", 2)
    assert move(request(directory, "file", 1)).result is Result.MOVED
    assert (directory / trash.TRASH).is_dir()
    assert [file.path for file in tree.list_tree(directory).walk_files()] == ["step_2.pt"]


def test_nothing_is_restored_over_something_that_is_there_now(directory):
    write(directory, "set", 1)
    move(request(directory, "set", 1))
    (directory / "ckpt-1.index").write_bytes(b"newer")
    outcome = as_user(lambda: trash.restore(beside(directory), "act-1"))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "'ckpt-1.index' is there again; move it away first")
    assert read_files(directory) == {"ckpt-1.index": b"newer"}
    assert as_user(lambda: trash.look_up(beside(directory), "act-1")) is trash.EntryState.HELD


def test_what_changed_in_the_trash_is_not_deleted(directory):
    write(directory, "directory", 1)
    move(request(directory, "directory", 1))
    added = directory.parent / trash.TRASH / "act-1" / "0" / "mine.txt"
    added.write_bytes(b"written by a process that had the directory open")
    own(added)
    (outcome,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], held_before=LATER))
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "'checkpoint-1' has changed in the trash")
    assert added.exists()


def test_where_the_parent_is_not_the_users_the_trash_is_inside_the_directory(directory):
    os.chown(directory.parent, 0, 0)
    write(directory, "file", 1)
    assert move(request(directory, "file", 1)).result is Result.MOVED
    inside = trash.list_places(PurePosixPath(directory))[1]
    assert as_user(lambda: trash.look_up(inside, "act-1")) is trash.EntryState.HELD
    assert as_user(lambda: trash.restore(inside, "act-1")).result is Result.RESTORED
    assert read_files(directory) == {"step_1.pt": b"weights 1"}


def swap_for_link(directory):
    (directory / "elsewhere").mkdir()
    (directory / "checkpoint-1").rename(directory / "elsewhere" / "real")
    (directory / "checkpoint-1").symlink_to("elsewhere/real")


def swap_parent_for_link(directory):
    directory.rename(directory.with_name("real"))
    directory.symlink_to("real")


def touch(directory):
    os.utime(directory / "checkpoint-1" / "model.safetensors", (1, 1))


def rewrite(directory):
    path = directory / "checkpoint-1" / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    own(path)


def hard_link(directory):
    os.link(directory / "checkpoint-1" / "model.safetensors", directory / "again")


def give_away(directory):
    os.chown(directory / "checkpoint-1" / "model.safetensors", 0, 0)


def add_later(directory):
    path = directory / "checkpoint-1" / "new.pt"
    path.write_bytes(b"x")
    own(path)


def add_fifo(directory):
    os.mkfifo(directory / "checkpoint-1" / "fifo")
    own(directory)


def remove_part(directory):
    (directory / "checkpoint-1" / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("change", "result", "reason"),
    [
        (swap_for_link, Result.REFUSED, "no regular file"),
        (swap_parent_for_link, Result.FAILED, "is none any more"),
        (touch, Result.REFUSED, "has changed since"),
        (rewrite, Result.REFUSED, "has changed since"),
        (hard_link, Result.REFUSED, "2 names"),
        (give_away, Result.REFUSED, "belongs to user 0"),
        (add_later, Result.REFUSED, "was added after"),
        (add_fifo, Result.REFUSED, "no regular file"),
        (remove_part, Result.REFUSED, "is gone"),
    ],
)
def test_what_is_not_as_planned_at_the_last_moment_is_refused_and_left(directory, change, result, reason):
    write(directory, "directory", 1)
    asked = request(directory, "directory", 1)
    change(directory)
    before = read_files(directory.parent)
    outcome = move(asked)
    assert outcome.result is result
    assert reason in outcome.reason
    assert read_files(directory.parent) == before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"allowed_roots": (PurePosixPath("/scratch"),)}, "outside of the allowed roots"),
        ({"path": PurePosixPath("/etc/passwd")}, "is not inside"),
        ({"files": ("../victim",)}, "climbs"),
        ({"files": ()}, "not known which files"),
        ({"act_id": "../../x"}, "is no id of an act"),
        ({"uid": OTHER_UID + 1}, "this process is user"),
        ({"markers": ("step_1.pt",)}, "is shared with other checkpoints"),
    ],
)
def test_requests_that_reach_beyond_the_run_are_refused(directory, changes, reason):
    write(directory, "file", 1)
    outcome = move(request(directory, "file", 1, **changes))
    assert outcome.result is Result.REFUSED
    assert reason in outcome.reason
    assert read_files(directory) == {"step_1.pt": b"weights 1"}


def test_a_path_with_dots_is_refused(directory):
    write(directory, "file", 1)
    climbing = PurePosixPath(directory, "..", "ckpts")
    asked = replace(request(directory, "file", 1), directory=climbing, path=climbing / "step_1.pt")
    assert move(asked).result is Result.REFUSED


def test_a_checkpoint_that_a_process_has_open_or_mapped_stays(directory):
    write(directory, "file", 1)
    with (directory / "step_1.pt").open("rb"):
        opened = trash.list_open_files()
        outcome = move(request(directory, "file", 1), open_files=opened)
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "a process has 'step_1.pt' open")
    found = identity(directory / "step_1.pt")
    assert (found.device, found.inode) not in trash.list_open_files()


def test_as_root_nothing_is_done_in_directories_of_others(directory):
    write(directory, "file", 1)
    os.chown(directory, 0, 0)
    outcome = trash.move_aside(request(directory, "file", 1), now=NOW)
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "one of its directories belongs to someone else")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "no space is left"),
        (errno.EDQUOT, "quota"),
        (errno.EXDEV, "another file system"),
        (errno.ESTALE, "no longer knows"),
        (errno.EACCES, "may not move"),
        (errno.EIO, "failed to read or write"),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_system_call_that_fails_at_any_step_loses_nothing(directory, shape, number, words):
    write(directory, shape, 1)
    before = read_files(directory)

    def fail_at(failing):
        names = []

        def step(name):
            names.append(name)
            if len(names) == failing:
                raise OSError(number, os.strerror(number))

        asked = request(directory, shape, 1, act_id=f"act-{failing}")
        return trash.move_aside(asked, now=NOW, step=step), len(names)

    failing = 1
    while True:
        outcome, steps = as_user(lambda at=failing: fail_at(at))
        if steps < failing:
            break
        if outcome.result is Result.FAILED:
            assert words in outcome.reason
            assert read_files(directory) == before
        else:
            for place in trash.list_places(PurePosixPath(directory)):
                as_user(lambda where=place: trash.recover(where))
                as_user(lambda where=place, at=failing: trash.restore(where, f"act-{at}"))
            assert read_files(directory) == before
        failing += 1
    assert failing > 12
    assert outcome.result is Result.MOVED


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
        assert [one.result for one in outcomes] == [Result.REFUSED, Result.FAILED]
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
        assert (outcome.result, outcome.cause) == (Result.REFUSED, Cause.MOUNTED)
        assert (directory / "checkpoint-1" / "model.safetensors").exists()


def test_what_changes_in_the_moment_of_its_move_is_put_back(directory):
    write(directory, "file", 1)
    asked = request(directory, "file", 1)

    def change(name):
        if name == "rename step_1.pt 0":
            (directory / "step_1.pt").write_bytes(b"written at the last moment")

    outcome = move(asked, step=change)
    assert (outcome.result, outcome.cause) == (Result.REFUSED, Cause.CHANGED)
    assert "while it was moved" in outcome.reason
    assert read_files(directory) == {"step_1.pt": b"written at the last moment"}


def test_what_is_exchanged_in_the_moment_of_its_deletion_is_not_deleted(directory):
    write(directory, "file", 1)
    move(request(directory, "file", 1))
    entry = directory.parent / trash.TRASH / "act-1"

    def exchange(name):
        if name == "rename act-1 act-1.deleting":
            (entry / "0").rename(directory / "old")
            (entry / "0").write_bytes(b"another's")

    (outcome,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], held_before=LATER, step=exchange))
    assert (outcome.result, outcome.cause) == (Result.REFUSED, Cause.CHANGED)
    assert (entry.parent / "act-1.deleting" / "0").read_bytes() == b"another's"


@pytest.mark.parametrize("spoil", ["mode", "owner"])
def test_a_trash_that_others_could_reach_or_own_is_neither_read_nor_used(directory, spoil):
    write(directory, "file", 1)
    write(directory, "file", 2)
    move(request(directory, "file", 1))
    there = directory.parent / trash.TRASH
    if spoil == "mode":
        there.chmod(0o750)
    (found,) = (
        trash.list_trash(beside(directory))
        if spoil == "owner"
        else as_user(lambda: trash.list_trash(beside(directory)))
    )
    assert isinstance(found, Unknown)
    assert "is not a private directory of user" in found.reason
    if spoil == "mode":
        assert move(request(directory, "file", 2)).result is Result.MOVED
        assert [path.name for path in there.iterdir()] == ["act-1"]  # the second went inside the directory


def test_a_checkpoint_of_too_many_directories_in_one_another_is_refused_with_a_reason(directory):
    write(directory, "directory", 1)
    asked = request(directory, "directory", 1)
    path = str(directory / "checkpoint-1")
    for _ in range(1300):
        path += "/d"
        os.mkdir(path)
        os.chown(path, OTHER_UID, -1)
    outcome = move(asked)
    subprocess.run(["rm", "-rf", directory / "checkpoint-1" / "d"], check=True)
    assert (outcome.result, outcome.cause) == (Result.REFUSED, Cause.TOO_DEEP)
    assert "directories in one another" in outcome.reason


def forge(**changes):
    facts = {
        "version": 1,
        "act_id": "act-1",
        "directory": "",
        "path": "x",
        "uid": OTHER_UID,
        "reasons": [],
        "items": [],
    }
    return json.dumps({**facts, "moved_at": "2026-01-01T00:00:00+00:00", **changes}).encode()


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"version": 1}',
        forge(directory="../../etc"),
        forge(items=[{"name": "../x", "things": []}]),
        forge(items=[{"name": "x", "things": [["../y", "file", 1, 2, 3, 4]]}]),
        forge(items=[{"name": "x", "things": [["y", "device", 1, 2, 3, 4]]}]),
        forge(moved_at="2026-01-01"),
    ],
)
def test_a_forged_manifest_leads_nowhere(directory, manifest):
    write(directory, "file", 1)
    move(request(directory, "file", 1))
    entry = directory.parent / trash.TRASH / "act-1"
    (entry / "manifest.json").write_bytes(manifest)
    (found,) = as_user(lambda: trash.list_trash(beside(directory)))
    assert isinstance(found, Unknown)
    assert as_user(lambda: trash.restore(beside(directory), "act-1")).result is Result.REFUSED
    (kept,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], held_before=LATER))
    assert kept.result is Result.REFUSED
    assert (entry / "0").read_bytes() == b"weights 1"


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
    assert move(asked).result is Result.MOVED
    assert as_user(lambda: trash.restore(beside(directory), "act-1")).result is Result.RESTORED
    assert read_files(directory) == {name: b"odd"}


def test_a_file_of_another_identity_is_refused_even_when_the_plan_says_so(directory):
    write(directory, "file", 1)
    asked = request(directory, "file", 1, identities=(FileIdentity(1, 2, 3, 4),))
    assert "has changed since" in move(asked).reason


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
    moved = {outcome.act_id for outcome in outcomes if outcome.result is Result.MOVED}
    entries = as_user(lambda: trash.list_trash(beside(directory)))
    assert moved
    assert {outcome.reason for outcome in outcomes if outcome.result is Result.FAILED} <= {
        "it, or a directory of its path, is gone (No such file or directory)"
    }
    assert {entry.act_id for entry in entries} == moved
    assert all(entry.state is trash.EntryState.HELD for entry in entries)
    assert all(
        (directory.parent / trash.TRASH / act_id / "0").read_bytes() == f"weights {act_id[4:]}".encode()
        for act_id in moved
    )
    assert (directory / f"step_{last}.pt").read_bytes() == b"weights %d" % last
