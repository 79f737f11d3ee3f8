"""What ran, ended and was forgotten by slurmctld while the daemon was away is on record once it is back."""

import contextlib
from dataclasses import replace

import pytest

from ckptd.core.model import EndCause, Unknown
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.steps import backfill, missed_jobs, poll
from ckptd.steps.missed_jobs import MissedJobs
from ckptd.store.engine import StoreError
from steps.daemon_lives import OTHERS
from steps.databases import on_both_databases
from steps.past_jobs import ALL, DOWN, FOURTH, THREE, attempts, came_and_went
from support.queue_facts import CLUSTER, RUN, STATES, at, make_job, make_past

NONE = Unknown(what="accounting", reason=f"{FailureReason.MISSING}: this cluster keeps no accounting")


def count_executions(service):
    return sum(len(history.attempts) for history in service.parts.store.histories.read(CLUSTER)) - len(OTHERS)


@on_both_databases
def test_jobs_that_came_and_went_are_in_their_run_in_the_order_of_their_time(lives):
    second = came_and_went(lives)
    second.run(60, FOURTH)
    assert attempts(second) == ALL
    assert [(a.started_at, a.ended_at) for a in second.parts.store.histories.read(CLUSTER, [RUN])[0].attempts][1:4] == [
        (each.started_at, each.ended_at) for each in THREE
    ]
    assert second.parts.source.asked == [(at(-1), at(60))]


