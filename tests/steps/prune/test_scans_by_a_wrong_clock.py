"""Copies of checkpoints that a daemon first scanned while its clock was hours ahead; the file server's was right."""

import os
import shutil

import pytest

from ckptd.core.retention import KeepLast
from support.prune_facts import make_policy, make_site, own, workshop

AHEAD = BEHIND = 180  # minutes


def copy(shop, name, target, *, keeps_times):
    """Copy a checkpoint to another directory of the run, as `cp` or `cp -p` do."""
    path = shop.directory / target / name
    path.parent.mkdir(exist_ok=True)
    own(path.parent)
    (shutil.copy2 if keeps_times else shutil.copyfile)(shop.directory / name, path)
    own(path)
    if not keeps_times:
        os.utime(path, (shop.now.timestamp(), shop.now.timestamp()))


@pytest.mark.parametrize("ahead", [0, AHEAD])
@pytest.mark.parametrize("keeps_times", [True, False], ids=["cp -p", "cp"])
def test_a_copy_stays_whatever_the_clock_said_when_its_original_was_seen(ahead, keeps_times):
    with workshop() as shop:
        shop.site = make_site(shop.root, make_policy(KeepLast(1)))
        shop.start_job()
        for epoch in range(1, 5):
            shop.wait(10)
            shop.save(f"epoch_{epoch}.npz", epoch=epoch)
            shop.wait(1)
            shop.wait(ahead)
            shop.look()
            shop.wait(-ahead)
        for epoch in (1, 2, 3):
            shop.wait(10)
            copy(shop, f"epoch_{epoch}.npz", "good", keeps_times=keeps_times)
            shop.wait(1)
            shop.look()
        shop.train(range(5, 12))
        shop.wait(300)
        shop.act()
        assert sorted(path.name for path in (shop.directory / "good").iterdir()) == [
            f"epoch_{epoch}.npz" for epoch in (1, 2, 3)
        ]


@pytest.mark.parametrize("behind", [0, BEHIND])
def test_what_is_copied_back_from_the_trash_stays_whatever_the_clock_said_when_it_was_seen(behind):
    with workshop() as shop:
        shop.site = make_site(shop.root, make_policy(KeepLast(2)))
        shop.start_job()
        shop.train(range(1, 7))
        shop.wait(90)
        assert shop.act().moved_count == 4
        shop.wait(5)
        [entry] = [each for each in shop.trash().iterdir() if "epoch_2.npz" in (each / "manifest.json").read_text()]
        path = shop.directory / "epoch_2.npz"
        shutil.copyfile(entry / "0", path)
        own(path)
        os.utime(path, (shop.now.timestamp(), shop.now.timestamp()))
        shop.wait(1 - behind)
        shop.look()
        shop.wait(behind)
        shop.look()
        shop.train(range(7, 12))
        shop.wait(300)
        shop.act()
        assert "epoch_2.npz" in shop.names()
