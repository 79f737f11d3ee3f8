"""The daemon's act on real directories, through a real agent, with a real record."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.checkpoints.agent import trash_client
from ckptd.core.model import Level, Unknown
from ckptd.core.retention import Caps, KeepLast, PolicyMode
from ckptd.steps.prune import audit_entries, step
from support.prune_facts import EPOCHS, MINUTE, START, UID, make_policy, make_site, own


def test_what_no_rule_keeps_is_moved_aside_with_its_intent_its_outcome_and_its_record(shop):
    done = shop.act()
    assert (done.moved_count, done.failed_count) == (4, 0)
    assert shop.names() == EPOCHS[4:]
    prunes = shop.audit(audit_entries.PRUNE)
    assert [entry.target for entry in prunes] == [str(shop.directory / name) for name in EPOCHS[:4]]
    assert {entry.outcome for entry in prunes} == {"moved"}
    assert {entry.actor for entry in prunes} == {"policy tight"}
    assert all(entry.reasons and entry.plan_id for entry in prunes)
    assert shop.trashed() == sorted(entry.details["act_id"] for entry in prunes)
    (plan,) = shop.audit(audit_entries.PLAN)
    assert (plan.plan_id, plan.details["remove"]) == (prunes[0].plan_id, 4)
    assert {name for name, record in shop.record().items() if record.pruned_at} == set(EPOCHS[:4])


def test_a_second_step_finds_nothing_more_to_do(shop):
    shop.act()
    before = len(shop.audit())
    shop.wait(5)
    assert shop.act() == step.PruneResult()
    assert len(shop.audit()) == before


def test_a_save_that_another_scan_records_while_a_step_plans_keeps_nothing_from_being_pruned(shop):
    scan = shop.parts.runner.scan

    def scan_and_look(parts, state, runs, reread, now):
        found = scan(parts, state, runs, reread, now)
        if runs and not saved:
            saved.append(shop.save("epoch_7.npz", epoch=7))
            shop.wait(2)
            shop.state.watchlist.hasten(runs, shop.now)
            shop.look()
        return found

    saved = []
    shop.parts = replace(shop.parts, runner=replace(shop.parts.runner, scan=scan_and_look))
    assert shop.act().moved_count == 5
    assert saved
    assert shop.names() == ["epoch_6.npz", "epoch_7.npz"]


@pytest.mark.parametrize("mode", [PolicyMode.PLAN, PolicyMode.OFF])
def test_nothing_is_touched_unless_the_policy_enforces(shop, mode):
    shop.site = make_site(shop.root, make_policy(mode=mode))
    assert shop.act() == step.PruneResult()
    assert shop.names() == EPOCHS
    assert shop.audit() == []


def test_a_run_whose_jobs_have_ended_is_looked_at_again_and_pruned(shop):
    shop.end_jobs()
    assert shop.run not in shop.state.watchlist
    shop.wait(24 * 60)
    assert shop.act().moved_count == 4


def test_nothing_goes_while_the_queue_does_not_answer(shop):
    shop.queue.read_queue = lambda now: Unknown(what="queue", reason="down")
    shop.wait(120)
    assert shop.act() == step.PruneResult()
    assert shop.names() == EPOCHS


def test_nothing_goes_from_a_directory_that_cannot_be_read(shop):
    os.chmod(shop.directory, 0)
    assert shop.act() == step.PruneResult()
    os.chmod(shop.directory, 0o755)
    assert shop.names() == EPOCHS


def test_a_file_that_changes_after_the_last_look_is_seen_before_anything_is_moved(shop):
    shop.look()
    path = shop.save("epoch_1.npz", epoch=1, more=1)
    shop.act()
    assert path.exists()


def test_what_is_pinned_stays(shop):
    shop.store.checkpoints.set_pinned(shop.run, str(shop.directory / "epoch_1.npz"), is_pinned=True)
    shop.act()
    assert shop.names() == [EPOCHS[0], *EPOCHS[4:]]


def test_what_the_owner_wishes_stays(shop):
    (shop.directory.parent / ".ckptd.toml").write_text("keep = { last = 5 }\n")
    shop.act()
    assert shop.names() == EPOCHS[1:]


def test_the_owners_file_is_heard_though_the_comment_names_the_directory(shop):
    (shop.directory.parent / ".ckptd.toml").write_text("keep = { last = 4 }\n")
    shop.end_jobs()
    shop.wait(5)
    shop.start_job(2)
    shop.train([7])  # until then, it may have resumed from any of them
    shop.wait(90)
    shop.act()
    assert shop.names() == [*EPOCHS[3:], "epoch_7.npz"]


def test_a_job_that_works_elsewhere_without_such_a_file_takes_no_wish_back(shop):
    (shop.directory.parent / ".ckptd.toml").write_text("keep = { last = 4 }\n")
    elsewhere = shop.root / "elsewhere"
    elsewhere.mkdir()
    for number, work_dir in ((2, shop.directory.parent), (3, elsewhere)):
        shop.end_jobs()
        shop.wait(5)
        shop.start_job(number, work_dir=PurePosixPath(work_dir), comment=f"ckpt={shop.directory}")
    shop.train([7])
    shop.wait(90)
    shop.act()
    assert shop.names() == [*EPOCHS[3:], "epoch_7.npz"]


def test_a_cap_lets_the_rest_wait_and_the_oldest_go_first(shop):
    shop.site = replace(shop.site, caps=Caps(cycle_count=1))
    shop.act()
    assert shop.names() == EPOCHS[1:]
    shop.wait(5)
    shop.act()
    assert shop.names() == EPOCHS[2:]


def test_failures_are_recorded_and_brake(shop):
    shop.directory.chmod(0o555)
    done = shop.act()
    assert (done.moved_count, done.failed_count) == (0, 1)
    (failed,) = shop.audit(audit_entries.PRUNE)
    assert failed.outcome.startswith("failed: its owner has no permission to change one of its directories")
    for _ in range(3):
        shop.wait(5)
        shop.act()
    assert len(shop.audit(audit_entries.PRUNE)) == 3  # then the brake holds
    shop.directory.chmod(0o755)
    shop.wait(5)
    shop.act()
    assert shop.names() == EPOCHS
    shop.wait(6 * 60)
    shop.act()
    assert shop.names() == EPOCHS[4:]


def test_what_is_refused_for_what_its_owner_did_with_it_holds_up_nothing_else_and_waits_alone(shop):
    os.link(shop.directory / "epoch_1.npz", shop.root / "second-name")
    done = shop.act()
    assert (done.moved_count, done.failed_count) == (3, 1)
    assert shop.names() == [EPOCHS[0], *EPOCHS[4:]]
    for _ in range(4):
        shop.wait(5)
        assert shop.act() == step.PruneResult()
    assert shop.memory.pruned.paused_user_count == 0
    assert [entry.outcome.partition(":")[0] for entry in shop.audit(audit_entries.PRUNE)] == ["refused", *["moved"] * 3]
    os.unlink(shop.root / "second-name")
    shop.wait(6 * 60)
    assert shop.act().moved_count == 1


def test_the_newest_is_read_whole_first_where_the_policy_asks_for_it(shop):
    shop.site = make_site(shop.root, make_policy(verify=Level.FULL))
    assert shop.act().moved_count == 4
    newest = shop.record()["epoch_6.npz"]
    assert newest.verified_full_at == shop.now
    assert newest.checkpoint.level is Level.FULL


def test_a_newest_one_that_only_looks_whole_lets_nothing_older_go(shop):
    path = shop.directory / "epoch_6.npz"
    before = os.stat(path)
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF  # within the array's bytes: only its checksum tells
    shop.wait(30)
    path = shop.directory / "epoch_7.npz"
    path.write_bytes(data)
    os.chown(path, UID, -1)
    os.utime(path, (shop.now.timestamp(), shop.now.timestamp()))
    shop.wait(1)
    shop.look()
    shop.wait(90)
    shop.site = make_site(shop.root, make_policy(KeepLast(1), verify=Level.FULL))
    shop.act()
    shop.wait(5)
    shop.act()
    assert before.st_size == len(data)
    assert shop.record()["epoch_7.npz"].checkpoint.state == "damaged"
    assert {"epoch_6.npz", "epoch_7.npz"} <= set(shop.names())


def flip(path):
    """Flip two bytes of an array, and give the file back the time at which it was written."""
    before = os.stat(path)
    with path.open("r+b") as file:
        file.seek(200)
        data = file.read(2)
        file.seek(200)
        file.write(bytes(byte ^ 0xFF for byte in data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def verify_newest(shop):
    """Let a step that only plans read every byte of the newest."""
    shop.site = make_site(shop.root, make_policy(KeepLast(1), verify=Level.FULL, mode=PolicyMode.PLAN))
    shop.act()
    assert shop.record()["epoch_6.npz"].verified_full_at == shop.now
    shop.wait(5)


@pytest.mark.parametrize("is_scanned_before", [True, False])
def test_when_bytes_of_the_verified_newest_are_flipped_and_its_time_set_back_nothing_older_goes(
    shop, monkeypatch, is_scanned_before
):
    verify_newest(shop)
    flip(shop.directory / "epoch_6.npz")
    shop.wait(60)
    if not is_scanned_before:
        monkeypatch.setattr(shop, "look", shop.poll)
    shop.site = make_site(shop.root, make_policy(KeepLast(1), verify=Level.FULL))
    assert shop.act().moved_count == 0
    assert shop.names() == EPOCHS
    for _ in range(3):
        shop.wait(5)
        shop.act()
    assert shop.record()["epoch_6.npz"].checkpoint.state == "damaged"
    assert {"epoch_5.npz", "epoch_6.npz"} <= set(shop.names())


def test_a_verdict_older_than_the_policy_allows_is_renewed_before_anything_older_goes(shop):
    verify_newest(shop)
    verified_at = shop.record()["epoch_6.npz"].verified_full_at
    shop.wait(25 * 60)
    shop.look()
    assert shop.record()["epoch_6.npz"].verified_full_at == verified_at  # a scan reads nothing again
    shop.site = make_site(shop.root, make_policy(verify=Level.FULL))
    assert shop.act().moved_count == 4
    assert shop.record()["epoch_6.npz"].verified_full_at == shop.now


def test_nothing_goes_because_of_an_old_verdict_that_could_not_be_renewed(shop, monkeypatch):
    verify_newest(shop)
    monkeypatch.setattr(trash_client, "verify", lambda *_: Unknown(what="agent", reason="it did not answer in time"))
    shop.wait(25 * 60)
    shop.site = make_site(shop.root, make_policy(verify=Level.FULL))
    assert shop.act() == step.PruneResult()
    shop.site = make_site(shop.root, make_policy(verify=Level.FULL, verify_age=48 * 60 * MINUTE))
    shop.wait(5)
    assert shop.act().moved_count == 4


@pytest.mark.parametrize(
    ("mode", "is_clock_right"),
    [
        (PolicyMode.ENFORCE, True),
        (PolicyMode.PLAN, True),
        (PolicyMode.OFF, True),
        (PolicyMode.ENFORCE, False),
        (None, False),
    ],
)
def test_what_was_cut_off_is_recovered_in_every_mode_and_by_any_clock(shop, mode, is_clock_right):
    shop.site = make_site(shop.root, make_policy(mode=mode)) if mode else replace(shop.site, matches=())
    if not is_clock_right:
        shop.parts = replace(shop.parts, read_clock=lambda: shop.now - timedelta(days=1))
    cut_off = audit_entries.intend(
        audit_entries.PRUNE, shop.run, "/x", act_id="cut-off", actor="policy tight", now=shop.now
    )
    shop.store.audit.record(cut_off)
    shop.act()
    assert shop.audit(audit_entries.PRUNE)[0].outcome == "undone: cut off"


def test_a_run_of_which_nothing_may_go_is_read_again_only_when_it_changed_or_its_turn_comes(shop, monkeypatch):
    asked = []
    read = shop.store.prune_records.read
    monkeypatch.setattr(
        shop.store.prune_records, "read", lambda cluster, keys: asked.append(list(keys)) or read(cluster, keys)
    )
    shop.site = make_site(shop.root, make_policy(KeepLast(10)))
    shop.act()
    shop.wait(1)
    assert shop.act(shop.now - START) == step.PruneResult()
    assert asked == [[shop.run], []]
    shop.store.checkpoints.set_pinned(shop.run, str(shop.directory / "epoch_1.npz"), is_pinned=True)
    step.act(shop.parts, shop.state, shop.site, shop.memory, shop.now, shop.now - START)
    assert asked[2:] == [[shop.run]]
    shop.wait(45)
    step.act(shop.parts, shop.state, shop.site, shop.memory, shop.now, shop.now - START)
    assert asked[3:] == [[shop.run]]


def test_what_only_time_was_wanting_for_goes_within_nine_steps_of_its_time(shop):
    shop.site = make_site(shop.root, make_policy(min_age=600 * MINUTE), interval=MINUTE)
    shop.end_jobs()
    assert shop.act().moved_count == 0
    shop.wait(600)
    moved = []
    for _ in range(9):
        shop.wait(1)
        elapsed = shop.now - START
        done = step.act(shop.parts, shop.state, shop.site, shop.memory, shop.now, elapsed)
        moved.append(done.moved_count)
    assert sum(moved) == 4


def test_another_policy_is_heard_at_once(shop):
    shop.site = make_site(shop.root, make_policy(KeepLast(10)))
    shop.act()
    shop.site = make_site(shop.root, make_policy(KeepLast(3)))
    shop.wait(1)
    assert shop.act().moved_count == 3


def test_the_share_of_a_file_system_counts_runs_from_which_nothing_goes(shop):
    other = shop.root / "home/other"
    other.mkdir()
    own(other)
    first = shop.directory
    shop.start_job(2, comment="ckpt=other")
    shop.directory = other
    shop.train(range(1, 3))
    shop.directory = first
    shop.wait(90)
    shop.site = make_site(shop.root, caps=Caps(filesystem_share=0.4))
    assert shop.act().moved_count == 3  # of 8 on the file system, not 2 of the 6 of the first run


def test_two_minutes_later_the_first_run_in_doubt_is_not_asked_again_but_others_are_pruned(shop, monkeypatch):
    asked = []
    recover = trash_client.recover

    def hang(agent, places, deadline):
        asked.append(len(places))
        return [Unknown(what="agent", reason="it did not answer in time") for _ in places]

    monkeypatch.setattr(trash_client, "recover", hang)
    assert shop.act() == step.PruneResult()
    assert shop.memory.pruned.unconfirmed_run_count == 1
    shop.wait(2)
    shop.act()
    assert len(asked) == 1
    shop.wait(10)
    shop.act()
    assert len(asked) == 2
    monkeypatch.setattr(trash_client, "recover", recover)
    shop.wait(10)
    assert shop.act() == step.PruneResult()  # the second pause is twice as long
    shop.wait(10)
    assert shop.act().moved_count == 4
    assert shop.memory.pruned.unconfirmed_run_count == 0