def test_a_job_that_runs_turns_out_to_be_a_restart(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts.source.past = DOWN
    second.run(60, FOURTH)
    assert attempts(second) == [(4, 0, None, None)]
    second.parts.source.past = THREE
    second.run(62, FOURTH)
    assert attempts(second)[0] == (2, 0, None, EndCause.REQUEUE)
    assert attempts(second)[1:] == ALL[2:]


def test_accounting_is_asked_once(lives):
    second = came_and_went(lives)
    for minutes in range(60, 70):
        second.run(minutes, FOURTH)
    third = lives(71)
    third.run(72, FOURTH)
    assert len(third.parts.source.asked) == 1
    assert attempts(third) == ALL


def test_a_first_start_asks_nothing_and_nor_does_one_that_is_told_not_to(lives):
    first = lives(0)
    first.parts.source.past = THREE
    first.run(0, make_job(1))
    second = lives(60)
    second.parts = replace(second.parts, backfill_window=None)
    second.run(60, FOURTH)
    assert first.parts.source.asked == []


def test_a_cluster_that_did_not_answer_for_long_is_caught_up_on_without_a_restart(lives):
    service = lives(0)
    service.run(0, make_job(1))
    service.parts.source.past = THREE
    service.run(60, make_job(1), FOURTH)
    assert {each[0] for each in attempts(service)} == {1, 2, 3, 4}


@pytest.mark.parametrize("refusal", [DOWN, NONE])
def test_while_accounting_does_not_tell_nothing_changes_and_a_restart_still_knows_what_to_ask(lives, refusal):
    second = came_and_went(lives)
    second.parts.source.past = refusal
    second.run(60, FOURTH)
    assert [each[0] for each in attempts(second)] == [1, 4]
    third = lives(64)
    third.parts.source.past = THREE
    third.run(65, FOURTH)
    assert attempts(third) == ALL


@on_both_databases
def test_restarts_that_were_missed_in_a_moment_are_filled_in_once_accounting_answers(lives):
    service = lives(0)
    service.parts.source.ended = DOWN
    service.parts.source.past = DOWN
    service.run(0, make_job(1))
    service.run(2, make_job(1, restart_count=2, submitted_at=at(1.5), started_at=at(1.6)))
    assert [each[:2] for each in attempts(service)] == [(1, 0), (1, 2)]
    later = lives(6)
    later.parts.source.past = (
        make_past(1, -1, 1, STATES.REQUEUED, submitted=-2),
        make_past(1, 1.1, 1.5, STATES.REQUEUED, submitted=1),
    )
    later.run(6, make_job(1, restart_count=2, submitted_at=at(1.5), started_at=at(1.6)))
    assert [each[:2] for each in attempts(later)] == [(1, 0), (1, 1), (1, 2)]


def test_what_slurmctld_sends_late_to_a_slurmdbd_that_was_down_is_not_missed(lives):
    second = came_and_went(lives)
    second.parts.source.past = DOWN
    second.run(60, FOURTH)
    second.parts.source.past = THREE[:2]
    second.run(62, FOURTH)
    second.parts.source.past = THREE
    for minutes in (64, 68, 72):
        second.run(minutes, FOURTH)
    assert attempts(second) == ALL
    assert len(second.parts.source.asked) == 2
    assert second.parts.store.backfill.read_gap(CLUSTER)[1] is None


def test_what_lies_too_far_back_is_no_longer_asked_for(lives):
    second = came_and_went(lives)
    second.parts.source.past = DOWN
    second.run(60, FOURTH)
    late = 8 * 24 * 60
    second.run(late, FOURTH)
    second.parts.source.past = ()
    for minutes in range(late + 61, late + 100):
        second.run(minutes, FOURTH)
    assert min(since for since, _ in second.parts.source.asked) >= at(late - 7 * 24 * 60)
    assert second.parts.store.backfill.read_gap(CLUSTER)[1] is None


@pytest.mark.parametrize("when", ["before the piece counts as told", "half way"])
@on_both_databases
def test_a_crash_between_the_answer_and_the_record_loses_nothing_and_records_nothing_twice(lives, monkeypatch, when):
    second = came_and_went(lives)
    store = type(second.parts.store.backfill)
    monkeypatch.setattr(backfill, "MAX_RECORDED", 1)
    real, calls = store.record, []

    def record_once(self, plan, awaiting):
        calls.append(plan)
        return real(self, plan, awaiting) if len(calls) == 1 else refuse()

    with monkeypatch.context() as patched:
        cut_off = ("record", record_once) if when == "half way" else ("record_gap", refuse)
        patched.setattr(store, *cut_off)
        with pytest.raises(StoreError, match="gone"):
            second.run(60, FOURTH)
    assert count_executions(second) == (4 if when == "half way" else 5)
    third = lives(60.5)
    third.run(61, FOURTH)
    assert attempts(third) == ALL
    assert count_executions(third) == 5


def refuse(*_args, **_kwargs):
    raise StoreError("gone")


def test_the_database_failing_for_a_moment_is_no_worse_than_a_crash(lives, monkeypatch):
    second = came_and_went(lives)
    with monkeypatch.context() as patched, contextlib.suppress(StoreError):
        patched.setattr(type(second.parts.store.backfill), "record", refuse)
        second.run(60, FOURTH)
    second.run(61, FOURTH)
    assert attempts(second) == ALL


def test_a_crash_before_the_directories_were_looked_for_does_not_leave_them_unknown(lives):
    second = came_and_went(lives)
    second.parts.source.jobs = (FOURTH, *OTHERS)
    poll.record_queue(second.parts, second.state, *poll.observe_queue(second.parts, second.state, at(60)), at(60))
    backfill.backfill_missed_jobs(second.parts, second.state, at(60))
    assert count_executions(second) == 5
    third = lives(61)
    third.run(62, FOURTH)
    assert attempts(third) == ALL
    third.run(63, FOURTH)
    assert third.parts.store.backfill.read_unscanned_jobs(CLUSTER) == {}


@on_both_databases
def test_a_file_system_that_hangs_at_first_is_asked_again(lives):
    second = came_and_went(lives)
    second.parts.agent.trouble = Unknown(what="agent", reason="it did not answer in time")
    second.run(60, FOURTH)
    second.run(66, FOURTH)
    assert (
        second.state.latest(MissedJobs).jobs.keys() == second.parts.store.backfill.read_unscanned_jobs(CLUSTER).keys()
    )
    assert len(second.state.latest(MissedJobs).jobs) == 2
    second.parts.agent.trouble = None
    second.run(78, FOURTH)
    assert attempts(second) == ALL
    second.run(79, FOURTH)
    assert second.parts.store.backfill.read_unscanned_jobs(CLUSTER) == {}


def test_thousands_of_them_are_looked_for_some_at_a_time(lives, monkeypatch):
    monkeypatch.setattr(missed_jobs, "MOST_VISITS", 3)
    monkeypatch.setattr(backfill, "MAX_RECORDED", 2)
    lives(0).run(0)
    second = lives(600)
    second.parts.source.past = tuple(make_past(number, number, number + 2) for number in range(2, 12))
    counts = []
    for minutes in range(600, 606):
        second.run(minutes)
        counts.append(len(second.parts.store.histories.read(CLUSTER, [RUN])[0].attempts))
    assert counts == [3, 6, 9, 10, 10, 10]
    assert second.state.latest(MissedJobs).jobs == {}


def test_an_end_that_nobody_knew_for_days_is_told_after_all(lives):
    lives(0).run(0, make_job(1))
    second = lives(3 * 24 * 60)
    second.parts.source.ended, second.parts.source.past = DOWN, DOWN
    second.run(3 * 24 * 60)
    assert attempts(second) == [(1, 0, None, EndCause.UNKNOWN)]
    second.parts.source.past = (make_past(1, -1, 20, STATES.TIMEOUT),)
    second.run(3 * 24 * 60 + 2)
    assert attempts(second) == [(1, 0, None, EndCause.TIME_LIMIT)]
    [line] = second.parts.store.lost_work.list_lines(RUN)
    assert (line.cause, line.ended_at) == (EndCause.TIME_LIMIT, at(20))
