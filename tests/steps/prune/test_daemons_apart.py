"""Two daemons prune the same directories, each with a database of its own."""

import os
import shutil
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from ckptd.checkpoints.trash import TurnLimits
from ckptd.core.retention import KeepLast
from ckptd.steps.prune import foreign_removals
from ckptd.steps.prune.recovery import PruneParts
from support.prune_facts import CLUSTER, Workshop, make_policy, make_site, own, workshop


@contextmanager
def two_daemons():
    """Two daemons of one cluster; the second one removes nothing until it gets a policy."""
    with workshop() as first:
        second = Workshop(first.root, first.agent, f"sqlite:///{first.root}/second.sqlite3")
        second.site = make_site(first.root, make_policy(KeepLast(100)))
        try:
            yield first, second
        finally:
            second.store.close()


def start(*daemons):
    for each in daemons:
        each.start_job()


def train(first, second, epochs):
    """Save after each half hour; both daemons scan after each save."""
    for epoch in epochs:
        first.train([epoch])
        second.now = first.now
        second.look()


def prune(shop, keep):
    """Prune with one daemon; what it keeps is the newest so many."""
    shop.site = make_site(shop.root, make_policy(KeepLast(keep)))
    return shop.act().moved_count


def copy_back(shop, name, *, keeps_times=False):
    """Copy a checkpoint from the trash back to where it was, as `cp` or `cp -p` do."""
    for entry in shop.trash().iterdir():
        if f'"path": "{shop.directory}/{name}"' in (entry / "manifest.json").read_text():
            path = shop.directory / name
            (shutil.copy2 if keeps_times else shutil.copyfile)(entry / "0", path)
            own(path)
            if not keeps_times:
                os.utime(path, (shop.now.timestamp(), shop.now.timestamp()))


def wait(minutes, *daemons):
    for each in daemons:
        each.wait(minutes)
        each.look()


def prune_seen_by_both(first, second):
    """Save six checkpoints while both daemons scan; the first one prunes four."""
    start(first, second)
    train(first, second, range(1, 7))
    wait(90, first, second)
    assert prune(first, 2) == 4


def prune_seen_by_one(first):
    """Do the same while there is no second daemon yet."""
    start(first)
    first.train(range(1, 7))
    first.wait(90)
    assert prune(first, 2) == 4


def train_on(first, second):
    """Save three more checkpoints, until all are old enough to be pruned."""
    train(first, second, range(7, 10))
    wait(90, first, second)


def test_what_is_copied_back_from_the_trash_of_one_daemon_is_not_removed_by_another():
    with two_daemons() as (first, second):
        prune_seen_by_both(first, second)
        wait(5, first, second)
        second.act()
        copy_back(first, "epoch_2.npz")
        wait(5, first, second)
        train_on(first, second)
        assert prune(second, 2) == 3
        assert second.names() == ["epoch_2.npz", "epoch_8.npz", "epoch_9.npz"]


def test_it_stays_after_the_other_daemon_has_emptied_its_trash():
    with two_daemons() as (first, second):
        prune_seen_by_both(first, second)
        wait(5, first, second)
        copy_back(first, "epoch_2.npz")
        wait(5, first, second)
        second.act()
        shutil.rmtree(first.trash())
        train_on(first, second)
        assert prune(second, 2) == 3
        assert second.names() == ["epoch_2.npz", "epoch_8.npz", "epoch_9.npz"]


def test_what_was_pruned_before_a_daemon_began_is_known_by_the_trash():
    with two_daemons() as (first, second):
        prune_seen_by_one(first)
        second.now = first.now
        start(second)
        wait(5, first, second)
        copy_back(first, "epoch_2.npz")
        wait(5, first, second)
        train_on(first, second)
        prune(second, 2)
        assert "epoch_2.npz" in second.names()


def test_what_the_job_saves_again_after_a_start_over_is_pruned_by_both():
    with two_daemons() as (first, second):
        prune_seen_by_both(first, second)
        wait(5, first, second)
        second.act()
        first.end_jobs()
        second.queue.jobs = ()
        for _ in range(4):
            wait(1, second)
        second.now = first.now = max(first.now, second.now) + timedelta(minutes=1)
        for each in (first, second):
            each.start_job(2)
        train(first, second, range(1, 10))
        wait(90, first, second)
        prune(second, 2)
        assert second.names() == ["epoch_8.npz", "epoch_9.npz"]


def test_what_is_copied_back_stays_if_the_trash_was_read_before_anything_of_it_was_on_record():
    with two_daemons() as (first, second):
        prune_seen_by_one(first)
        second.now = first.now
        start(second)
        wait(5, first, second)
        second.act()
        copy_back(first, "epoch_2.npz")
        wait(5, first, second)
        train_on(first, second)
        prune(second, 2)
        assert "epoch_2.npz" in second.names()


def test_what_is_copied_back_stays_if_the_trash_was_read_before_a_scan_missed_it():
    with two_daemons() as (first, second):
        prune_seen_by_both(first, second)
        hands = PruneParts(second.store, second.agent, second.site, CLUSTER)
        second.memory.foreign.record(hands, [second.run], second.now)
        wait(5, first, second)
        wait(5, first, second)
        copy_back(first, "epoch_2.npz")
        wait(5, first, second)
        train_on(first, second)
        prune(second, 2)
        assert "epoch_2.npz" in second.names()


def test_what_a_job_saves_again_is_pruned_by_a_daemon_that_never_saw_it_before():
    with two_daemons() as (first, second):
        prune_seen_by_one(first)
        first.end_jobs()
        first.wait(5)
        for name in first.names():
            (first.directory / name).unlink()
        first.look()
        second.now = first.now = first.now + timedelta(minutes=1)
        for each in (first, second):
            each.start_job(2)
        train(first, second, range(1, 10))
        wait(90, first, second)
        prune(second, 2)
        assert second.names() == ["epoch_8.npz", "epoch_9.npz"]


def test_what_was_pruned_of_two_runs_beside_each_other_is_recorded_of_both_if_one_is_asked_about_first():
    with two_daemons() as (first, second):
        (first.root / "home/beside").mkdir()
        own(first.root / "home/beside")
        start(first, second)
        for each in (first, second):
            each.start_job(2, comment="ckpt=beside")
        train(first, second, range(1, 5))
        first.directory = first.root / "home/beside"
        train(first, second, range(1, 5))
        wait(90, first, second)
        assert prune(first, 2) == 4
        wait(5, first, second)
        hands = PruneParts(second.store, second.agent, second.site, CLUSTER)
        runs = [second.run, first.run]
        for run in runs:
            assert not second.memory.foreign.record(hands, [run], second.now)
        for run in runs:
            second.directory = Path(run.directory)
            pruned = {name for name, record in second.record().items() if record.pruned_at is not None}
            assert pruned == {"epoch_1.npz", "epoch_2.npz"}


def test_nothing_is_removed_until_a_trash_that_takes_several_turns_was_read_to_its_end(monkeypatch):
    monkeypatch.setattr(foreign_removals, "TURN", TurnLimits(limit=1, seconds=60))
    with two_daemons() as (first, second):
        prune_seen_by_both(first, second)
        moved = []
        for _ in range(3):
            wait(5, first, second)
            moved.append(prune(second, 1))
        assert moved == [0, 1, 0]
