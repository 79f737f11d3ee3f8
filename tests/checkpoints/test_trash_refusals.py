"""What the trash refuses: whatever is not as planned, whatever leads elsewhere, and whatever others could reach."""

import errno
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import TrashResult
from ckptd.checkpoints.trash.outcome import fail
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import FileIdentity, Unknown
from support.trash_facts import (
    NOW,
    OTHER_UID,
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
        (swap_for_link, TrashResult.REFUSED, "no regular file"),
        (swap_parent_for_link, TrashResult.FAILED, "is none any more"),
        (touch, TrashResult.REFUSED, "has changed since"),
        (rewrite, TrashResult.REFUSED, "has changed since"),
        (hard_link, TrashResult.REFUSED, "2 names"),
        (give_away, TrashResult.REFUSED, "belongs to user 0"),
        (add_later, TrashResult.REFUSED, "was added after"),
        (add_fifo, TrashResult.REFUSED, "no regular file"),
        (remove_part, TrashResult.REFUSED, "is gone"),
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
    assert outcome.result is TrashResult.REFUSED
    assert reason in outcome.reason
    assert read_files(directory) == {"step_1.pt": b"weights 1"}


def test_a_path_with_dots_is_refused(directory):
    write(directory, "file", 1)
    climbing = PurePosixPath(directory, "..", "ckpts")
    asked = replace(request(directory, "file", 1), directory=climbing, path=climbing / "step_1.pt")
    assert move(asked).result is TrashResult.REFUSED


def test_a_checkpoint_that_a_process_has_open_or_mapped_stays(directory):
    write(directory, "file", 1)
    with (directory / "step_1.pt").open("rb"):
        opened = trash.list_open_files()
        outcome = move(request(directory, "file", 1), open_files=opened)
    assert (outcome.result, outcome.reason) == (TrashResult.REFUSED, "a process has 'step_1.pt' open")
    found = identity(directory / "step_1.pt")
    assert (found.device, found.inode) not in trash.list_open_files()


def test_as_root_nothing_is_done_in_directories_of_others(directory):
    write(directory, "file", 1)
    os.chown(directory, 0, 0)
    outcome = trash.move_aside(request(directory, "file", 1), now=NOW)
    assert (outcome.result, outcome.reason) == (TrashResult.REFUSED, "one of its directories belongs to someone else")


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
        assert move(request(directory, "file", 2)).result is TrashResult.MOVED
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
    assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.TOO_DEEP)
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
    assert as_user(lambda: trash.restore(beside(directory), "act-1")).result is TrashResult.REFUSED
    (kept,) = as_user(lambda: trash.empty(beside(directory), ["act-1"], released()))
    assert kept.result is TrashResult.REFUSED
    assert (entry / "0").read_bytes() == b"weights 1"


def test_a_file_of_another_identity_is_refused_even_when_the_plan_says_so(directory):
    write(directory, "file", 1)
    asked = request(directory, "file", 1, identities=(FileIdentity(1, 2, 3, 4),))
    assert "has changed since" in move(asked).reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("plant", [Path.touch, os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/tmp")])
def test_what_others_plant_where_the_trash_would_be_stops_nobody(directory, plant):
    shared = directory.parent
    os.chown(shared, 0, 0)
    shared.chmod(0o1777)
    planted = shared / trash.TRASH
    plant(planted)
    os.chown(planted, OTHER_UID + 1, -1, follow_symlinks=False)
    write(directory, "directory", 1)
    outcome = as_user(lambda: move(request(directory, "directory", 1)))
    assert outcome.result is TrashResult.MOVED, outcome
    assert (directory / trash.TRASH / "act-1" / "moved").exists()
    assert as_user(lambda: trash.recover(PurePosixPath(directory, trash.TRASH))) == ()
    assert as_user(lambda: trash.restore(PurePosixPath(directory, trash.TRASH), "act-1")).result is TrashResult.RESTORED


def test_an_immutable_file_is_said_to_be_one():
    outcome = fail(PermissionError(errno.EPERM, os.strerror(errno.EPERM)), "act-1", "step_1.pt")
    assert outcome.cause is FailureCause.IMMUTABLE
    assert "immutable" in outcome.reason


def test_nothing_in_a_trash_is_moved_again(directory):
    """Otherwise an entry would be left without its manifest, and nothing could restore it."""
    kept = write(directory, "directory", 1)
    first = request(directory, "directory", 1)
    assert move(first).result is TrashResult.MOVED
    entry = Path(beside(directory)) / "act-1"
    for inside in (entry, entry.parent, entry.parent.parent):
        for name, file in (("manifest.json", "manifest.json"), ("0", "0/model.safetensors")):
            asked = replace(
                first,
                act_id="again",
                directory=PurePosixPath(inside),
                path=PurePosixPath(entry / name),
                files=(file,),
                identities=(identity(entry / file),),
                is_directory=name == "0",
                allowed_roots=(PurePosixPath(directory.parent),),
            )
            outcome = move(asked)
            assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.OUTSIDE)
    assert as_user(lambda: trash.restore(beside(directory), "act-1")).result is TrashResult.RESTORED
    assert read_files(directory) == kept
