"""Removing stands still by a clock that is not that of Slurm's controller."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from ckptd.core.model import Unknown
from ckptd.core.model.records import PAUSE
from ckptd.steps.prune import pause_record, step
from support.prune_facts import CLUSTER, START

DOWN = Unknown(what="clock", reason="Slurm does not answer")
EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]


class Controller:
    """What time slurmctld has: so much more than the daemon, or what a test puts in `answer`."""

    def __init__(self, shop):
        self.shop = shop
        self.ahead = timedelta(0)
        self.answer = None
        self.asked = 0
        shop.parts = replace(shop.parts, read_clock=self.read)

    def read(self):
        self.asked += 1
        return self.answer or self.shop.now + self.ahead


def paused(shop):
    return [entry.reasons[0] for entry in pause_record.read_open(shop.store, CLUSTER)]


@pytest.mark.parametrize(("ahead", "words"), [(-1, "1 d ahead of that"), (1, "1 d behind that")])
def test_nothing_is_moved_while_slurms_clock_is_another_and_that_is_told(shop, ahead, words):
    controller = Controller(shop)
    controller.ahead = timedelta(days=ahead)
    assert shop.act() == step.PruneResult()
    assert shop.names() == EPOCHS
    assert shop.memory.pruned.is_clock_unreliable
    assert paused(shop) == [f"this host's clock is {words} of Slurm's controller"]
    shop.wait(5)
    shop.act()
    assert len(shop.audit(PAUSE)) == 1
    controller.ahead = timedelta(0)
    shop.wait(5)
    assert shop.act().moved_count == 4
    assert not shop.memory.pruned.is_clock_unreliable
    assert paused(shop) == []


def test_a_small_difference_is_none(shop):
    Controller(shop).ahead = timedelta(minutes=4)
    assert shop.act().moved_count == 4


def test_a_step_removes_also_if_it_takes_longer_than_clocks_may_differ(shop, monkeypatch):
    Controller(shop)
    began, elapsed, poll_at_once = shop.now, shop.now - START, shop.poll

    def poll_late():
        shop.wait(20)
        poll_at_once()

    def read_seconds():
        return (shop.now - began).total_seconds()

    monkeypatch.setattr(shop, "poll", poll_late)
    monkeypatch.setattr(step, "time", SimpleNamespace(monotonic=read_seconds))
    shop.look()
    assert step.act(shop.parts, shop.state, shop.site, shop.memory, began, elapsed).moved_count == 4


def test_the_trash_keeps_what_only_a_clock_that_is_ahead_holds_no_longer(shop):
    controller = Controller(shop)
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.memory = step.recall(shop.store, CLUSTER)
    shop.wait(24 * 60)  # the clock is set a day ahead while no daemon runs
    controller.ahead = -timedelta(days=1)
    for elapsed in (0, 59, 61, 600):
        assert shop.act(timedelta(minutes=elapsed)).deleted_count == 0
        shop.wait(5)
    assert len(shop.trashed()) == 4


def test_nothing_is_deleted_before_slurm_has_told_its_time_but_a_silence_after_that_stops_nothing(shop):
    controller = Controller(shop)
    shop.site = replace(shop.site, hold=timedelta(hours=1))
    controller.answer = DOWN
    assert shop.act().moved_count == 4
    for _ in range(3):
        shop.wait(60)
        assert shop.act().deleted_count == 0
    controller.answer = None
    shop.wait(5)
    assert shop.act().deleted_count == 4
    shop.train(range(7, 10))
    controller.answer = DOWN
    shop.wait(120)
    assert shop.act().moved_count == 3
    shop.wait(90)
    assert shop.act().deleted_count == 3


def test_slurm_is_asked_for_its_time_once_an_hour_while_the_clocks_agree(shop):
    controller = Controller(shop)
    for _ in range(13):
        shop.act()
        shop.wait(5)
    assert controller.asked == 2
