"""How long the trash holds what was moved aside, and what it gives back."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.checkpoints.agent import trash_client
from ckptd.core.retention import PolicyMode
from ckptd.steps.prune import audit_entries, rebuild_record, step
from support.prune_facts import CLUSTER, EPOCHS, MINUTE, UID, Workshop, make_policy, make_site


def test_what_was_held_long_enough_is_deleted_and_what_was_not_is_not(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.wait(9 * 60)
    shop.act()
    assert len(shop.trashed()) == 4
    shop.wait(61)
    assert shop.act().deleted_count == 4
    assert shop.trashed() == []
    assert {entry.outcome for entry in shop.audit(audit_entries.EMPTY)} == {"deleted"}
    assert shop.names() == EPOCHS[4:]


def test_a_policy_that_no_longer_enforces_deletes_nothing_from_the_trash(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=1))
    shop.act()
    shop.site = make_site(shop.root, make_policy(mode=PolicyMode.PLAN), hold=timedelta(hours=1))
    shop.wait(600)
    shop.act()
    assert len(shop.trashed()) == 4


def test_without_room_the_hold_is_as_short_as_the_site_allows(shop, monkeypatch):
    shop.site = replace(shop.site, no_room_hold=timedelta(hours=1))
    shop.act()
    shop.wait(120)
    shop.act()
    assert len(shop.trashed()) == 4
    monkeypatch.setattr("ckptd.steps.prune.trash_expiry.SHORT_BELOW", 2**60)
    assert shop.act().deleted_count == 4


def test_a_hold_that_is_shorter_now_frees_nothing_that_was_moved_under_a_longer_one(shop):
    shop.act()
    shop.site = replace(shop.site, hold=timedelta(hours=1))
    shop.wait(6 * 24 * 60)
    assert shop.act().deleted_count == 0
    shop.wait(25 * 60)
    assert shop.act().deleted_count == 4


def test_a_hold_that_is_longer_now_holds_what_was_moved_under_a_shorter_one(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=1))
    shop.act()
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.wait(9 * 60)
    assert shop.act().deleted_count == 0
    shop.wait(2 * 60)
    assert shop.act().deleted_count == 4


def test_without_room_nothing_is_freed_early_that_was_moved_when_the_site_did_not_allow_that(shop, monkeypatch):
    shop.act()
    shop.site = replace(shop.site, no_room_hold=timedelta(hours=1))
    monkeypatch.setattr("ckptd.steps.prune.trash_expiry.SHORT_BELOW", 2**60)
    shop.wait(120)
    assert shop.act().deleted_count == 0
    assert len(shop.trashed()) == 4


def test_another_daemon_with_a_shorter_hold_deletes_nothing_of_a_directory_that_both_watch(shop):
    shop.site = replace(shop.site, hold=timedelta(days=30))
    shop.act()
    assert len(shop.trashed()) == 4
    other = Workshop(shop.root, shop.agent, f"sqlite:///{shop.root}/other.sqlite3")
    try:
        other.site = replace(other.site, hold=timedelta(seconds=5))
        other.queue.jobs = (other.make_job(1),)
        for minutes in (130 * 60, 10, 60 * 24):
            other.now = max(other.now, shop.now) + minutes * MINUTE
            assert other.act().deleted_count == 0
        entries = trash_client.list_trash(shop.agent, trash_client.places_of([shop.run]), MINUTE, is_measured=True)
        found = [entry for listed in entries for entry in listed.entries]
        rebuild_record.record_entries(other.store, CLUSTER, found, {UID: "alice"}, "uid 0", other.now)
        other.memory = step.PruneSlice()
        for minutes in (10, 60 * 24):  # now it knows of them
            other.wait(minutes)
            assert other.act().deleted_count == 0
        assert other.memory.pruned.held.count == 4
        assert len(shop.trashed()) == 4
        other.wait(30 * 24 * 60)
        assert other.act().deleted_count == 4
    finally:
        other.store.close()


def test_after_a_jump_of_the_clock_nothing_is_done_for_a_while(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    moved = len(shop.trashed())
    elapsed = shop.memory.clock.stepped_on
    shop.wait(24 * 60)
    assert shop.act(elapsed + timedelta(minutes=5)) == step.PruneResult()
    shop.wait(5)
    assert shop.act(elapsed + timedelta(minutes=10)) == step.PruneResult()
    assert len(shop.trashed()) == moved
    shop.wait(60)
    assert shop.act(elapsed + timedelta(minutes=70)).deleted_count == moved


@pytest.mark.parametrize("is_on_record", [True, False])
def test_a_daemon_that_starts_long_after_the_last_or_with_none_on_record_deletes_nothing_for_a_while(
    shop, is_on_record
):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.memory = step.recall(shop.store, CLUSTER) if is_on_record else step.PruneSlice()
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
    (place,) = [place for place in trash_client.places_of([shop.run]) if place.path == shop.trash()]
    entry = next(entry for entry in shop.audit(audit_entries.PRUNE) if entry.target.endswith("epoch_2.npz"))
    outcome = trash_client.restore(shop.agent, place, entry.details["act_id"], timedelta(seconds=20))
    assert outcome.result == "restored"
    shop.wait(5)
    shop.look()
    shop.wait(600)
    shop.act()
    assert shop.names() == [EPOCHS[1], *EPOCHS[4:]]


# intents that were cut off
