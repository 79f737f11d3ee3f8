"""Steps over the runs of several users at once: caps and brakes of each, of a disk, of all."""

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ckptd.checkpoints.agent.client import SILENCE
from ckptd.checkpoints.trash import trash_operations
from ckptd.core.fleet.prune_totals import PruneAction
from ckptd.core.model import RunKey, Unknown
from ckptd.core.retention import Caps
from ckptd.steps.prune import (
    audit_entries,
    circuit_breaker,
    owner_turns,
    step,
    trash_expiry,
)
from ckptd.steps.prune.recovery import PruneParts, recover_runs
from steps.databases import on_both_databases
from steps.prune.several_users import EPOCHS, USERS, enforce, explain, left, open_shop
from support.prune_facts import CLUSTER

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def shop(url):
    with open_shop(url) as shop:
        yield shop


@on_both_databases
def test_caps_hold_for_each_user_and_for_the_disk_whoever_they_are(shop):
    hold = timedelta(hours=1)
    enforce(shop, hold=hold, user_count=1)
    assert shop.act().moved_count == 4
    assert all(user.names() == EPOCHS[1:] for user in shop.users.values())
    shop.wait(5)
    enforce(shop, hold=hold, filesystem_count=2)
    assert shop.act().moved_count == 2
    assert left(shop) == {"ann": 3, "bob": 5, "cid": 5, "dan": 5}
    shop.wait(5)
    enforce(shop, hold=hold, cycle_count=4)
    assert shop.act().moved_count == 4
    assert sum(left(shop).values()) == 14
    shop.wait(5)
    enforce(shop, hold=hold)
    shop.act()
    held = shop.memory.pruned.held.count
    assert held == sum(len(user.trashed()) for user in shop.users.values()) == 16
    shop.wait(120)
    assert shop.act().deleted_count == 16
    assert shop.memory.pruned.held.count == 0
    assert {entry.outcome for entry in shop.audit(audit_entries.EMPTY)} == {"deleted"}
    assert [entry for entry in shop.audit() if entry.finished_at is None] == []


@on_both_databases
def test_failures_that_users_cause_stop_these_users_and_nobody_else(shop):
    ann, bob, cid, dan = shop.users.values()
    enforce(shop, error_count=2)
    for user in (ann, bob, cid):
        user.spoil()
    done = shop.act()
    assert (done.moved_count, done.failed_count) == (4, 3)  # dan waits for nobody
    for _ in range(3):
        shop.wait(5)
        shop.act()
    for user in (ann, bob, cid):
        assert [outcome.partition(":")[0] for outcome in user.outcomes()] == ["failed", "failed"]
        assert "circuit breaker" in explain(shop, user)
    pruned = shop.memory.pruned
    assert (pruned.paused_user_count, pruned.is_breaker_open) == (3, False)
    assert pruned.operations[PruneAction("prune", "failed", "permission")] == 6
    dan.save_more(7)
    shop.wait(65)
    assert shop.act().moved_count == 1
    for user in (ann, bob, cid):
        user.repair()
    shop.wait(7 * 60)
    shop.act()
    assert left(shop) == dict.fromkeys(USERS, 2)


@pytest.mark.parametrize(
    ("outcome", "cause", "is_everyone_stopped"),
    [
        ("failed: the file system failed to read or write", "broken", True),
        ("failed: the file system is read-only", "read-only", True),
        ("failed: cut off", "cut-off", True),
        ("failed: it has no permission", "permission", False),
        ("failed: a directory of its path is none any more", "changed", False),
        ("refused: .ckptd-trash is not a private directory", "foreign", False),
        ("refused: it has changed", "changed", False),
        ("refused: its manifest is not one of ckptd", "unreadable", False),
        ("refused: odd", "other", False),
    ],
)
def test_only_trouble_of_the_site_with_several_users_stops_all(outcome, cause, is_everyone_stopped):
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def failed(uid):
        run = RunKey(CLUSTER, uid, f"/scratch/{uid}")
        entry = audit_entries.intend(audit_entries.PRUNE, run, "x", act_id="a", actor="d", now=now)
        return replace(entry, outcome=outcome, finished_at=now, details={"cause": cause})

    caps = Caps(error_count=3)
    found = circuit_breaker.check([failed(uid) for uid in (1, 2, 3)], caps, now)
    assert (found.everyone is not None, dict(found.users)) == (is_everyone_stopped, {})
    assert circuit_breaker.check([failed(1)] * 9, caps, now).everyone is None


