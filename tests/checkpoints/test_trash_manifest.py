"""What the manifest says of a checkpoint in the trash, and what is done only as it says."""

import json
import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import EntryState, Origin, TrashResult, manifest
from ckptd.checkpoints.trash.descriptors import closing
from ckptd.core.fleet.prune_totals import FailureCause
from ckptd.core.model import RunKey
from support.trash_facts import (
    NOW,
    OTHER_UID,
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

DAY = timedelta(days=1)
WRITTEN = Path(__file__).parent.parent / "data/trash-v1"  # by the version before, each file of its bytes
ORIGIN = Origin(
    cluster="c",
    policy="tight",
    actor="daemon admin 4711",
    format="tensorflow",
    role="state",
    hold=30 * DAY,
    no_room_hold=2 * DAY,
)


def read_manifest(directory, act_id="act-1"):
    return json.loads((directory.parent / trash.TRASH / act_id / "manifest.json").read_text())


def empty(directory, release, act_id="act-1"):
    (outcome,) = as_user(lambda: trash.empty(beside(directory), [act_id], release))
    return outcome


def test_a_manifest_says_whose_it_is_who_moved_it_and_how_long_it_is_held(directory):
    write(directory, "set", 1)
    assert move(request(directory, "set", 1, origin=ORIGIN)).result is TrashResult.MOVED
    document = read_manifest(directory)
    expected = {
        "version": 2,
        "hold": 30 * 86400,
        "no_room_hold": 2 * 86400,
        "policy": "tight",
        "run": {"cluster": "c", "uid": OTHER_UID, "directory": str(directory)},
        "actor": "daemon admin 4711",
        "lease_epoch": 0,
        "format": "tensorflow",
        "role": "state",
    }
    assert {name: document[name] for name in expected} == expected
    (entry,) = as_user(lambda: trash.list_trash(beside(directory)))
    assert (entry.origin, entry.run) == (ORIGIN, RunKey("c", OTHER_UID, str(directory)))


@pytest.mark.parametrize(
    ("days", "is_short_of_space", "result"),
    [
        (29, False, TrashResult.REFUSED),
        (31, False, TrashResult.DELETED),
        (1, True, TrashResult.REFUSED),
        (3, True, TrashResult.DELETED),
    ],
)
def test_nothing_is_deleted_before_the_hold_of_its_manifest_is_over(directory, days, is_short_of_space, result):
    write(directory, "set", 1)
    move(request(directory, "set", 1, origin=ORIGIN))
    now = NOW + days * DAY
    outcome = empty(directory, released(now - timedelta(seconds=5), now, is_short_of_space=is_short_of_space))
    assert outcome.result is result
    if result is TrashResult.REFUSED:
        assert (outcome.reason, outcome.cause) == ("it is still held", FailureCause.HELD)


def test_a_person_may_delete_what_its_manifest_would_hold_longer(directory):
    write(directory, "set", 1)
    move(request(directory, "set", 1, origin=ORIGIN))
    assert empty(directory, released()).result is TrashResult.DELETED


def test_a_manifest_that_would_be_held_for_ever_is_none(directory):
    write(directory, "set", 1)
    move(request(directory, "set", 1, origin=replace(ORIGIN, hold=timedelta.max)))
    path = directory.parent / trash.TRASH / "act-1" / "manifest.json"
    for hold in (-1, 10**400, "30d", float("inf")):
        path.write_text(json.dumps({**read_manifest(directory), "hold": 86400}).replace("86400", json.dumps(hold), 1))
        outcome = empty(directory, released())
        assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.UNREADABLE)


# change times


