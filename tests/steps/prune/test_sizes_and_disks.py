"""Steps where sizes count, and on disks that are full, read-only or gone: real small ones, in a mount namespace."""

import ctypes
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.fleet.prune_totals import PruneAction
from ckptd.core.retention import KeepLast, KeepWithin
from ckptd.steps.prune import audit_entries
from support.prune_facts import make_policy, make_site, own, workshop
from support.trash_facts import as_user

EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]
DAY = timedelta(days=1)
_NEW_MOUNTS, _PRIVATE, _REMOUNT, _READ_ONLY = 0x00020000, (1 << 18) | 16384, 32, 1
_libc = ctypes.CDLL(None, use_errno=True)


def test_a_run_is_cut_to_its_size_oldest_first_but_never_below_the_floor():
    with workshop() as shop:
        shop.start_job()
        shop.train(range(1, 7), saves_per_look=6)
        shop.wait(90)
        size = (shop.directory / "epoch_1.npz").stat().st_size
        shop.site = make_site(shop.root, make_policy(KeepWithin(5 * DAY), max_total_size_bytes=4 * size))
        assert shop.act().moved_bytes == 2 * size
        assert shop.names() == EPOCHS[2:]
        assert {entry.reasons[0].partition(",")[0] for entry in shop.audit(audit_entries.PRUNE)} == {
            "max_total_size is reached"
        }
        shop.wait(5)
        shop.act()
        assert shop.names() == EPOCHS[2:]  # what fits stays
        shop.site = make_site(shop.root, make_policy(KeepWithin(5 * DAY), max_total_size_bytes=1))
        shop.wait(5)
        shop.act()
        assert shop.names() == EPOCHS[5:]
        rules = KeepLast(2), KeepWithin(5 * DAY)
        shop.site = make_site(shop.root, make_policy(*rules, max_total_size_bytes=1))
        shop.train(range(7, 10))
        shop.wait(90)
        shop.act()
        assert shop.names() == ["epoch_8.npz", "epoch_9.npz"]  # the size lets go of nothing that `last` keeps


@contextmanager
def small_disk(shop, options):
    """A file system of its own for the user's home."""
    home = shop.root / "home"
    assert _libc.mount(b"none", os.fsencode(home), b"tmpfs", 0, options.encode()) == 0
    try:
        own(home)
        (home / "ckpts").mkdir()
        own(home / "ckpts")
        yield home
    finally:
        assert _libc.umount2(os.fsencode(home), 2) == 0


def remount(home, flags):
    assert _libc.mount(b"none", os.fsencode(home), b"tmpfs", _REMOUNT | flags, None) == 0


def on_small_disk(story, options):
    """Tell a story in a process that sees a small disk; None where this system lets not even root mount one."""

    def tell():
        if _libc.unshare(_NEW_MOUNTS) or _libc.mount(b"none", b"/", b"none", _PRIVATE, None):
            return None
        with workshop() as shop, small_disk(shop, options) as home:
            shop.start_job()
            shop.train(range(1, 7), saves_per_look=6)
            shop.wait(90)
            shop.site = replace(shop.site, hold=timedelta(hours=1))
            story(shop, home)
        return True

    return as_user(tell, uid=0)


def fill(home):
    """Use up the last block."""
    with (home / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert os.statvfs(home).f_bavail == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_on_a_full_disk_nothing_is_lost_the_trash_is_still_emptied_and_then_things_move_again():
    def story(shop, home):
        shop.site = replace(shop.site, caps=replace(shop.site.caps, cycle_count=2))
        assert shop.act().moved_count == 2
        fill(home)
        for _ in range(4):
            shop.wait(5)
            done = shop.act()
            assert (done.moved_count, done.failed_count) == (0, 1)
            assert shop.names() == EPOCHS[2:]
        pruned = shop.memory.pruned
        assert pruned.operations[PruneAction("prune", "failed", "full")] == 4
        assert pruned.paused_user_count == 0
        assert len(shop.trashed()) == 2  # no entry is left half made
        shop.wait(60)
        done = shop.act()
        assert (done.deleted_count, done.moved_count) == (2, 2)
        assert shop.names() == EPOCHS[4:]

    assert on_small_disk(story, "size=256k") in {True, None}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_on_a_read_only_disk_nothing_is_lost_and_the_brake_holds():
    def story(shop, home):
        remount(home, _READ_ONLY)
        for _ in range(5):
            shop.act()
            shop.wait(5)
        assert shop.names() == EPOCHS
        pruned = shop.memory.pruned
        assert pruned.operations[PruneAction("prune", "failed", "read-only")] == 3
        assert pruned.paused_user_count == 1
        remount(home, 0)
        shop.wait(7 * 60)
        assert shop.act().moved_count == 4
        remount(home, _READ_ONLY)
        shop.wait(120)
        assert shop.act().deleted_count == 0
        assert len(shop.trashed()) == 4
        assert {entry.outcome.partition(" (")[0] for entry in shop.audit(audit_entries.EMPTY)} == {
            "failed: the file system is read-only"
        }
        remount(home, 0)
        shop.wait(7 * 60)
        assert shop.act().deleted_count == 4

    assert on_small_disk(story, "size=1m") in {True, None}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_disk_that_is_not_mounted_any_more_is_no_run_that_is_gone():
    def story(shop, home):
        before = shop.names()
        assert _libc.umount2(os.fsencode(home), 2) == 0
        shop.wait(5)
        assert shop.act().moved_count == 0
        assert {name for name, record in shop.record().items() if record.pruned_at} == set()
        assert _libc.mount(b"none", os.fsencode(home), b"tmpfs", 0, b"size=1m") == 0
        own(home)
        shop.wait(5)
        assert shop.act().moved_count == 0  # empty, with nothing of what the record says
        assert before == EPOCHS
        assert [entry for entry in shop.audit() if entry.action == audit_entries.PRUNE] == []

    assert on_small_disk(story, "size=1m") in {True, None}
