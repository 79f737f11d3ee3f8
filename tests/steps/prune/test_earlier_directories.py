"""Retention where each start of a job saves into a new directory: each is counted by itself."""

import os
from dataclasses import replace

import pytest

from ckptd.core.model import RunKey
from ckptd.steps.prune import planning
from support.checkpoint_bytes import torch_state
from support.prune_facts import CLUSTER, UID, own, workshop


@pytest.fixture
def shop():
    """A job without a named directory; two checkpoints may stay in each."""
    with workshop() as shop:
        shop.start_job(comment="")
        yield shop


def train(shop, version, epochs):
    directory = shop.directory.parent / version
    for epoch in epochs:
        shop.wait(30)
        directory.mkdir(exist_ok=True)
        path = directory / f"epoch_{epoch}.pt"
        path.write_bytes(torch_state(epoch))
        own(directory)
        own(path)
        os.utime(path, (shop.now.timestamp(),) * 2)
        shop.wait(1)
        shop.look()
    shop.wait(90)
    return directory


def names(directory):
    return sorted(path.name for path in directory.iterdir() if path.is_file())


def restart(shop):
    [job] = shop.queue.jobs
    shop.wait(5)
    changed = {"restart_count": job.restart_count + 1, "started_at": shop.now, "submitted_at": shop.now}
    shop.queue.jobs = (replace(job, **changed),)
    shop.look()


def plan(shop, directory):
    facts = planning.read_facts(shop.store, CLUSTER, shop.site, [RunKey(CLUSTER, UID, str(directory))])
    [run] = planning.plan(facts, shop.now).runs
    return run.skipped, {each.path.rpartition("/")[2]: each.reasons for each in run.decisions}


def test_each_directory_keeps_what_the_policy_keeps_there(shop):
    before = train(shop, "version_0", range(1, 6))
    restart(shop)
    now = train(shop, "version_1", range(6, 12))
    shop.act()
    assert names(now) == ["epoch_10.pt", "epoch_11.pt", "epoch_6.pt"]  # nobody was seen writing the first one
    assert names(before) == [f"epoch_{epoch}.pt" for epoch in range(1, 6)]  # the running job may have loaded any
    assert "the running attempt probably resumed from it" in plan(shop, before)[1]["epoch_5.pt"]
    shop.end_jobs()
    shop.wait(90)
    shop.act()
    assert names(before) == ["epoch_1.pt", "epoch_4.pt", "epoch_5.pt"]


def test_what_a_start_over_left_behind_keeps_the_newest_of_each_directory(shop):
    before = train(shop, "version_0", range(1, 6))
    restart(shop)
    now = train(shop, "version_1", range(1, 3))
    shop.end_jobs()
    shop.wait(90)
    shop.act()
    assert names(before) == ["epoch_1.pt", "epoch_4.pt", "epoch_5.pt"]
    assert names(now) == ["epoch_1.pt", "epoch_2.pt"]


def test_nothing_is_removed_where_the_newer_directory_cannot_be_read(shop):
    before = train(shop, "version_0", range(1, 6))
    restart(shop)
    now = train(shop, "version_1", range(6, 8))
    os.chown(now, 0, 0)
    now.chmod(0)
    shop.end_jobs()
    shop.wait(90)
    shop.act()
    assert names(before) == [f"epoch_{epoch}.pt" for epoch in range(1, 6)]
    assert "was not read completely" in plan(shop, before)[0]
