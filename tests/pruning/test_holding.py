"""How long the trash holds what was moved aside, and what it gives back."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.checkpoints import disposal
from ckptd.core.retention import Mode
from ckptd.pruning import acts, step
from support.prune_facts import CLUSTER, EPOCHS, make_policy, make_site


def test_what_was_held_long_enough_is_deleted_and_what_was_not_is_not(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.wait(9 * 60)
    shop.act()
    assert len(shop.trashed()) == 4
    shop.wait(61)
    assert shop.act().deleted_count == 4
    assert shop.trashed() == []
    assert {entry.outcome for entry in shop.audit(acts.EMPTY)} == {"deleted"}
    assert shop.names() == EPOCHS[4:]


def test_a_policy_that_no_longer_enforces_deletes_nothing_from_the_trash(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=1))
    shop.act()
    shop.site = make_site(shop.root, make_policy(mode=Mode.PLAN), hold=timedelta(hours=1))
    shop.wait(600)
    shop.act()
    assert len(shop.trashed()) == 4


def test_without_room_the_hold_is_as_short_as_the_site_allows(shop, monkeypatch):
    shop.site = replace(shop.site, no_room_hold=timedelta(hours=1))
    shop.act()
    shop.wait(120)
    shop.act()
    assert len(shop.trashed()) == 4
    monkeypatch.setattr("ckptd.pruning.holding.ROOM_FOR", 2**60)
    assert shop.act().deleted_count == 4


def test_after_a_jump_of_the_clock_nothing_is_done_for_a_while(shop):
    shop.act()
    moved = len(shop.trashed())
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    elapsed = shop.memory.clock.stepped_on
    shop.wait(24 * 60)
    assert shop.act(elapsed + timedelta(minutes=5)) == step.Result()
    shop.wait(5)
    assert shop.act(elapsed + timedelta(minutes=10)) == step.Result()
    assert len(shop.trashed()) == moved
    shop.wait(60)
    assert shop.act(elapsed + timedelta(minutes=70)).deleted_count == moved


@pytest.mark.parametrize("is_on_record", [True, False])
def test_a_daemon_that_starts_long_after_the_last_or_with_none_on_record_deletes_nothing_for_a_while(
    shop, is_on_record
):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.memory = step.recall(shop.store, CLUSTER) if is_on_record else step.Memory()
    shop.wait(24 * 60)  # by a clock that may be ahead
    shop.act(timedelta(0))
    shop.wait(59)
    assert shop.act(timedelta(minutes=59)).deleted_count == 0
    assert len(shop.trashed()) == 4
    shop.wait(2)
    assert shop.act(timedelta(minutes=61)).deleted_count == 4


def test_a_daemon_that_is_started_again_at_once_goes_on_to_delete(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.wait(10 * 60)
    shop.look()
    shop.memory = step.recall(shop.store, CLUSTER)
    shop.wait(5)
    assert shop.act(timedelta(0)).deleted_count == 4


def test_what_comes_back_from_the_trash_is_not_pruned_again(shop):
    shop.act()
    (place,) = [place for place in disposal.places_of([shop.run]) if place.path == shop.trash()]
    entry = next(entry for entry in shop.audit(acts.PRUNE) if entry.target.endswith("epoch_2.npz"))
    outcome = disposal.restore(shop.agent, place, entry.details["act_id"], timedelta(seconds=20))
    assert outcome.result == "restored"
    shop.wait(5)
    shop.look()
    shop.wait(600)
    shop.act()
    assert shop.names() == [EPOCHS[1], *EPOCHS[4:]]


# intents that were cut off
