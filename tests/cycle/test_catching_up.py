"""What ran, ended and was forgotten by slurmctld while the daemon was away is on record once it is back."""

import contextlib
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath

import pytest

from ckptd import cycle
from ckptd.core import unseen
from ckptd.core.model import EndCause, RestartKind, Unknown
from ckptd.cycle import catching_up
from ckptd.slurm.trouble import Trouble
from ckptd.store.engine import StoreError
from cycle.lives import OTHERS
from support.queue_facts import CLUSTER, RUN, STATES, at, make_checkpoint, make_job, make_past, make_row

DOWN = Unknown(what="accounting", reason="failed: slurmdbd does not answer")
NONE = Unknown(what="accounting", reason=f"{Trouble.MISSING}: this cluster keeps no accounting")


@pytest.fixture
def url(database_url):
    return database_url


def attempts(service):
    [history] = service.parts.store.read_histories(CLUSTER, [RUN])
    return [(a.job.job_id, a.restart_count, a.kind, a.cause) for a in history.attempts]


def count_executions(service):
    return sum(len(history.attempts) for history in service.parts.store.read_histories(CLUSTER)) - len(OTHERS)


THREE = (
    make_past(2, 25, 30, STATES.REQUEUED),
    make_past(2, 32, 40, STATES.TIMEOUT, submitted=30),
    make_past(3, 45, 50, STATES.FAILED),
)
ALL = [
    (1, 0, None, EndCause.NODE_FAILURE),
    (2, 0, RestartKind.RESUBMIT, EndCause.REQUEUE),
    (2, 1, RestartKind.REQUEUE, EndCause.TIME_LIMIT),
    (3, 0, RestartKind.RESUBMIT, EndCause.FAILURE),
    (4, 0, RestartKind.RESUBMIT, None),
]


def came_and_went(lives):
    """Job 1 ended while nobody looked, 2 and 3 came and went, and 4 runs when the daemon is back."""
    lives(0).run(0, make_job(1))
    second = lives(60)
    second.parts.source.ended = (make_row(1, -1, 20, STATES.NODE_FAIL),)
    second.parts.source.past = THREE
    return second


FOURTH = make_job(4, submitted_at=at(51), started_at=at(52), ends_at=at(200))