def test_three_users_with_hard_links_stop_nobody(shop):
    enforce(shop)
    ann, bob, cid, dan = shop.users.values()
    for user in (ann, bob, cid):
        user.link(1)
    shop.act()
    assert left(shop) == {"ann": 3, "bob": 3, "cid": 3, "dan": 2}
    assert not shop.memory.pruned.is_breaker_open
    dan.save_more(7)
    shop.wait(65)
    assert shop.act().moved_count == 1


def test_users_who_end_their_own_child_stop_their_runs_and_not_those_of_others(shop):
    class Dying:
        def __init__(self, agent, uids):
            self.agent = agent
            self.uids = uids
            self.asked = []

        def run(self, batches):
            if not batches or batches[0].operation != "move_aside":
                return self.agent.run(batches)
            self.asked.append(batches[0].uid)
            if batches[0].uid not in self.uids:
                return self.agent.run(batches)
            return [[Unknown(what="agent", reason="its child ended")] * len(batch.items) for batch in batches]

    enforce(shop, user_count=1)
    ann, bob, cid, _ = shop.users.values()
    agent = shop.agent
    shop.parts = replace(shop.parts, agent=Dying(agent, {ann.uid}))
    shop.act()
    assert left(shop) == {"ann": 6, "bob": 5, "cid": 5, "dan": 5}
    dying = Dying(agent, {bob.uid, cid.uid})
    shop.parts = replace(shop.parts, agent=dying)
    shop.wait(30)
    assert shop.act().moved_count == 0  # of several users nothing was heard: it may be the disk
    assert dying.asked == [bob.uid, cid.uid]  # ann is recovered after all others


class Stopping:
    """An agent whose children some users stop while they work on trashes: their requests last until the deadline."""

    def __init__(self, agent, uids):
        self.agent, self.uids, self.asked = agent, uids, []

    def run(self, batches):
        if not batches or batches[0].operation not in trash_operations.OPERATIONS:
            return self.agent.run(batches)
        self.asked.append([batch.uid for batch in batches])
        answers = self.agent.run([batch for batch in batches if batch.uid not in self.uids])
        return [[SILENCE] * len(batch.items) if batch.uid in self.uids else answers.pop(0) for batch in batches]

    def run_as_answered(self, batches):
        yield list(enumerate(self.run(batches)))


def test_users_who_stop_their_processes_delay_others_once_and_then_have_their_turns_last_and_ever_later(shop):
    enforce(shop, hold=timedelta(hours=1))
    shop.act()
    users = ann, bob, cid, dan = list(shop.users.values())
    shop.memory = step.PruneSlice()
    stopping = Stopping(shop.agent, {ann.uid, bob.uid, cid.uid})
    shop.parts = replace(shop.parts, agent=stopping)

    def act_after(minutes):
        """Return who kept the step waiting, and whether dan had to wait for them."""
        shop.wait(minutes)
        stopping.asked.clear()
        shop.act()
        silent = [stopping.uids.intersection(asked) for asked in stopping.asked]
        first = next((place for place, uids in enumerate(silent) if uids), len(silent))
        is_delayed = any(dan.uid in asked for asked in stopping.asked[first:])
        return sorted(uid for uids in silent for uid in uids), is_delayed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner_turns, "AT_ONCE", 1)
        assert act_after(1) == ([ann.uid, bob.uid], False), "the step waits for no third one"
        assert act_after(1) == ([cid.uid], True)
        assert act_after(5) == ([], False)
        assert act_after(10) == ([ann.uid, bob.uid], False)
        assert act_after(1) == ([cid.uid], False)
        assert act_after(57) == ([], False)
        assert dan.trashed() == []
        for minutes in (10, 361, 24 * 60 + 1):
            assert act_after(minutes) == ([ann.uid, bob.uid], False)
            assert act_after(1) == ([cid.uid], False)
            assert act_after(minutes - 10) == ([], False)
            shop.wait(9)
    stopping.uids = set()
    act_after(24 * 60)
    assert shop.memory.recovered.runs == {user.run for user in users}
    act_after(1)
    assert [user.trashed() for user in users] == [[], [], [], []]


