"""What pruning says of itself to metrics, after real steps on real directories."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.checkpoints.agent import trash_client
from ckptd.core.fleet.prune_totals import PruneAction, PruneTotals, RemovableTotals
from ckptd.core.retention import PolicyMode
from ckptd.steps.prune import audit_entries, step
from ckptd.steps.prune.recovery import PruneParts, finish
from support.prune_facts import CLUSTER, make_policy, make_site

MOVED = PruneAction("prune", "moved", "")


def size(shop, *epochs):
    return sum((shop.directory / f"epoch_{number}.npz").stat().st_size for number in epochs)


def test_what_was_moved_is_counted_once_and_lies_in_the_trash(shop):
    expected = size(shop, 1, 2, 3, 4)
    shop.act()
    moved_at = shop.now
    for _ in range(3):
        shop.wait(5)
        shop.act()
    found = shop.memory.pruned
    assert (found.operations[MOVED], found.operation_bytes["prune"]) == (4, expected)
    assert (found.held.count, found.held.size_bytes) == (4, expected)
    assert moved_at <= found.held.oldest_at < moved_at + timedelta(minutes=4), "the step may take some time"
    assert found.going == {"plan": RemovableTotals(), "enforce": RemovableTotals()}
    assert found.stepped_at == shop.now


def test_a_first_step_that_never_ends_has_a_time_that_an_alert_can_watch(shop, monkeypatch):
    def hang(*_, **__):
        raise OSError("as good as never")

    monkeypatch.setattr(step, "act", hang)
    parts = replace(shop.parts, retention=shop.site)
    for now in (shop.now, shop.now + timedelta(hours=3)):
        with pytest.raises(OSError, match="never"):
            step.run(parts, shop.state, now)
        assert shop.state.latest(PruneTotals).stepped_at == shop.now


def test_without_policies_no_alert_about_pruning_fires(shop):
    for minutes in (0, 180):  # the clock jumps
        step.run(replace(shop.parts, retention=shop.site), shop.state, shop.now + timedelta(minutes=minutes))
    assert shop.state.latest(PruneTotals).is_clock_unreliable
    step.run(replace(shop.parts, retention=replace(shop.site, matches=())), shop.state, shop.now)
    totals = shop.state.latest(PruneTotals)
    assert (totals.stepped_at, totals.is_clock_unreliable, totals.is_breaker_open) == (None, False, False)


def test_what_a_plan_would_free_is_told_before_anything_is_enforced(shop):
    shop.site = make_site(shop.root, make_policy(mode=PolicyMode.PLAN))
    shop.act()
    assert shop.memory.pruned.going == {
        "plan": RemovableTotals(4, size(shop, 1, 2, 3, 4)),
        "enforce": RemovableTotals(),
    }


def test_what_waits_for_a_cap_is_told_as_going(shop):
    shop.site = make_site(shop.root, caps=replace(shop.site.caps, cycle_count=1))
    left = size(shop, 2, 3, 4)
    shop.act()
    assert shop.memory.pruned.going["enforce"] == RemovableTotals(3, left)


def test_what_was_deleted_is_counted_as_freed_and_no_longer_held(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    freed = size(shop, 1, 2, 3, 4)
    shop.act()
    shop.wait(11 * 60)
    shop.act()
    found = shop.memory.pruned
    assert (found.operations[PruneAction("empty", "deleted", "")], found.operation_bytes["empty"]) == (4, freed)
    assert (found.held.count, found.held.oldest_at) == (0, None)


def test_what_a_policy_that_enforces_no_longer_leaves_in_the_trash_is_overdue(shop):
    shop.site = replace(shop.site, hold=timedelta(hours=10))
    shop.act()
    shop.site = make_site(shop.root, make_policy(mode=PolicyMode.PLAN), hold=timedelta(hours=10))
    shop.wait(11 * 60)
    shop.act()
    assert shop.memory.pruned.held.overdue_count == 4


def test_refusals_and_failures_are_counted_by_reason_and_only_failures_brake(shop):
    os.link(shop.directory / "epoch_1.npz", shop.root / "second-name")
    for _ in range(4):
        shop.act()
        shop.wait(5)
    found = shop.memory.pruned
    assert found.operations[PruneAction("prune", "refused", "linked")] == 1
    assert (found.paused_user_count, found.is_breaker_open) == (0, False)
    assert found.going["enforce"].count == 1
    (shop.root / "second-name").unlink()
    shop.wait(6 * 60)
    shop.directory.chmod(0o555)
    for _ in range(4):
        shop.act()
        shop.wait(5)
    found = shop.memory.pruned
    assert found.operations[PruneAction("prune", "failed", "permission")] == 3
    assert (found.paused_user_count, found.is_breaker_open) == (1, False)
    assert found.going["enforce"].count == 1
    shop.wait(7 * 60)
    shop.act()
    assert shop.memory.pruned.paused_user_count == 0


def test_what_a_person_brings_back_is_counted_and_no_longer_held(shop):
    shop.act()
    (place,) = [place for place in trash_client.places_of([shop.run]) if place.path == shop.trash()]
    moved = shop.audit(audit_entries.PRUNE)[0]
    act_id = moved.details["act_id"]
    shop.wait(1)
    intent = audit_entries.intend(
        audit_entries.RESTORE, shop.run, moved.target, act_id=act_id, actor=f"{audit_entries.PERSON}1", now=shop.now
    )
    intent = replace(intent, audit_id=shop.store.audit.record(intent))
    outcome = trash_client.restore(shop.agent, place, act_id, shop.site.deadline)
    finish(PruneParts(shop.store, shop.agent, shop.site, CLUSTER), intent, outcome, shop.now)
    shop.wait(4)
    shop.act()
    found = shop.memory.pruned
    assert (found.operations[PruneAction("restore", "restored", "")], found.held.count) == (1, 3)
    assert found.operation_bytes["restore"] == size(shop, 1)


def test_what_its_owner_takes_out_of_the_trash_is_seen_within_a_few_steps(shop):
    shop.act()
    for path in shop.trash().iterdir():
        for inner in path.iterdir():
            inner.unlink()
        path.rmdir()
    shop.wait(5)
    shop.act()
    assert shop.memory.pruned.held.count == 0


def test_a_clock_that_jumped_is_told(shop):
    shop.act()
    elapsed = shop.memory.clock.stepped_on
    shop.wait(24 * 60)
    assert shop.act(elapsed + timedelta(minutes=5)) == step.PruneResult()
    assert shop.memory.pruned.is_clock_unreliable
    assert shop.memory.pruned.held.count == 4
    shop.wait(120)
    shop.act(elapsed + timedelta(minutes=125))
    assert not shop.memory.pruned.is_clock_unreliable


def test_acts_of_an_earlier_daemon_are_not_counted_again(shop):
    shop.act()
    shop.memory = step.PruneSlice()
    shop.wait(5)
    shop.act()
    assert shop.memory.pruned.operations[MOVED] == 0
    assert shop.memory.pruned.held.count == 4
