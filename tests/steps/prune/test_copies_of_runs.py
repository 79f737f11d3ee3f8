"""Retention in several locations of one run: each is counted by itself, and none loses what another relies on."""

import os
import shutil

import pytest

from ckptd.core.model import RunKey
from ckptd.steps.prune import planning
from support.prune_facts import CLUSTER, UID, own, workshop


@pytest.fixture
def shop():
    """A run of six saves, each of which was copied to an archive; two may stay in each location."""
    with workshop() as shop:
        make_archive(shop)
        shop.start_job(comment="ckpt=ckpts:archive")
        yield shop


def make_archive(shop):
    archive(shop).mkdir()
    own(archive(shop))


def archive(shop):
    return shop.root / "home/archive"


def train_and_copy(shop, epochs, copy=shutil.copy2):
    for epoch in epochs:
        shop.train([epoch])
        made = archive(shop) / f"epoch_{epoch}.npz"
        copy(shop.directory / made.name, made)
        own(made)
        shop.wait(10)
        shop.look()
    shop.wait(90)


def names(directory):
    return sorted(path.name for path in directory.iterdir() if path.is_file())


def cut(shop, name):
    """Damage a checkpoint in the primary location now."""
    path = shop.directory / name
    os.truncate(path, 100)
    os.utime(path, (shop.now.timestamp(),) * 2)
    return path


def plan(shop):
    """What is planned for the archive: the reason to skip it, and the reasons for each checkpoint."""
    key = RunKey(CLUSTER, UID, str(archive(shop)))
    facts = planning.read_facts(shop.store, CLUSTER, shop.site, [key])
    [run] = planning.plan(facts, shop.now).runs
    return run.skipped, {each.path.rpartition("/")[2]: each for each in run.decisions}


def test_each_location_keeps_what_the_policy_keeps_there(shop):
    train_and_copy(shop, range(1, 7))
    shop.act()
    assert names(shop.directory) == ["epoch_5.npz", "epoch_6.npz"]
    assert names(archive(shop)) == ["epoch_5.npz", "epoch_6.npz"]


def test_a_copy_stays_while_its_original_is_damaged(shop):
    train_and_copy(shop, range(1, 7))
    original = cut(shop, "epoch_2.npz")
    shop.wait(90)
    shop.act()
    assert names(shop.directory) == ["epoch_2.npz", "epoch_5.npz", "epoch_6.npz"]
    assert names(archive(shop)) == ["epoch_2.npz", "epoch_5.npz", "epoch_6.npz"]
    shop.look()
    _, decisions = plan(shop)
    assert f"{original} is damaged, and this may be its last copy" in decisions["epoch_2.npz"].reasons


def test_the_only_complete_copy_of_the_newest_stays_where_it_is(shop):
    train_and_copy(shop, range(1, 7))
    for epoch in range(1, 7):
        cut(shop, f"epoch_{epoch}.npz")
    shop.wait(90)
    shop.act()
    assert names(archive(shop)) == [f"epoch_{epoch}.npz" for epoch in range(1, 7)]
    skipped, decisions = plan(shop)
    assert skipped is None
    assert "this may be its last copy" in "".join(decisions["epoch_1.npz"].reasons)


def test_copies_with_a_new_date_are_no_proven_copies_and_stay(shop):
    def copy(source, target):
        shutil.copy(source, target)
        os.utime(target, (shop.now.timestamp(),) * 2)

    train_and_copy(shop, range(1, 7), copy)
    shop.act()
    assert names(shop.directory) == ["epoch_5.npz", "epoch_6.npz"]
    assert len(names(archive(shop))) == 6


def test_nothing_is_removed_where_two_runs_copy_to(shop):
    (shop.root / "home/other").mkdir()
    own(shop.root / "home/other")
    shop.start_job(2, comment="ckpt=other:archive")
    train_and_copy(shop, range(1, 7))
    shop.act()
    assert len(names(archive(shop))) == 6
    assert plan(shop)[0] == "it is a further location of several runs"


def test_nothing_is_removed_where_another_run_saves(shop):
    train_and_copy(shop, range(1, 7))
    shop.start_job(2, comment="ckpt=archive")
    shop.wait(90)
    shop.act()
    assert len(names(archive(shop))) == 6
    assert plan(shop)[0] == "it is a further location of another run"


def test_nothing_is_removed_from_a_copy_while_the_primary_location_is_unknown(shop):
    train_and_copy(shop, range(1, 7))
    shop.directory.chmod(0o000)
    shop.wait(10)
    shop.act()
    assert len(names(archive(shop))) == 6
    assert "was not read completely" in plan(shop)[0]
