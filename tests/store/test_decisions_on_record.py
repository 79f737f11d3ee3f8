"""Flags and acts as they come back from the record: over both databases."""

from dataclasses import replace

import pytest

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import RunKey, Severity
from ckptd.core.model.records import AuditEntry
from ckptd.store.database_errors import UnknownRunError
from store.observing import HOSTILE, begin_run, make_flag, poll, scan
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate


@pytest.mark.filled_by(record=begin_run)
def test_a_flag_opens_worsens_and_resolves(store):
    (opened,) = store.flags.record(FlagChanges(opened=(make_flag(),)), at(1))
    assert store.flags.list_open(CLUSTER) == (opened,)
    assert replace(opened, flag_id=None) == make_flag()
    worse = replace(opened, finding=make_flag(severity=Severity.CRITICAL, seconds=9).finding, worsened_at=at(2))
    store.flags.record(FlagChanges(worsened=(worse,)), at(2))
    assert store.flags.list_open(CLUSTER) == (worse,)
    newer = replace(worse, finding=make_flag(severity=Severity.CRITICAL, seconds=5).finding)
    store.flags.record(FlagChanges(updated=(newer,)), at(3))
    assert store.flags.list_open(CLUSTER) == (newer,)
    store.flags.record(FlagChanges(resolved=(replace(newer, resolved_at=at(4)),)), at(4))
    assert store.flags.list_open(CLUSTER) == ()
    assert [flag.resolved_at for flag in store.flags.read(include_resolved=True)] == [at(4)]


@pytest.mark.filled_by(record=begin_run)
def test_only_flags_that_changed_are_decoded_again(store):
    first, second = store.flags.record(FlagChanges(opened=(make_flag(), make_flag(job_id=7))), at(1))
    (kept, changing), of_all = store.flags.read(CLUSTER), store.flags.read()
    assert of_all[0] is kept
    assert of_all[1] is changing
    worse = replace(second, finding=replace(second.finding, evidence={"seconds": 9}), worsened_at=at(2))
    store.flags.record(FlagChanges(worsened=(worse,)), at(2))
    for again in (store.flags.read(CLUSTER), store.flags.read()):
        assert again == (first, worse)
        assert again[0] is kept


@pytest.mark.filled_by(record=begin_run)
def test_a_flag_of_a_run_that_is_not_on_record_leaves_nothing_of_its_transaction(store):
    changes = FlagChanges(opened=(make_flag(), make_flag(RunKey(CLUSTER, 1, "/none"))))
    with pytest.raises(UnknownRunError, match="not on record"):
        store.flags.record(changes, at(1))
    assert store.flags.read(include_resolved=True) == ()


@pytest.mark.filled_by(record=begin_run)
def test_a_run_with_an_open_flag_stays_active_after_its_last_job(store):
    (flag,) = store.flags.record(FlagChanges(opened=(make_flag(),)), at(1))
    poll(store, 5, make_job(1, STATES.COMPLETED, ends_at=at(4)))
    (history,) = store.histories.read(CLUSTER, active_only=True)
    assert history.jobs == ()
    store.flags.record(FlagChanges(resolved=(flag,)), at(6))
    assert store.histories.read(CLUSTER, active_only=True) == []


def test_a_listing_shows_the_newest_complete_checkpoint_and_the_flags(store):
    poll(store, 0, make_job(1), make_job(2, user="bob", uid=2000))
    locate(store, 1)
    scan(store, 3, make_checkpoint("a", 1, step=10, epoch=1), make_checkpoint("b", 2, step=20, epoch=2))
    store.flags.record(FlagChanges(opened=(make_flag(), make_flag(job_id=7))), at(1))
    first, second = store.jobs.list_open(at(4))
    assert (first.directory, first.located_by, first.step, first.epoch) == (RUN.directory, "comment", 20, 2)
    assert (first.newest_checkpoint_at, first.checkpoint_count, first.checkpoint_bytes) == (at(2), 2, 20)
    assert first.flags == ("at-risk",)
    assert (second.directory, second.newest_checkpoint_at, second.checkpoint_count, second.flags) == (None, None, 0, ())
    assert [row.user for row in store.jobs.list_open(at(4), user="bob")] == ["bob"]
    assert [row.key.job_id for row in store.jobs.list_open(at(4), flagged_only=True)] == [1]


@pytest.mark.filled_by(record=begin_run)
def test_an_act_is_on_record_before_it_is_finished(store):
    entry = AuditEntry(
        cluster=CLUSTER,
        actor="policy default",
        action="move-aside",
        target="/data/" + HOSTILE,
        run=RUN,
        plan_id="p1",
        reasons=("no rule keeps it",),
        details={"size_bytes": 10},
        begun_at=at(1),
    )
    number = store.audit.record(entry)
    assert store.audit.list_newest(CLUSTER, unfinished_only=True) == (replace(entry, audit_id=number),)
    store.audit.finish(number, "moved", at(2))
    assert store.audit.list_newest(CLUSTER, unfinished_only=True) == ()
    assert [(each.outcome, each.finished_at) for each in store.audit.list_newest(CLUSTER, run=RUN)] == [
        ("moved", at(2))
    ]


@pytest.mark.filled_by(record=begin_run)
def test_an_act_is_found_by_its_name_and_counted_by_its_actor(store):
    entry = AuditEntry(
        cluster=CLUSTER, actor="actions", action="hold-job", target="job 1", run=RUN, plan_id="a/1", begun_at=at(1)
    )
    store.audit.record(entry)
    assert store.audit.find_recorded(CLUSTER, ["a/1", "a/2"]) == {"a/1"}
    assert store.audit.find_recorded("other", ["a/1"]) == store.audit.find_recorded(CLUSTER, []) == frozenset()
    assert store.audit.count_by_owner(CLUSTER, "actions", at(0)) == {("hold-job", RUN.uid): 1}
    assert store.audit.count_by_owner(CLUSTER, "actions", at(2)) == {}
    assert store.audit.count_by_owner(CLUSTER, "alice", at(0)) == {}


@pytest.mark.filled_by(record=begin_run)
def test_how_acts_on_a_run_went_is_told_by_their_names_and_kind(store):
    acts = {
        "a/0": ("resubmit-job", "failed: no"),
        "a/1": ("resubmit-job", None),
        "a/2": ("hold-job", "done"),
    }
    for name, (action, outcome) in acts.items():
        entry = AuditEntry(
            cluster=CLUSTER, actor="actions", action=action, target="job 1", run=RUN, plan_id=name, begun_at=at(1)
        )
        audit_id = store.audit.record(entry)
        if outcome:
            store.audit.finish(audit_id, outcome, at(2))
    assert store.audit.read_outcomes(CLUSTER, "resubmit-job", [RUN]) == {RUN: {"a/0": "failed: no", "a/1": None}}
    assert (
        store.audit.read_outcomes(CLUSTER, "signal-job", [RUN])
        == store.audit.read_outcomes("other", "hold-job", [RUN])
        == {}
    )
    assert store.audit.read_outcomes(CLUSTER, "resubmit-job", []) == {}