def flip(path):
    """Change bytes and give the file its old time back, as somebody who hides it."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[0] ^= 0xFF
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_whose_bytes_changed_under_its_old_time_stays(directory):
    write(directory, "directory", 1)
    asked = request(directory, "directory", 1)
    flip(directory / "checkpoint-1" / "model.safetensors")
    outcome = move(asked)
    assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.CHANGED)


def test_a_plan_from_a_record_without_change_times_is_carried_out(directory):
    write(directory, "set", 1)
    asked = request(directory, "set", 1)
    old = tuple(known._replace(changed_ns=0) for known in asked.identities)
    assert move(replace(asked, identities=old)).result is TrashResult.MOVED


def test_the_mark_of_a_finished_move_has_the_change_times_after_it(directory):
    write(directory, "set", 1)
    asked = request(directory, "set", 1)
    move(asked)
    entry = directory.parent / trash.TRASH / "act-1"
    found = json.loads((entry / "moved").read_text())["changed_ns"]
    assert found == [(entry / str(number)).stat().st_ctime_ns for number in range(3)]
    assert [item["things"][0][6] for item in read_manifest(directory)["items"]] == [
        known.changed_ns for known in asked.identities
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_that_changed_in_the_trash_under_their_old_time_are_not_deleted_by_the_daemon(directory, shape):
    write(directory, shape, 1)
    move(request(directory, shape, 1))
    item = directory.parent / trash.TRASH / "act-1" / "0"
    flip(item if item.is_file() else item / "model.safetensors")
    outcome = empty(directory, released(now=NOW + DAY))
    assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.CHANGED)
    assert empty(directory, released()).result is TrashResult.DELETED  # a person says so


# directories


def test_a_directory_with_an_older_file_that_nobody_planned_stays_as_it_is(directory):
    write(directory, "directory", 1)
    asked = request(directory, "directory", 1)
    notes = directory / "checkpoint-1" / "notes.txt"
    notes.write_text("mine")
    own(notes)
    os.utime(notes, (1, 1))
    before = read_files(directory)
    outcome = move(asked)
    assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.CHANGED)
    assert "'checkpoint-1/notes.txt' is in its directory and no file of it" in outcome.reason
    assert read_files(directory) == before


def test_files_of_a_directory_that_is_not_all_theirs_go_and_come_back_one_by_one(directory):
    write(directory, "directory", 1)
    (directory / "checkpoint-1" / "notes.txt").write_text("mine")
    own(directory)
    before = read_files(directory)
    assert move(request(directory, "directory", 1, is_directory=False)).result is TrashResult.MOVED
    assert read_files(directory) == {"checkpoint-1/notes.txt": b"mine"}
    assert as_user(lambda: trash.restore(beside(directory), "act-1")).result is TrashResult.RESTORED
    assert read_files(directory) == before


def test_files_outside_of_the_directory_that_is_to_be_moved_whole_are_refused(directory):
    write(directory, "set", 1)
    assert move(request(directory, "set", 1, is_directory=True)).cause is FailureCause.OUTSIDE


# many members


def write_large(directory, count):
    names = tuple(f"ckpt-1.part-{number:03d}" for number in range(count))
    for number, name in enumerate(names):
        (directory / name).write_bytes(b"member %d" % number)
    own(directory)
    identities = tuple(identity(directory / name) for name in names)
    path = PurePosixPath(directory, "ckpt-1")
    return request(directory, "set", 1, path=path, files=names, identities=identities)


def count_steps(directory, count):
    """Return how often the disk is waited for by a move, a restoration and a deletion of so many files."""

    def act():
        steps = []
        asked = write_large(directory, count)
        trash.move_aside(asked, now=NOW, step=steps.append)
        trash.restore(beside(directory), "act-1", step=steps.append)
        trash.move_aside(request_again(asked, directory), now=NOW, step=steps.append)
        trash.empty(beside(directory), ["act-1"], released(), step=steps.append)
        return steps

    steps = as_user(act, uid=OTHER_UID)
    return sum(step.startswith("fsync") for step in steps), sum(step.startswith("rename") for step in steps)


def request_again(asked, directory):
    return replace(asked, identities=tuple(identity(directory / name) for name in asked.files))


def test_the_disk_is_waited_for_as_often_for_40_files_as_for_two(directory):
    count_steps(directory, 1)  # which makes the trash
    syncs, renames = count_steps(directory, 2)
    many_syncs, many_renames = count_steps(directory, 40)
    assert many_syncs == syncs
    assert many_renames == renames + 3 * 38
    assert syncs == 20  # 6 for each move, 4 to bring it back and 2 for each of its names that go


# entries of the version before


def plant_old(directory, shape):
    """Put an entry there as the version before wrote it, with the identities that its files have on this disk."""
    entry = directory.parent / trash.TRASH / f"act-{shape}"
    entry.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copytree(WRITTEN / f"act-{shape}", entry)
    document = json.loads((entry / "manifest.json").read_text())
    assert document["version"] == 1
    document["uid"], document["path"] = OTHER_UID, str(directory / PurePosixPath(document["path"]).name)
    for number, item in enumerate(document["items"]):
        for thing in item["things"]:
            status = (entry / str(number) / thing[0]).lstat() if thing[0] else (entry / str(number)).lstat()
            thing[2:4] = [status.st_dev, status.st_ino]
            if thing[1] == "file":
                thing[5] = status.st_mtime_ns
    (entry / "manifest.json").write_text(json.dumps(document, indent=1))
    own(entry.parent)
    return entry


@pytest.mark.parametrize("shape", SHAPES)
def test_an_entry_of_the_version_before_is_listed_and_comes_back(directory, shape):
    plant_old(directory, shape)
    (entry,) = as_user(lambda: trash.list_trash(beside(directory)))
    assert (entry.state, entry.origin.hold, entry.run.directory) == (EntryState.HELD, None, str(directory))
    assert as_user(lambda: trash.restore(beside(directory), f"act-{shape}")).result is TrashResult.RESTORED
    assert set(read_files(directory)) == {name.format(n=1) for name in SHAPES[shape]}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_entry_of_the_version_before_is_deleted_after_the_sites_hold(directory, shape):
    plant_old(directory, shape)
    now = NOW + 2 * DAY
    assert empty(directory, released(NOW - DAY, now), f"act-{shape}").result is TrashResult.REFUSED
    assert empty(directory, released(NOW + DAY, now), f"act-{shape}").result is TrashResult.DELETED


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_all_there", [True, False])
def test_an_entry_of_the_version_before_that_was_cut_off_is_finished_or_put_back(directory, shape, is_all_there):
    entry = plant_old(directory, shape)
    (entry / "moved").unlink()
    if not is_all_there:
        names = [item["name"] for item in json.loads((entry / "manifest.json").read_text())["items"]]
        (entry / "0").rename(directory / names[0])
        own(directory)
    (outcome,) = as_user(lambda: trash.recover(beside(directory)))
    assert outcome.result is (TrashResult.MOVED if is_all_there else TrashResult.UNDONE)
    assert bool(read_files(directory)) != is_all_there


def test_checkpoints_whose_paths_differ_only_far_behind_are_told_apart(directory):
    run = directory / ("r" * 200) / ("s" * 200)
    run.mkdir(parents=True)
    own(directory)
    paths = {}
    for n in (1, 2):
        write(run, "file", n)
        asked = request(run, "file", n, origin=ORIGIN, allowed_roots=(PurePosixPath(directory),))
        assert move(asked).result is TrashResult.MOVED
        paths[f"act-{n}"] = str(run / f"step_{n}.pt")
    entries = as_user(lambda: trash.list_trash(beside(run)))
    assert {entry.act_id: entry.path for entry in entries} == paths
    with closing(os.open(beside(run) / "act-1", os.O_RDONLY)) as entry:
        assert manifest.read_manifest(entry).run == RunKey("c", OTHER_UID, str(run))
    outcome = as_user(lambda: trash.restore(beside(run), "act-2"))
    assert (outcome.result, outcome.path) == (TrashResult.RESTORED, paths["act-2"])