def test_users_of_many_trashes_who_stop_their_processes_are_waited_for_once(shop):
    ann, bob, _, _ = shop.users.values()
    stopping = Stopping(shop.agent, {ann.uid})
    hands = PruneParts(shop.store, stopping, shop.site, CLUSTER)
    many = [RunKey(CLUSTER, ann.uid, f"{ann.directory}/{number}") for number in range(200)]
    assert recover_runs(hands, [*many, bob.run], shop.now) == set(many)
    assert sum(asked.count(ann.uid) for asked in stopping.asked) == 1


def test_far_more_entries_of_one_user_than_a_step_deletes_delay_nobody_elses(shop):
    enforce(shop, hold=timedelta(hours=1))
    ann, _, cid, _ = shop.users.values()
    shop.act()
    entry = shop.audit(audit_entries.PRUNE)[0]
    due = entry.begun_at
    # the files are the same beside PostgreSQL, where the rows are what matters
    count = 5 * trash_expiry.USER_LIMIT
    for number in range(count):
        plant(ann, f"0000-{number:04d}", due, is_hollow=number % 2 == 0)
    for number in range(500):  # and as many as she likes under names that are on record
        act_id = f"1111-{number:04d}"
        plant(ann, act_id, due, is_hollow=False)
        details = {**entry.details, "act_id": act_id}
        shop.store.audit.record(replace(entry, audit_id=None, run=ann.run, details=details, plan_id=None))
    shop.memory = step.PruneSlice()
    for _ in range(10):  # hers takes several turns, and theirs none
        shop.wait(1)
        shop.act()
        assert cid.run in shop.memory.recovered.runs
        if ann.run in shop.memory.recovered.runs:
            break
    before = len(shop.audit())
    shop.wait(120)
    began = time.monotonic()
    shop.act()
    assert time.monotonic() - began < trash_expiry.STEP_SECONDS
    assert cid.trashed() == []
    rows = shop.audit()[before:]
    assert {entry.outcome for entry in rows if entry.run == cid.run} == {"deleted"}
    assert (
        sum(entry.run == ann.run and entry.action == audit_entries.EMPTY for entry in rows) <= trash_expiry.USER_LIMIT
    )
    assert sum(entry.run == ann.run and entry.action == audit_entries.SWEEP for entry in rows) == 1
    assert len(ann.trashed()) > count - 500


def plant(user, name, moved_at, *, is_hollow):
    """Put an entry into a user's trash, as its owner could write it."""
    entry = user.directory.parent / ".ckptd-trash" / name
    entry.mkdir(mode=0o700)
    (entry / "0").write_text("x")
    status = (entry / "0").stat()
    thing = ["", "file", status.st_dev, status.st_ino, 1, status.st_mtime_ns]
    document = {
        "version": 1,
        "act_id": name,
        "directory": "ckpts",
        "path": f"{user.directory}/planted",
        "uid": user.uid,
        "moved_at": moved_at.isoformat(),
        "reasons": [],
        "items": [{"name": "planted", "things": [thing]}],
    }
    if is_hollow:
        (entry / "0").unlink()
    (entry / "manifest.json").write_text(json.dumps(document))
    (entry / "moved").touch()
    for path in (entry, *entry.iterdir()):
        os.chown(path, user.uid, -1)