def test_jobs_that_came_and_went_are_in_their_run_in_the_order_of_their_time(lives):
    second = came_and_went(lives)
    second.run(60, FOURTH)
    assert attempts(second) == ALL
    assert [(a.started_at, a.ended_at) for a in second.parts.store.read_histories(CLUSTER, [RUN])[0].attempts][1:4] == [
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
    second.parts = replace(second.parts, catching_up=None)
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
    assert second.parts.store.read_gap(CLUSTER)[1] is None


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
    assert second.parts.store.read_gap(CLUSTER)[1] is None


@pytest.mark.parametrize("when", ["before the piece counts as told", "half way"])
def test_a_crash_between_the_answer_and_the_record_loses_nothing_and_records_nothing_twice(lives, monkeypatch, when):
    second = came_and_went(lives)
    store = type(second.parts.store)
    monkeypatch.setattr(catching_up, "MAX_RECORDED", 1)
    real, calls = store.record_past, []

    def record_once(self, plan, awaiting):
        calls.append(plan)
        return real(self, plan, awaiting) if len(calls) == 1 else refuse()

    with monkeypatch.context() as patched:
        cut_off = ("record_past", record_once) if when == "half way" else ("record_gap", refuse)
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
        patched.setattr(type(second.parts.store), "record_past", refuse)
        second.run(60, FOURTH)
    second.run(61, FOURTH)
    assert attempts(second) == ALL


def test_a_crash_before_the_directories_were_looked_for_does_not_leave_them_unknown(lives):
    second = came_and_went(lives)
    second.parts.source.jobs = (FOURTH, *OTHERS)
    cycle.record_queue(second.parts, second.state, *cycle.observe_queue(second.parts, second.state, at(60)), at(60))
    cycle.catch_up(second.parts, second.state, at(60))
    assert count_executions(second) == 5
    third = lives(61)
    third.run(62, FOURTH)
    assert attempts(third) == ALL
    third.run(63, FOURTH)
    assert third.parts.store.read_awaiting(CLUSTER) == {}


def test_a_file_system_that_hangs_at_first_is_asked_again(lives):
    second = came_and_went(lives)
    second.parts.agent.trouble = Unknown(what="agent", reason="it did not answer in time")
    second.run(60, FOURTH)
    second.run(66, FOURTH)
    assert second.state.unseen.jobs.keys() == second.parts.store.read_awaiting(CLUSTER).keys()
    assert len(second.state.unseen.jobs) == 2
    second.parts.agent.trouble = None
    second.run(78, FOURTH)
    assert attempts(second) == ALL
    second.run(79, FOURTH)
    assert second.parts.store.read_awaiting(CLUSTER) == {}


def test_what_was_saved_counts_by_the_times_of_the_files_and_the_lines_are_settled(lives):
    second = came_and_went(lives)
    second.parts.agent.checkpoints = (make_checkpoint("a", 27), make_checkpoint("b", 36), make_checkpoint("c", 46))
    second.run(60, FOURTH)
    lines = second.parts.store.read_losses(RUN)
    assert [(line.attempt[0].job_id, line.loss.lost / timedelta(minutes=1)) for line in lines] == [
        (1, 21),
        (2, 3),
        (2, 4),
        (3, 4),
    ]
    assert [line.is_settled for line in lines] == [True] * 4


def test_work_whose_saves_may_have_been_overwritten_is_not_taken_for_known(lives):
    second = came_and_went(lives)
    second.parts.agent.checkpoints = (make_checkpoint("last.pt", 58),)  # which job 4 wrote over whatever was there
    second.run(60, FOURTH)
    lines = second.parts.store.read_losses(RUN)[1:]
    assert [line.is_settled for line in lines] == [False] * 3
    assert [line.loss.lost for line in lines] == [each.ended_at - each.started_at for each in THREE]


def test_an_unseen_attempt_that_nobody_followed_lost_what_the_disk_says(lives):
    second = came_and_went(lives)
    second.run(60)  # job 4 never was
    line = second.parts.store.read_losses(RUN)[-1]
    assert (line.attempt[0].job_id, line.is_settled, line.loss.lost) == (3, True, timedelta(minutes=5))


def test_rules_count_attempts_that_nobody_saw(lives):
    second = came_and_went(lives)
    waiting_behind = replace(FOURTH, submitted_at=at(30))  # submitted when the others had failed it might be mended
    second.run(60, waiting_behind)
    second.run(61, waiting_behind)
    flags = {flag.finding.rule: flag for flag in second.parts.store.read_open_flags(CLUSTER) if flag.finding.run == RUN}
    assert {"restart-loop", "restarted-without-checkpoint"} <= flags.keys()
    assert flags["restart-loop"].finding.job_id == 4


def test_jobs_that_are_over_open_no_flags_and_so_nobody_is_told_of_them(lives):
    lives(0).run(0)
    second = lives(600)
    second.parts.source.past = tuple(make_past(number, number, number + 2) for number in range(2, 60))
    for minutes in range(600, 604):
        second.run(minutes)
    assert len(attempts(second)) == 58
    flags = second.parts.store.read_flags(CLUSTER, include_resolved=True)
    assert {flag.finding.user for flag in flags} == {"bob"}  # whose jobs are in the queue


def test_thousands_of_them_are_looked_for_some_at_a_time(lives, monkeypatch):
    monkeypatch.setattr(unseen, "MOST_VISITS", 3)
    monkeypatch.setattr(catching_up, "MAX_RECORDED", 2)
    lives(0).run(0)
    second = lives(600)
    second.parts.source.past = tuple(make_past(number, number, number + 2) for number in range(2, 12))
    counts = []
    for minutes in range(600, 606):
        second.run(minutes)
        counts.append(len(second.parts.store.read_histories(CLUSTER, [RUN])[0].attempts))
    assert counts == [3, 6, 9, 10, 10, 10]
    assert second.state.unseen.jobs == {}


def test_the_number_of_a_running_job_may_have_been_anothers_while_nobody_looked(lives):
    lives(0).run(0, make_job(1))
    second = lives(60)
    second.parts.source.ended = (make_row(1, -1, 20, STATES.NODE_FAIL),)
    second.parts.source.past = (make_past(1, 25, 30, uid=3000, user="carol"), make_past(1, 35, 40))
    wrapped = make_job(1, submitted_at=at(50), started_at=at(51), ends_at=at(200))
    second.run(60, wrapped)
    second.run(61, wrapped)
    assert [(job, kind, cause) for job, _, kind, cause in attempts(second)] == [
        (1, None, EndCause.NODE_FAILURE),
        (1, RestartKind.RESUBMIT, EndCause.FAILURE),
        (1, RestartKind.RESUBMIT, None),
    ]
    assert second.state.tracked[1].job.started_at == at(51)
    assert second.state.tracked[1].run == RUN
    [carols] = [h for h in second.parts.store.read_histories(CLUSTER) if h.key.uid == 3000]
    assert [a.ended_at for a in carols.attempts] == [at(30)]


def test_where_a_job_is_found_is_not_said_of_the_one_that_has_its_number_now(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts.source.past = (make_past(1, 35, 40),)
    carols = make_job(1, uid=3000, user="carol", submitted_at=at(50), started_at=at(51), ends_at=at(200))
    second.run(60, carols)
    assert [(job, cause) for job, _, _, cause in attempts(second)] == [(1, EndCause.FAILURE)]
    assert second.state.tracked[1].run.uid == 3000
    assert lives(61).state.tracked[1].run.uid == 3000


def test_a_job_on_record_that_ran_again_unseen_gets_what_is_missing(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.run(4, make_job(1, STATES.NODE_FAIL, ends_at=at(3)))
    second = lives(60)
    second.parts.source.past = (make_past(1, 10, 30, STATES.TIMEOUT, submitted=3),)
    second.run(60)
    assert attempts(second) == [
        (1, 0, None, EndCause.NODE_FAILURE),
        (1, 1, RestartKind.REQUEUE, EndCause.TIME_LIMIT),
    ]
    assert [line.is_settled for line in second.parts.store.read_losses(RUN)] == [True, True]


def test_what_ran_before_a_job_was_first_seen_takes_its_place_in_the_run(lives):
    lives(0).run(0, make_job(1))
    second = lives(60)
    second.parts.source.ended, second.parts.source.past = DOWN, DOWN
    again = make_job(5, STATES.RUNNING, 1, submitted_at=at(40), started_at=at(42), ends_at=at(200))
    second.run(60, again)
    assert attempts(second) == [(1, 0, None, EndCause.UNKNOWN), (5, 1, RestartKind.REQUEUE, None)]
    second.parts.source.past = (make_past(1, -1, 20), make_past(5, 30, 40, STATES.REQUEUED))
    second.run(62, again)
    assert attempts(second) == [
        (1, 0, None, EndCause.FAILURE),
        (5, 0, RestartKind.RESUBMIT, EndCause.REQUEUE),
        (5, 1, RestartKind.REQUEUE, None),
    ]


def test_what_broke_them_off_counts_as_it_will_after_a_restart(lives):
    second = came_and_went(lives)
    second.parts.source.past += (make_past(8, 30, 50, STATES.NODE_FAIL, uid=3000),)
    tally = second.run(60, FOURTH).interruptions
    assert (tally.interruption_count, tally.observed) == (2, timedelta(minutes=21 + 5 + 8 + 5 + 20))
    assert lives(61).run(61, FOURTH).interruptions == tally
    ended = second.state.totals.ended_attempts
    assert (ended[EndCause.TIME_LIMIT], ended[EndCause.FAILURE], ended[EndCause.NODE_FAILURE]) == (1, 1, 2)


def test_an_end_that_nobody_knew_for_days_is_told_after_all(lives):
    lives(0).run(0, make_job(1))
    second = lives(3 * 24 * 60)
    second.parts.source.ended, second.parts.source.past = DOWN, DOWN
    second.run(3 * 24 * 60)
    assert attempts(second) == [(1, 0, None, EndCause.UNKNOWN)]
    second.parts.source.past = (make_past(1, -1, 20, STATES.TIMEOUT),)
    second.run(3 * 24 * 60 + 2)
    assert attempts(second) == [(1, 0, None, EndCause.TIME_LIMIT)]
    [line] = second.parts.store.read_losses(RUN)
    assert (line.cause, line.ended_at) == (EndCause.TIME_LIMIT, at(20))


def test_a_run_that_its_limit_ended_while_nobody_looked_may_still_go_on(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts.source.past = (make_past(2, 25, 40, STATES.TIMEOUT),)
    second.run(60)
    assert second.finished() == {}  # nobody knows yet that nothing else came of it
    second.run(61)
    assert {run: (each.job.job_id, each.is_settled) for run, each in second.finished().items()} == {RUN: (2, True)}


def test_a_run_that_may_have_gone_on_unseen_is_not_submitted_again(lives):
    first = lives(0)
    first.run(0, make_job(1))
    first.run(4, make_job(1, STATES.TIMEOUT, ends_at=at(3)))
    second = lives(30)
    second.parts.source.past = DOWN
    second.run(30)
    assert second.finished() == {}
    second.parts.source.past = (make_past(2, 5, 20),)
    for minutes in (32, 33, 37, 41):
        second.run(minutes)
        assert second.finished() == {}  # something may still come late
    second.run(43)
    assert RUN in second.finished()  # where the attempt is no longer the run's latest: nothing comes of it
    assert [each[0] for each in attempts(second)] == [1, 2]


def test_of_a_job_whose_number_is_anothers_now_no_script_is_read(lives):
    lives(0).run(0)
    second = lives(60)
    second.parts = replace(second.parts, reads_batch_scripts=True)
    read = []
    second.parts.source.read_batch_script = lambda job_id: read.append(job_id) or DOWN
    second.parts.source.past = (make_past(3, 25, 40), make_past(4, 25, 40, uid=3000))
    second.run(60, FOURTH)
    assert sorted(read) == [3, 4, *(job.job_id for job in OTHERS)]  # of job 4 that of the one that runs


def test_another_job_in_the_same_place_makes_a_directory_nobodys(lives):
    """The disk's answers are found by a look around, where two jobs of other work ran at the same time."""
    lives(0).run(0)
    second = lives(60)
    second.parts.agent.located_by = "discovery"
    home = {"work_dir": PurePosixPath(RUN.directory).parent}
    second.parts.source.past = (make_past(2, 25, 40, name="a", **home), make_past(3, 30, 50, name="b", **home))
    second.run(60)
    assert second.parts.store.read_histories(CLUSTER, [RUN]) == []
    third = lives(70)
    third.parts.source.past = (make_past(4, 62, 66, name="c", **home),)
    third.run(80)
    assert attempts(third) == [(4, 0, None, EndCause.FAILURE)]
