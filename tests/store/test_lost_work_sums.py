"""Sums of lost work: by user, account, partition, cause and rule, with bounds and the attempts nothing is known of."""

from dataclasses import replace

import pytest

from ckptd.core.health.flag_changes import FlagChanges
from ckptd.core.model import EndCause, Finding, Flag, RunKey, Severity
from ckptd.core.runs.lost_work_totals import NO_RULE, GroupedBy, LossTotal
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job
from support.recorded import locate, poll, scan

MINUTE = 60.0


def make_wide_job(job_id, **changes):
    return make_job(job_id, node_count=2, cpu_count=8, gpu_count=1, partition="main", **changes)


def end(job, minutes, state=STATES.TIMEOUT):
    return replace(job, state=state, ends_at=at(minutes))


def fill_ledger(store):
    """Jobs of two users end at 12:20: one saved at 12:04, one saved nothing, and where one saves is not known."""
    saved = make_wide_job(1, account="lab")
    unsaved = make_wide_job(2, account="lab", user="bob", uid=1001)
    unlocated = make_wide_job(3, account="physics")
    poll(store, 0, saved, unsaved, unlocated)
    locate(store, 1, RUN)
    locate(store, 2, RunKey(CLUSTER, 1001, "/data/bob/run"))
    scan(store, 5, make_checkpoint(written=4))
    poll(store, 21, end(saved, 20), end(unsaved, 20, STATES.NODE_FAIL), end(unlocated, 20))


def minutes(totals):
    return {
        name: (each.seconds / MINUTE, each.high_seconds / MINUTE, each.unknown_count) for name, each in totals.items()
    }


@pytest.mark.filled_by(record=fill_ledger)
def test_what_may_have_been_saved_is_a_bound_and_its_attempts_are_counted(store):
    sums = store.lost_work_sums
    assert minutes(sums.sum_by(GroupedBy.USER, at(0))) == {"alice": (16, 37, 1), "bob": (21, 21, 0)}
    assert minutes(sums.sum_by(GroupedBy.ACCOUNT, at(0))) == {"lab": (37, 37, 0), "physics": (0, 21, 1)}
    assert minutes(sums.sum_by(GroupedBy.PARTITION, at(0))) == {"main": (37, 58, 1)}
    assert minutes(sums.sum_by(GroupedBy.CAUSE, at(0))) == {
        EndCause.TIME_LIMIT: (16, 37, 1),
        EndCause.NODE_FAILURE: (21, 21, 0),
    }


@pytest.mark.filled_by(record=fill_ledger)
def test_sums_are_multiplied_by_the_nodes_processors_and_gpus_of_each_attempt(store):
    found = store.lost_work_sums.sum_by(GroupedBy.ACCOUNT, at(0))["physics"]
    most = 21 * MINUTE
    assert found == LossTotal(
        attempt_count=1,
        unknown_count=1,
        high_seconds=most,
        high_node_seconds=2 * most,
        high_cpu_seconds=8 * most,
        high_gpu_seconds=most,
    )


@pytest.mark.filled_by(record=fill_ledger)
def test_attempts_that_ended_before_or_on_another_cluster_or_of_another_user_are_left_out(store):
    sums = store.lost_work_sums
    assert sums.sum_by(GroupedBy.USER, at(20)).keys() == {"alice", "bob"}
    assert sums.sum_by(GroupedBy.USER, at(20.5)) == {}
    assert sums.sum_by(GroupedBy.USER, at(0), cluster="other") == {}
    assert sums.sum_by(GroupedBy.USER, at(0), cluster=CLUSTER, user="bob").keys() == {"bob"}


def open_flag(store, rule, opened, *, resolved=None, job_id=1):
    finding = Finding(
        rule=rule, severity=Severity.WARNING, run=RUN, job_id=job_id, user="alice", evidence={}, audience=("user",)
    )
    (flag,) = store.flags.record(FlagChanges(opened=(Flag(finding=finding, opened_at=at(opened)),)), at(opened))
    if resolved is not None:
        store.flags.record(FlagChanges(resolved=(replace(flag, resolved_at=at(resolved)),)), at(resolved))


def fill_chain(store):
    """Record one run of three jobs, which run from 12:00, 12:20 and 12:40 for ten minutes each and save nothing."""
    for job_id in (1, 2, 3):
        begin = 20 * (job_id - 1)
        job = make_wide_job(job_id, started_at=at(begin))
        poll(store, begin, job)
        locate(store, job_id, RUN, begin)
        poll(store, begin + 10, end(job, begin + 10))


def attempts_by_rule(store, since=0):
    found = store.lost_work_sums.sum_by(GroupedBy.RULE, at(since))
    return {rule: (each.attempt_count, each.seconds / MINUTE) for rule, each in found.items()}


@pytest.mark.filled_by(record=fill_chain)
def test_an_attempt_counts_once_under_each_rule_that_had_a_flag_while_it_ran(store):
    open_flag(store, "at-risk", 5, resolved=7)
    open_flag(store, "at-risk", 8, resolved=10)
    open_flag(store, "no-room", 25, job_id=None)
    open_flag(store, "at-risk", 25, job_id=2)
    assert attempts_by_rule(store) == {"at-risk": (2, 20), "no-room": (2, 20)}


@pytest.mark.filled_by(record=fill_chain)
def test_a_flag_about_a_restart_counts_for_the_attempt_whose_work_was_not_resumed(store):
    open_flag(store, "not-resuming", 45, job_id=3)
    open_flag(store, "restarted-without-checkpoint", 21, resolved=29, job_id=2)
    assert attempts_by_rule(store) == {
        "not-resuming": (1, 10),
        "restarted-without-checkpoint": (1, 10),
        NO_RULE: (1, 10),
    }
    assert attempts_by_rule(store, since=35) == {NO_RULE: (1, 10)}


@pytest.mark.filled_by(record=fill_chain)
def test_a_flag_that_was_resolved_before_an_attempt_or_of_another_job_is_not_about_it(store):
    open_flag(store, "no-room", 1, resolved=15, job_id=None)
    open_flag(store, "at-risk", 21, job_id=3, resolved=31)
    assert attempts_by_rule(store) == {"no-room": (1, 10), NO_RULE: (2, 20)}
