"""Kills real processes with -9 at every step of the trash, and at random moments, and looks at what is left.

Whatever happens, each checkpoint is whole: all of it where it was, or all of it in the trash, or (after a deletion)
all of it gone; the newest one is never touched; and what `recover` and `look_up` say is what the disk shows.
"""

import os
import random
import select
import shutil
import signal
from pathlib import PurePosixPath

import pytest

from checkpoints import trash_kills
from checkpoints.trash_kills import ACTS, NEWEST, OLD, check_it_comes_back, prepare, recover_and_check
from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import EntryState, TrashResult
from ckptd.core.fleet.prune_totals import FailureCause
from support import small_process
from support.trash_facts import (
    LATER,
    NOW,
    SHAPES,
    Killer,
    as_user,
    identity,
    in_child,
    is_killed,
    own,
    read_files,
    released,
    request,
    scratch,
    start_child,
    write,
)

RANDOM_KILLS = int(os.environ.get("CKPTD_RANDOM_KILLS", "10"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("act", ACTS)
def test_a_kill_at_any_step_leaves_what_the_next_start_finishes_or_undoes(act, shape):
    assert small_process.call(trash_kills.kill_at_each_step, act, shape) >= 7


@pytest.mark.parametrize("act", ACTS)
def test_a_kill_of_the_recovery_itself_is_recovered_from(act):
    assert small_process.call(trash_kills.kill_recovery_at_each_step, act) >= 30


@pytest.mark.timeout(RANDOM_KILLS + 1200)
def test_random_kills_lose_nothing_that_is_needed():
    """Move, restore and delete over and over, and kill that at random moments: `CKPTD_RANDOM_KILLS` of them."""
    dice = random.Random(20261120)
    killed = 0
    with scratch() as directory:
        place = PurePosixPath(directory.parent, trash.TRASH)
        newest = write(directory, "directory", NEWEST)

        def keep_busy(asked):
            for turn in range(1000):
                trash.move_aside(asked, now=NOW)
                if turn % 3 == 2:
                    trash.empty(place, ["act-1"], released())
                else:
                    trash.restore(place, "act-1")

        for _ in range(RANDOM_KILLS):
            old = write(directory, "set", OLD)
            asked = request(directory, "set", OLD)
            child, pipe = start_child(lambda what=asked: keep_busy(what))
            kill_after(child, dice.uniform(0.001, 0.08))
            os.close(pipe)
            killed += is_killed(os.waitpid(child, 0)[1])
            found = recover_and_check(directory, place, old, newest, may_be_gone=True)
            if found == "held":
                check_it_comes_back(directory, place, old, newest)
    assert killed > RANDOM_KILLS / 2
    print(f"killed {killed} of {RANDOM_KILLS} times")


def kill_after(child, seconds):
    """Kill a child so many seconds from now, unless it ends before."""
    descriptor = os.pidfd_open(child)
    try:
        select.select([descriptor], [], [], seconds)
        os.kill(child, signal.SIGKILL)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("at", range(9, 13))
def test_a_name_that_the_job_took_again_is_the_jobs_and_the_old_files_stay_together_in_the_trash(at):
    with scratch() as directory:
        _, newest, place = prepare(directory, "set")
        asked = request(directory, "set", OLD)
        assert is_killed(in_child(lambda: trash.move_aside(asked, now=NOW, step=Killer(at))))
        missing = [name for name in asked.files if not (directory / name).exists()]
        for name in missing:
            (directory / name).write_bytes(b"saved again by the job")
        as_user(lambda: trash.recover(place))
        files = read_files(directory)
        assert {name: files[name] for name in newest} == newest
        assert {name: files[name] for name in missing} == dict.fromkeys(missing, b"saved again by the job")
        states = [entry.state for entry in as_user(lambda: trash.list_trash(place))]
        if missing:
            assert states == [EntryState.HELD]
            assert set(asked.files) & set(files) == set(missing)


def move_until(asked, name):
    """Move a checkpoint aside, and kill that right before this step."""

    def step(what):
        if what == name:
            os.kill(os.getpid(), signal.SIGKILL)

    assert is_killed(in_child(lambda: trash.move_aside(asked, now=NOW, step=step)))


@pytest.mark.parametrize("moved_count", [1, 2])
def test_a_half_moved_checkpoint_whose_directory_is_renamed_is_never_deleted_by_its_hold(moved_count):
    with scratch() as directory:
        old, newest, place = prepare(directory, "set")
        asked = request(directory, "set", OLD)
        move_until(asked, f"rename {asked.files[moved_count]} {moved_count}")
        renamed = directory.parent / "renamed"
        directory.rename(renamed)
        for _ in range(2):
            (outcome,) = as_user(lambda: trash.recover(place))
            assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.GONE)
            assert f"only {moved_count} of its 3 parts" in outcome.reason
            (entry,) = as_user(lambda: trash.list_trash(place, is_measured=True))
            assert entry.state is EntryState.MOVING
            (kept,) = as_user(lambda: trash.empty(place, ["act-1"], released(now=LATER)))
            assert kept.result is TrashResult.REFUSED
            restored = as_user(lambda: trash.restore(place, "act-1"))
            assert (restored.result, restored.cause) == (TrashResult.REFUSED, FailureCause.GONE)
            assert "rename it back" in restored.reason
        renamed.rename(directory)
        check_it_comes_back(directory, place, old, newest)


def test_a_part_that_recovery_could_not_put_back_is_never_deleted_by_its_hold():
    with scratch() as directory:
        _, _, place = prepare(directory, "directory")
        names = ("a/ckpt.index", "b/ckpt.data")
        for name in names:
            (directory / name).parent.mkdir()
            (directory / name).write_text(name)
        own(directory)
        identities = tuple(identity(directory / name) for name in names)
        path = PurePosixPath(directory, "ckpt")
        asked = request(directory, "set", OLD, path=path, files=names, identities=identities)
        move_until(asked, "rename ckpt.data 1")
        (directory / "a").rename(directory / "renamed")
        (outcome,) = as_user(lambda: trash.recover(place))
        assert (outcome.result, "stays in the trash" in outcome.reason) == (TrashResult.MOVED, True)
        (kept,) = as_user(lambda: trash.empty(place, ["act-1"], released(now=LATER)))
        assert (kept.result, kept.cause) == (TrashResult.REFUSED, FailureCause.GONE)
        assert "'b/ckpt.data' of it is not in the trash" in kept.reason
        (directory / "renamed").rename(directory / "a")
        assert as_user(lambda: trash.restore(place, "act-1")).result is TrashResult.RESTORED
        assert [(directory / name).read_text() for name in names] == list(names)


def test_a_directory_that_is_gone_when_its_whole_checkpoint_is_in_the_trash_leaves_a_held_entry():
    with scratch() as directory:
        _, _, place = prepare(directory, "set")
        asked = request(directory, "set", OLD)
        move_until(asked, "create moved")
        shutil.rmtree(directory)
        (outcome,) = as_user(lambda: trash.recover(place))
        assert (outcome.result, outcome.reason) == (
            TrashResult.MOVED,
            "part of it stays in the trash: its directory is gone",
        )
        (done,) = as_user(lambda: trash.empty(place, ["act-1"], released(now=LATER)))
        assert (done.result, done.reason) == (TrashResult.DELETED, None)
        assert as_user(lambda: trash.list_trash(place)) == ()


def test_a_person_may_delete_what_is_left_of_a_half_moved_checkpoint_whose_directory_is_gone():
    with scratch() as directory:
        _, _, place = prepare(directory, "set")
        asked = request(directory, "set", OLD)
        assert is_killed(in_child(lambda: trash.move_aside(asked, now=NOW, step=Killer(11))))
        for name in read_files(directory):
            (directory / name).unlink()
        directory.rmdir()
        (outcome,) = as_user(lambda: trash.recover(place))
        assert (outcome.result, outcome.cause) == (TrashResult.REFUSED, FailureCause.GONE)
        (done,) = as_user(lambda: trash.empty(place, ["act-1"], released()))
        assert (done.result, done.reason) == (TrashResult.DELETED, None)
        assert as_user(lambda: trash.list_trash(place)) == ()
